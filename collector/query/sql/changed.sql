-- For every value of a dimension and each side, the sums over its sessions. These are grouped by a 64-bit hash of their names: 300,000 of
-- them share one with a chance of 1 in 400 million, and grouping by the names costs half as much again.
select '{name}' as dimension, value, side, {sums}
from (
  select "{name}"::varchar as value, {side} as side, count(*) filter ({part}) as part, count(*) as whole
  from {source} where {where} and {only}
  group by 1, 2, {session}
)
group by all
