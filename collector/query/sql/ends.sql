-- How each session ended that has an event since the range began, whatever else the question selects. The last event of each operation counts;
-- a model request or an agent's run that did not fail says nothing of the work before it, so that beside those only a tool call counts. `state`
-- is open while more may come: until the service went on for an hour without the session, or nothing of it was received for an hour.
select whose as ended_whose, last.outcome as last_outcome, last.error_class as last_class, last.tool as last_tool, last.event_id as last_event_id,
  heard_ns as last_received,
  case
    when coalesce(newest_ns - ended_ns <= {idle}, true) and $clock_ns - heard_ns <= {idle} then 'open'
    when last.rated then last.outcome
    else 'unknown'
  end as state,
  case when state = 'error' then last_class end as ended_in
from (
  select whose, max(heard_ns) as heard_ns, max(last.place.time) as ended_ns,
    arg_max(last, {{'counts': last.operation = 'tool' or last.outcome not in ('ok', 'unknown'), 'place': last.place}}) as last
  from (
    select hash(project, service, session) as whose, max(received_ns) as heard_ns,
      arg_max({{'place': {place}, 'project': project, 'service': service, 'operation': operation, 'outcome': outcome, 'error_class': error_class, 'tool': tool,
        'event_id': event_id, 'rated': {rated}}}, {place}) as last
    from events {among}
    where time_ns >= {start} and session is not null and {whose}
    group by whose, operation
  )
  group by whose
) left join (select project as newest_project, service as newest_service, time_ns as newest_ns from kept_newest) on last.service is not distinct from newest_service
  and last.project is not distinct from newest_project
