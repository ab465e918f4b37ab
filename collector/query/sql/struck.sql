-- Sessions with tool calls, and whether one of their streaks reached {limit}.
select {keys}side, max(part) as part, 1 as whole
from (
  select {keys}{side} as side, service, session, 0 as part
  from {source} where {where} and operation = 'tool' and session is not null
  union all
  select {keys}{side} as side, service, session, 1 as part
  from (select {firsts}service, session, ended as time_ns from ({streaks}) where length >= {limit})
)
where side is not null
group by {keys}side, service, session
