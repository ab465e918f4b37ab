-- What failing costs: everything that happened in a session between the first mistake of a streak and the success that ended it (or else its
-- last mistake), and retries of errors that no later attempt repaired. Both sums are read from what the store keeps of streaks and chains.
with halves as (
  select {keys}count(*) as streaks, sum(length) as mistakes, sum(calls) as calls, sum(until_ns - started) / 1e9 as seconds,
    sum(busy_ms) as busy_ms, sum(told) as told, sum(input_tokens) as input_tokens, sum(output_tokens) as output_tokens,
    sum(cost_usd) as cost_usd
  from (
    select {firsts}length, started, until_ns, calls, busy_ms, told, input_tokens, output_tokens, cost_usd from ({streaks}))
  {group}
  union all by name
  select {keys}count(*) as wasted_retries, sum(next_duration_ms) as wasted_ms,
    count(coalesce(next_input_tokens, next_output_tokens)) as wasted_told, sum(next_input_tokens) as wasted_input_tokens,
    sum(next_output_tokens) as wasted_output_tokens, sum(next_cost_usd) as wasted_cost_usd
  from ({judged}) where {where} and retried and recovered = false
  {group}
)
select {keys}{sums} from halves {group}
