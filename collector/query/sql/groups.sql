-- One row per fingerprint. Spread: of the sessions that used the tool at all, the share that met this error. Trend: events in each
-- of {slots} equal parts of the range, oldest first; what lies beyond its end (a clock that is ahead) counts in the last.
with matching as (
  select fingerprint, arg_max(error_class, time_ns) as error_class, arg_max(tool, time_ns) as tool,
    arg_max(operation, time_ns) as operation, arg_max(template, time_ns) as template, arg_max(message, time_ns) as sample,
    arg_max(event_id, time_ns) as newest_event_id, count(*) as events{recovery}
  from {source} where {where}
  group by fingerprint
),
met as (                -- distinct first, counted then: what `count(distinct …)` holds must fit into memory
  select fingerprint as met_fingerprint, count(*) as sessions
  from (select distinct fingerprint, hash(service, session) from {source} where {where} and session is not null)
  group by all
),
parts as (
  select fingerprint as part_fingerprint, slot, count(*) as many
  from (
    select fingerprint, least({slots} - 1, (time_ns - $trend_ns) // greatest(1, ($end_ns - $trend_ns + {slots} - 1) // {slots})) as slot
    from {source} where {where} and time_ns >= $trend_ns
  )
  group by all
),
trends as (
  select fingerprint as trend_fingerprint, list(coalesce(many, 0) order by slots.slot) as trend,
    sum(case when slots.slot >= {slots} // 2 then many else -many end)::bigint as growth
  from matching cross join range({slots}) as slots(slot)
    left join parts on fingerprint = part_fingerprint and parts.slot = slots.slot
  group by fingerprint
),
uses as (
  select operation as used_operation, tool as used_tool, count(*) as sessions_of_tool
  from (select distinct operation, tool, hash(service, session) from events where {call_where} and session is not null)
  group by all
),
days as (               -- a pause of more than {silence} ns lies between two days: sorting those is enough
  select fingerprint as day_fingerprint, time_ns // 86_400_000_000_000 as day, min(time_ns) as first_ns, max(time_ns) as last_ns
  from events where {wanted}  -- of every group: a join with `matching` may be planned with the events in memory
  group by all
),
ever as (               -- `woke`: such a pause ended in the range
  select day_fingerprint as ever_fingerprint, min(first_ns) as first_seen, max(last_ns) as last_seen,
    bool_or(coalesce(first_ns >= $fresh_ns and first_ns - before_ns > {silence}, false)) as woke
  from (select *, lag(last_ns) over (partition by day_fingerprint order by day) as before_ns from days)
  group by all
),
described as (
  select * exclude (sessions) replace (coalesce(growth, 0) as growth), coalesce(met.sessions, 0) as sessions, {spread} as spread, nullif(resolved_ns, 0) as resolved,
    case
      when resolved_ns > 0 then case when last_seen <= resolved_ns then 'resolved' else 'regressed' end
      when woke then 'regressed'
      when first_seen >= $fresh_ns then 'new'
      else 'ongoing'
    end as state
  from matching left join met on fingerprint = met_fingerprint join ever on fingerprint = ever_fingerprint join trends on fingerprint = trend_fingerprint
    left join uses on operation is not distinct from used_operation and tool is not distinct from used_tool
    left join (select fingerprint as marked, resolved_ns, note from group_marks) on fingerprint = marked
)
select {columns} from described where {state}
