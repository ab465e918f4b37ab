-- What became of the errors with a session. The rate is only of sources that also report successes.
-- The median of attempts comes from counts of each number: `median` would hold a number for every error.
with found as not materialized (select * from ({judged}) where {where} and begins),
middles as (            -- of an even number, the two in the middle
  select {keys}avg(attempts) as median_attempts
  from (
    select *, sum(errors) over (partition by {parts} order by attempts) as so_far, sum(errors) over (partition by {parts}) as every
    from (select {keys}attempts, count(*) as errors from found where attempts is not null group by all)
  )
  where so_far - errors < (every + 2) // 2 and so_far >= (every + 1) // 2
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
  select {keys}
    count(*) as errors,
    count(*) filter (retried) as retried,
    count(*) filter (retried and {rated}) as rated,
    count(*) filter (retried and recovered) as rated_recovered,
    count(*) filter (recovered) as recovered,
    count(*) filter (recovered is distinct from true) as lasting,
    count(*) filter (recovered_identical) as recovered_identical,
    count(*) filter (recovered_changed) as recovered_changed,
    count(*) filter (identical_retry) as identical_retries,
    count(*) filter (retried and recovered = false) as wasted_retries,
    count(honoured) as told_to_wait,
    count(*) filter (honoured) as honoured,
    median(seconds) as median_seconds,
    count(retryable_declared) as declared,
    count(*) filter (retryable_declared) as declared_retryable,
    count(*) filter (recovery in ('retry', 'fix_and_retry')) as taxonomy_retryable,
    case when declared > 0 then 2 * declared_retryable >= declared
      when count(recovery) > 0 then 2 * taxonomy_retryable >= count(*) end as said_retryable
  from found
  {group}
) left join (select {renamed}median_attempts from middles) on {same}
