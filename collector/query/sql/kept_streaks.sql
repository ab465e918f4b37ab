-- Streaks whose last event lies in the range, as in streaks.sql, but read from the streaks that the store keeps.
select project, service, session, subagent, only_tool as tool, only_target as target, scope, kind, length, started, ended,
  case
    when succeeded then 'recovered'
    when newest_ns > until_ns or $clock_ns - heard_ns > {idle} then 'ended'
    else 'open'
  end as state,
  limit_times > 0 as limit_reached, limit_times, classes, tools, source, {rated} as can_recover, agent, model, first_event_id,
  last_event_id, from_sequence, to_sequence, case when succeeded then until_ns else ended end as until_ns,
  calls, busy_ms, told, input_tokens, output_tokens, cost_usd{firsts}
from (
  select project, service, session, subagent, scope, '{kind}' as kind, only_tool, only_target, length, started, ended, succeeded, until_ns,
    heard_ns, classes, tools, calls, busy_ms, told, input_tokens, output_tokens, cost_usd, first_event_id, last_event_id, from_sequence,
    to_sequence, newest_ns, len(list_filter(since, lambda part: part >= {limit})) as limit_times,
    {dimensions}{more}
  from kept_streaks {joined}
    left join (select project as newest_project, service as newest_service, time_ns as newest_ns from {newest})
      on service is not distinct from newest_service and project is not distinct from newest_project
  where scope = '{scope}' and kind in ({kinds}) and ended >= {start} and ended < {until}
)
where {chosen}
