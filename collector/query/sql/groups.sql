-- One row per fingerprint. Spread: of the sessions that used the tool at all, the share that met this error.
with matching as (
  select fingerprint, arg_max(error_class, time_ns) as error_class, arg_max(tool, time_ns) as tool,
    arg_max(operation, time_ns) as operation, arg_max(template, time_ns) as template, arg_max(message, time_ns) as sample,
    arg_max(event_id, time_ns) as newest_event_id, count(*) as events,
    count(distinct case when session is not null then hash(service, session) end) as sessions
  from {source} where {where}
  group by fingerprint
),
uses as (
  select operation as used_operation, tool as used_tool, count(distinct hash(service, session)) as sessions_of_tool
  from events where {call_where} and session is not null
  group by all
),
ever as (
  select fingerprint as ever_fingerprint, min(time_ns) as first_seen, max(time_ns) as last_seen
  from events semi join matching on events.fingerprint = matching.fingerprint
  group by all
),
described as (
  select *, {spread} as spread, case when first_seen >= $start_ns then 'new' else 'ongoing' end as state
  from matching join ever on fingerprint = ever_fingerprint
    left join uses on operation is not distinct from used_operation and tool is not distinct from used_tool
)
select {columns} from described where {state}
