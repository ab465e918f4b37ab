-- Streaks whose last event lies in the range, whole, with the state that the whole store gives them.
with touched as (       -- sessions that may hold one; all of their events are read, so that no streak is cut
  select distinct service, session from events where {touched}
),
timeline as (           -- their events in order; `idle` where more than an hour passed since the event before
  select *,
    coalesce({chosen}, false) as chosen,
    row_number() over session_order as place,
    coalesce(time_ns - lag(time_ns) over session_order > {idle}, false) as idle,
    max(time_ns) over (partition by service, session) as last_ns
  from {events}
  window session_order as (partition by service, session order by time_ns, sequence nulls last, event_id)
),
parts as (              -- numbered stretches without such a pause, and the times the agent had asked its person
  select *,
    count(*) filter (idle) over so_far as part,
    count(*) filter (idle) over (partition by service, session) as last_part,
    count(*) filter (error_class = 'ConsecutiveMistakeError') over (
      partition by service, session, subagent order by place) as asked
  from timeline
  window so_far as (partition by service, session order by place)
),
calls as (              -- what extends a streak or ends it, with the number of successes before it
  select *, {counts} as counts,
    count(*) filter (outcome = 'ok') over (partition by {key}, part order by place) as successes,
    count(*) filter (outcome = 'ok') over (partition by {key}, part) as all_successes
  from parts
  where operation = 'tool' and session is not null and {known} and (outcome = 'ok' or {counts})
),
steps as (              -- the events of streaks, with whether the agent's own count fell since the one before
  select *, {fell} as fell
  from calls where counts
  window streak as (partition by {key}, part, successes order by place)
),
counted as (            -- and their number since the agent last began to count anew
  select *, row_number() over (partition by {key}, part, successes, asked, falls order by place) as count_since
  from (
    select *, count(*) filter (fell) over (partition by {key}, part, successes order by place) as falls from steps
  )
),
runs as (
  select service, session, subagent,
    case when count(tool) = count(*) and min(tool) = max(tool) then min(tool) end as only_tool,
    case when count(target) = count(*) and min(target) = max(target) then min(target) end as only_target,
    count(*) as length, min(time_ns) as started, max(time_ns) as ended,
    part < any_value(last_part) as paused, successes < any_value(all_successes) as succeeded, any_value(last_ns) as last_ns,
    count(*) filter (count_since = {limit}) as limit_times,
    list_sort(list_distinct(list(error_class))) as classes, list_sort(list_distinct(list(tool))) as tools,
    arg_min(chosen, place) as chosen, arg_min({rated}, place) as can_recover,
    arg_min(event_id, place) as first_event_id, arg_max(event_id, place) as last_event_id,
    arg_min_null(source, place) as source, arg_min_null(agent, place) as agent, arg_min_null(model, place) as model
    {firsts}
  from counted
  group by {key}, part, successes
),
newest as (select service as newest_service, max(time_ns) as newest_ns from events where {known_by} group by service)
select runs.*,
  only_tool as tool, only_target as target, '{scope}' as scope, '{kind}' as kind, limit_times > 0 as limit_reached,
  case
    when succeeded then 'recovered'
    when paused or newest_ns - last_ns > {idle} then 'ended'
    else 'open'
  end as state
from runs left join newest on service is not distinct from newest_service
where chosen and ended >= $start_ns and ended < $until_ns
