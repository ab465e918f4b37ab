-- The number of distinct sessions for each value of {keys}, equal to count(distinct …). For every 64 values, each session is one row with a bit
-- for each value that it has. Rows of a session and a value each took twice the time.
with numbers as materialized (
  select *, hash({keys}) as code, (number // 64)::integer as page, 1::ubigint << (number % 64)::integer as bit
  from (select {keys}, row_number() over (order by {keys}) - 1 as number from (select distinct {named} from {seen} where {where}))
),
met as not materialized (
  select {named}, {earlier} as earlier, hash(project, service, session) as whose from {source} where {where} and session is not null
),
masks as (
  select page, earlier, mask, count(*) as sessions
  from (select page, earlier, whose, bit_or(bit) as mask from met join numbers on hash({of_met}) = code group by page, earlier, whose)
  group by all
)
select {of_numbers}, {values}
from numbers join masks using (page) where mask & bit != 0
group by {of_numbers}
