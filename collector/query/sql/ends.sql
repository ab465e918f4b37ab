-- How each session ended that has an event since the range began, whatever else the question selects. The last event of each operation counts;
-- a model request or an agent's run that did not fail says nothing of the work before it, so that beside those only a tool call counts. `state`
-- is open while more may come: until the service went on for an hour without the session, or nothing of it was received for an hour. Last events
-- are found by numbers, first by time alone, and their texts read at the end: what is wider does not fit into memory.
with ended as materialized (
  select hash(project, service, session) as whose, hash(operation) as kind, max(time_ns) as ended_ns, max(received_ns) as heard_ns
  from events {among}
  where time_ns >= {start} and session is not null and {whose}
  group by whose, operation
),
lately as (
  select hash(project, service, session) as whose, hash(operation) as kind, time_ns, event_id, coalesce(sequence, {last}) as place,
    operation = 'tool' or outcome not in ('ok', 'unknown') as counts
  from events semi join ended on events.time_ns = ended.ended_ns
  where time_ns >= {start} and session is not null
)
select whose as ended_whose, outcome as last_outcome, error_class as last_class, tool as last_tool, event_id as last_event_id, heard_ns as last_received,
  case
    when coalesce(newest_ns - ended_ns <= {idle}, true) and $clock_ns - heard_ns <= {idle} then 'open'
    when {rated} then outcome
    else 'unknown'
  end as state,
  case when state = 'error' then last_class end as ended_in
from (
  select whose, max(heard_ns) as heard_ns, max(ended_ns) as ended_ns, arg_max(id, {{'counts': counts, 'time': ended_ns, 'place': place}}) as last_id
  from (
    select lately.whose, any_value(ended_ns) as ended_ns, max(heard_ns) as heard_ns, max({place}) as place, arg_max(event_id, {place}) as id,
      arg_max(counts, {place}) as counts
    from lately join ended on lately.whose = ended.whose and lately.kind = ended.kind and lately.time_ns = ended.ended_ns
    group by lately.whose, lately.kind
  )
  group by whose
) as last join (
  select event_id, project, service, source, outcome, error_class, tool from events where time_ns >= {start} and session is not null
) as events on events.event_id = last.last_id
  left join (select project as newest_project, service as newest_service, time_ns as newest_ns from kept_newest)
    on events.service is not distinct from newest_service and events.project is not distinct from newest_project
