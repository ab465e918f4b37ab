-- Part and whole of each measure in each session of each side. An event without a session is a session of its own. Conditions become columns
-- before they are counted: inside aggregates, each would be evaluated once for every aggregate.
select {keys}side, whose, {counts}
from (
  select {keys}{side} as side, case when session is null then event_id else hash(project, service, session) end as whose, {events}{marked}
  from {source} where {where}
  {struck}
)
where side is not null
group by {keys}side, whose
