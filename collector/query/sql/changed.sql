-- For every value of a dimension and each side, the sums over its sessions. Sessions are grouped by a 64-bit hash of their names: the chance
-- that two of 300,000 share a hash is 1 in 400 million, and grouping by the names takes half as long again.
select '{name}' as dimension, value, side, {sums}
from (
  select "{name}"::varchar as value, {side} as side, count(*) filter ({part}) as part, count(*) as whole
  from {source} where {where} and {only}
  group by 1, 2, {session}
)
group by all
