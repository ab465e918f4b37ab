-- Errors with a session, and what became of each: a rate only over sources that also report successes.
select {keys}errors, retried, rated, recovered, lasting, recovered_identical, recovered_changed,
  {rate} as recovery_rate, {low} as low, {high} as high,
  identical_retries, median_attempts, median_seconds, declared, declared_retryable, taxonomy_retryable
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
    median(attempts) as median_attempts,
    median(seconds) as median_seconds,
    count(retryable_declared) as declared,
    count(*) filter (retryable_declared) as declared_retryable,
    count(*) filter (recovery in ('retry', 'fix_and_retry')) as taxonomy_retryable
  from ({judged})
  where {where} and begins
  {group}
)
