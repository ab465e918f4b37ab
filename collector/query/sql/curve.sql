-- How many of the retried errors had recovered by the n-th attempt, and within n seconds.
with tried as (
  select {keys}attempts, seconds from ({judged}) where {where} and retried and {rated}
),
reached as (
  select {keys}'attempts' as axis, "at", count(*) as retried, count(*) filter (attempts <= "at") as recovered
  from tried, unnest({attempts}) as steps("at") group by all
  union all
  select {keys}'seconds' as axis, "at", count(*) as retried, count(*) filter (seconds <= "at") as recovered
  from tried, unnest({seconds}) as steps("at") group by all
)
select {keys}axis, "at", retried, recovered, {rate} as recovery_rate, {low} as low, {high} as high from reached
