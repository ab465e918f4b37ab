-- Chains one by one, as hourly_chains.sql counts them.
select * replace (retried::int as retried, coalesce(honoured, false)::int as honoured), 1 as errors, coalesce(recovered, false)::int as repaired,
  recovered_identical::int as repaired_identical, recovered_changed::int as repaired_changed, identical_retry::int as identical_retries,
  (honoured is not null)::int as told_to_wait, (retryable_declared is not null)::int as declared,
  coalesce(retryable_declared, false)::int as declared_retryable, (retried and coalesce(not recovered, false))::int as lost
from ({chains})
