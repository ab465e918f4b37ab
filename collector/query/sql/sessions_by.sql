-- Distinct sessions of each value of {keys}, as count(distinct …) finds them. A session is one row with a bit for each of 64 values that it met: as
-- many rows as sessions, where pairs of a session and a value took twice the time.
with numbers as materialized (
  select *, hash({keys}) as code, (number // 64)::integer as page, 1::ubigint << (number % 64)::integer as bit
  from (select {keys}, row_number() over () - 1 as number from (select distinct {named} from {seen} where {where}))
),
met as not materialized (
  select {named}, {earlier} as earlier, hash(service, session) as whose from {source} where {where} and session is not null
),
masks as (
  select page, earlier, mask, count(*) as sessions
  from (select page, earlier, whose, bit_or(bit) as mask from met join numbers on hash({of_met}) = code group by page, earlier, whose)
  group by all
)
select {of_numbers}, {values}
from numbers join masks using (page) where mask & bit != 0
group by {of_numbers}
