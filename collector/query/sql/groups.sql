-- One row per fingerprint. Spread: the share of the sessions using the tool that had this error. Trend: events in each of {slots} equal parts of
-- the range, oldest first; events after its end (from clocks that are ahead) count in the last part.
with parts as materialized (  -- the slot is null before the trend begins
  select fingerprint, count(*) as many, max(time_ns) as last_ns,
    case when time_ns >= $trend_ns
      then least({slots} - 1, (time_ns - $trend_ns) // greatest(1, ($end_ns - $trend_ns + {slots} - 1) // {slots})) end as slot{told}
  from {source} where {where}
  group by fingerprint, slot
),
matching as (           -- texts and ids are read only from the newest event
  select found.* exclude (found_fingerprint), newest.fingerprint, newest.event_id as newest_event_id, newest.error_class, newest.tool,
    newest.operation, newest.template, newest.message as sample
  from (
    select fingerprint as found_fingerprint, sum(many)::bigint as events, max(last_ns) as newest_ns{recovery}
    from parts group by fingerprint
  ) as found join (from {source} where {where}) as newest on newest_ns = newest.time_ns and found_fingerprint = newest.fingerprint
  qualify row_number() over (partition by newest.fingerprint order by newest.event_id desc) = 1
),
met as (                -- first distinct, then counted: the state of `count(distinct …)` must fit into memory
  select fingerprint as met_fingerprint, count(*) as sessions
  from (select distinct fingerprint, hash(project, service, session) from {source} where {where} and session is not null)
  group by all
),
trends as (
  select matching.fingerprint as trend_fingerprint, list(coalesce(many, 0) order by number) as trend,
    sum(case when number >= {slots} // 2 then many else -many end)::bigint as growth
  from matching cross join (select unnest(range({slots})) as number) as slots
    left join parts on matching.fingerprint = parts.fingerprint and parts.slot = number
  group by matching.fingerprint
),
uses as (
  {uses}
),
days as (               -- to find pauses of more than {silence} ns it is enough to sort days
  select fingerprint as day_fingerprint, time_ns // 86_400_000_000_000 as day, {first} as first_ns, {last} as last_ns
  from {ever} where {wanted}  -- of all groups: a join with `matching` may be planned so that it holds the events in memory
  group by all
),
ever as (               -- `woke`: such a pause ended in the range
  select day_fingerprint as ever_fingerprint, min(first_ns) as first_seen, max(last_ns) as last_seen,
    bool_or(coalesce(first_ns between $fresh_ns and $until_ns - 1 and first_ns - before_ns > {silence}, false)) as woke
  from (select *, lag(last_ns) over (partition by day_fingerprint order by day) as before_ns from days)
  group by all
),
back as (               -- resolved groups of which an event tells that they came back
  select distinct fingerprint as back_fingerprint
  from (from {ever} where {wanted}) as each join (from group_marks where resolved_ns > 0) as marks using (fingerprint)
  where last_ns > resolved_ns and ({tells})
),
ignored as (
  {ignored}
),
described as (
  select * exclude (sessions, events_since, sessions_since) replace (coalesce(growth, 0) as growth), coalesce(met.sessions, 0) as sessions,
    {spread} as spread, nullif(resolved_ns, 0) as resolved, nullif(ignored_ns, 0) as ignored,
    case when ignored_ns > 0 then coalesce(events_since, 0) end as events_since,
    case when ignored_ns > 0 then coalesce(sessions_since, 0) end as sessions_since,
    case
      when resolved_ns > 0 then case when back_fingerprint is null then 'resolved' else 'regressed' end
      when ignored_ns > 0 then case when over_ns is null then 'ignored' else 'regressed' end
      when woke then 'regressed'
      when first_seen >= $fresh_ns then 'new'
      else 'ongoing'
    end as state
  from matching left join met on fingerprint = met_fingerprint join ever on fingerprint = ever_fingerprint
    join trends on fingerprint = trend_fingerprint
    left join uses on operation is not distinct from called_operation and tool is not distinct from called_tool
    left join (select fingerprint as marked, * exclude (fingerprint) from group_marks) on fingerprint = marked
    left join back on fingerprint = back_fingerprint
    left join (select fingerprint as ignored_fingerprint, * exclude (fingerprint) from ignored) on fingerprint = ignored_fingerprint
)
select {columns} from described where {state}
