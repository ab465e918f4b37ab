-- What became of the errors with a session. The rate is only of sources that also report successes. The engine's median holds every value: here
-- errors are counted by attempts and by narrow ranges of seconds (`part`), and only ranges in which a median lies are read again.
with chains as not materialized (
  select * from ({judged}) where {where} and begins
),
parts as materialized (
  select {keys}attempts, (16 * log2(greatest(seconds, 1e-3)))::int as part, min(seconds) as low, max(seconds) as high,
    count(*) as errors,
    count(*) filter (retried) as retried,
    count(*) filter (retried and {rated}) as rated,
    count(*) filter (retried and recovered) as rated_recovered,
    count(*) filter (recovered) as recovered,
    count(*) filter (recovered_identical) as recovered_identical,
    count(*) filter (recovered_changed) as recovered_changed,
    count(*) filter (identical_retry) as identical_retries,
    count(*) filter (retried and recovered = false) as wasted_retries,
    count(honoured) as told_to_wait,
    count(*) filter (honoured) as honoured,
    count(retryable_declared) as declared,
    count(*) filter (retryable_declared) as declared_retryable,
    count(recovery) as described,
    count(*) filter (recovery in ('retry', 'fix_and_retry')) as taxonomy_retryable
  from chains group by {keys}attempts, part
),
ranks as (              -- from 0 to `last`: those of the two middle values are last // 2 and (last + 1) // 2
  select {keys}attempts, low, high,
    sum(errors) over (partition by {keys}true order by attempts) as upto_attempts,
    sum(errors) over in_order as upto_seconds,
    coalesce(sum(errors) over (in_order range between unbounded preceding and 1 preceding), 0) as before_seconds,
    sum(errors) over (in_order range between unbounded preceding and unbounded following) - 1 as last
  from parts where recovered > 0
  window in_order as (partition by {keys}true order by part)
),
middles as (
  select {keys}any_value(last) as last,
    (min(attempts) filter (upto_attempts > last // 2) + min(attempts) filter (upto_attempts > (last + 1) // 2)) / 2 as median_attempts,
    min(low) filter (upto_seconds > last // 2) as low, max(high) filter (before_seconds <= (last + 1) // 2) as high,
    min(before_seconds) filter (upto_seconds > last // 2) as before
  from ranks {group}
),
medians as (
  select {keys}any_value(median_attempts) as median_attempts,
    (min(seconds) filter (upto > last // 2) + min(seconds) filter (upto > (last + 1) // 2)) / 2 as median_seconds
  from (
    select {of_middles}seconds, last, median_attempts, before + sum(count(*)) over (partition by {of_middles}true order by seconds) as upto
    from chains join middles on {same} and seconds between low and high
    group by {of_middles}seconds, last, median_attempts, before
  )
  {group}
)
select {of_totals}errors, retried, rated, recovered, errors - recovered as lasting, recovered_identical, recovered_changed,
  {rate} as recovery_rate, {low} as low, {high} as high,
  identical_retries, wasted_retries, median_attempts, median_seconds, told_to_wait, honoured,
  declared, declared_retryable, taxonomy_retryable,
  case when declared > 0 then 2 * declared_retryable >= declared when described > 0 then 2 * taxonomy_retryable >= errors end as said_retryable,
  case
    when rated < {few} or said_retryable is null then 'unclear'
    when said_retryable and {high} < {seldom} then 'seldom_works'
    when not said_retryable and {low} > {often} then 'often_works'
    when said_retryable and {low} > {seldom} or not said_retryable and {high} < {often} then 'agrees'
    else 'unclear'
  end as verdict,
  case verdict when 'seldom_works' then rated - rated_recovered when 'often_works' then rated_recovered else 0 end as disagreement
from (
  select {keys}coalesce(sum(columns(* exclude ({keys}attempts, part, low, high))), 0)::bigint from parts {group}
) as totals left join medians on {same_totals}
