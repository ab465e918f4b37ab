-- For every value of a dimension and each side, the sums over its sessions. These are grouped by a 64-bit hash of their names: 300,000 of
-- them share one with a chance of 1 in 400 million, and grouping by the names costs half as much again.
select value, side, count(*) as sessions, sum(part)::double as part, sum(whole)::double as whole,
  sum(part * part)::double as parts2, sum(part * whole)::double as cross, sum(whole * whole)::double as wholes2
from (
  select {name} as value, {side} as side, count(*) filter ({part}) as part, count(*) as whole
  from {source} where {where} and {whole}
  group by 1, 2, case when session is null then event_id else hash(service, session) end
)
group by value, side
