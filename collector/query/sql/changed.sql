-- For every value of a dimension and each side, the sums over its sessions. Sessions are grouped by a 64-bit hash of their names: the chance
-- that two of 300,000 share a hash is 1 in 400 million, and grouping by the names takes half as long again. Only sums become text: millions of
-- rows with a text for the value and one for the side do not fit into memory.
select '{name}' as dimension, value::varchar as value, case when present then 'b' else 'a' end as side, {sums}
from (
  select "{name}" as value, {present} as present, count(*) filter ({part}) as part, count(*) as whole
  from {source} where {where} and {only}
  group by 1, 2, {session}
)
group by value, present
