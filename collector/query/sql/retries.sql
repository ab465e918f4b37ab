-- What became of the errors with a session, from counts of alike ones. The rate is only of sources that also report successes.
-- The median of attempts comes from counts of each number: `median` would hold a number for every error.
with alike as materialized (
  select {keys}attempts, recovery, {rated} as comparable, {counts} from ({counted}) where {where} group by {keys}attempts, recovery, comparable
),
tries as (              -- of an even number, the two in the middle
  select {keys}avg(attempts) as median_attempts
  from (
    select *, sum(errors) over (partition by {parts} order by attempts) as so_far, sum(errors) over (partition by {parts}) as every
    from (select {keys}attempts, sum(errors) as errors from alike where attempts is not null and comparable group by all)
  )
  where so_far - errors < (every + 2) // 2 and so_far >= (every + 1) // 2
  {group}
),
waits as (
  select {named}median_seconds from ({waits})
)
select {found}errors, retried, rated, recovered, lasting, errors - recovered - lasting as not_known_yet, recovered_identical, recovered_changed,
  {rate} as recovery_rate, {low} as low, {high} as high,
  identical_retries, wasted_retries, median_attempts, median_seconds, told_to_wait, honoured,
  declared, declared_retryable, taxonomy_retryable,
  case when declared > 0 then 2 * declared_retryable >= declared when classed > 0 then 2 * taxonomy_retryable >= classed end as said_retryable,
  case
    when rated < {few} or said_retryable is null then 'unclear'
    when said_retryable and {high} < {seldom} then 'seldom_works'
    when not said_retryable and {low} > {often} then 'often_works'
    when said_retryable and {low} > {seldom} or not said_retryable and {high} < {often} then 'agrees'
    else 'unclear'
  end as verdict,
  case verdict when 'seldom_works' then rated - recovered when 'often_works' then recovered else 0 end as disagreement
from (
  select {keys}{sums} from alike {group}
) as found left join tries on {same_tries} left join waits on {same_waits}
