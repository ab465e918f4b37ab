-- Sessions of each scope in each third of the time from the oldest call to the end, and those of each model with its newest call.
with calls as (
  select coalesce(repository, service, '') as scope, session, model, time_ns from events
  where {where} and operation = 'tool' and session is not null
), span as (
  select min(time_ns) as oldest, greatest(1, ({until} - min(time_ns)) // 3) as third from calls
), placed as (
  select calls.*, oldest, least(2, (time_ns - oldest) // third)::bigint as third from calls, span
)
select scope, null as model, third, count(distinct session)::bigint as sessions, max(time_ns) as newest, any_value(oldest) as oldest
from placed group by scope, third
union all
select scope, model, null, count(distinct session)::bigint, max(time_ns), any_value(oldest) from placed
where model is not null group by scope, model
