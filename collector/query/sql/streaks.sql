-- Complete streaks whose last event lies in the range, also if they began before it. Their state depends on later events too.
with {steps},
runs as (
  select project, service, session, subagent,
    case when count(tool) = count(*) and min(tool) = max(tool) then min(tool) end as only_tool,
    case when count(target) = count(*) and min(target) = max(target) then min(target) end as only_target,
    count(*) as length, min(time_ns) as started, max(time_ns) as ended,
    part < any_value(last_part) as paused, successes < any_value(all_successes) as succeeded, any_value(last_ns) as last_ns,
    arg_min(heard_ns, place) as heard_ns,
    count(*) filter (count_since = {limit}) as limit_times,
    list_sort(list_distinct(list(error_class))) as classes, list_sort(list_distinct(list(tool))) as tools,
    arg_min(chosen, place) as chosen, arg_min({rated}, place) as can_recover,
    arg_min(event_id, place) as first_event_id, arg_max(event_id, place) as last_event_id,
    arg_min_null(source, place) as source, arg_min_null(agent, place) as agent, arg_min_null(model, place) as model
    {firsts}
  from counted
  group by {key}, part, successes
),
newest as (             -- the streaks of the range ended in it, so older events end none of them
  select project as newest_project, service as newest_service, max(time_ns) as newest_ns from events where time_ns >= $start_ns and time_ns < $until_ns group by project, service
)
select runs.*,
  only_tool as tool, only_target as target, '{scope}' as scope, '{kind}' as kind, limit_times > 0 as limit_reached,
  case
    when succeeded then 'recovered'
    when paused or newest_ns - last_ns > {idle} or $clock_ns - heard_ns > {idle} then 'ended'
    else 'open'
  end as state
from runs left join newest on service is not distinct from newest_service and project is not distinct from newest_project
where chosen and ended >= $start_ns and ended < $until_ns
