-- How many of the retried errors had recovered by the n-th attempt, and within n seconds. They are counted by the first steps that they reach
-- before these are compared: each error beside each step would be ten times as many rows.
with reached as (
  select {keys}{attempts_reached} as attempts, {seconds_reached} as seconds, count(*) as many
  from ({chains}) where {where} and retried and {rated}
  group by all
),
counted as (
  select {keys}'attempts' as axis, "at", sum(many)::bigint as retried, coalesce(sum(many) filter (attempts <= "at"), 0)::bigint as recovered
  from reached, unnest({attempts}) as steps("at") group by all
  union all
  select {keys}'seconds' as axis, "at", sum(many)::bigint as retried, coalesce(sum(many) filter (seconds <= "at"), 0)::bigint as recovered
  from reached, unnest({seconds}) as steps("at") group by all
)
select {keys}axis, "at", retried, recovered, {rate} as recovery_rate, {low} as low, {high} as high from counted
