-- What became of the errors with a session. The rate is only of sources that also report successes.
-- Errors that are alike in all that is counted are counted first: adding each to twenty sums takes twice as long. The median of attempts comes
-- from these counts too: `median` would hold a number for every error.
with found as not materialized (select * from ({judged}) where {where} and begins),
alike as materialized (
  select {keys}attempts, retried, {rated} as rated, recovered, same, identical_retry, honoured, retryable_declared, recovery, count(*) as many
  from found group by all
),
middles as (            -- of an even number, the two in the middle
  select {keys}avg(attempts) as attempts
  from (
    select *, sum(errors) over (partition by {parts} order by attempts) as so_far, sum(errors) over (partition by {parts}) as every
    from (select {keys}attempts, sum(many) as errors from alike where attempts is not null group by all)
  )
  where so_far - errors < (every + 2) // 2 and so_far >= (every + 1) // 2
  {group}
),
medians as (
  select {renamed}any_value(attempts) as median_attempts, any_value(seconds) as median_seconds
  from (from middles union all by name select {keys}median(seconds) as seconds from found {group})
  {group}
)
select {keys}errors, retried, rated, recovered, lasting, recovered_identical, recovered_changed,
  {rate} as recovery_rate, {low} as low, {high} as high,
  identical_retries, wasted_retries, median_attempts, median_seconds, told_to_wait, honoured,
  declared, declared_retryable, taxonomy_retryable, said_retryable,
  case
    when rated < {few} or said_retryable is null then 'unclear'
    when said_retryable and {high} < {seldom} then 'seldom_works'
    when not said_retryable and {low} > {often} then 'often_works'
    when said_retryable and {low} > {seldom} or not said_retryable and {high} < {often} then 'agrees'
    else 'unclear'
  end as verdict,
  case verdict when 'seldom_works' then rated - rated_recovered when 'often_works' then rated_recovered else 0 end as disagreement
from (
  select {keys}{sums},
    case when declared > 0 then 2 * declared_retryable >= declared
      when count(recovery) > 0 then 2 * taxonomy_retryable >= errors end as said_retryable
  from alike
  {group}
) left join medians on {same}
