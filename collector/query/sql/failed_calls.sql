-- The newest failed or denied calls of those that are wanted, each with the next calls of its session and sub-agent.
with wanted as (
  select * from events
  where {where} and operation = 'tool' and session is not null
    and outcome in ('error', 'denied') and ({wanted})
  order by time_ns desc, event_id desc limit {rows}
), places as (select distinct project, service, session from wanted), calls as (
  select e.project, e.service, e.session, e.subagent, e.time_ns, e.sequence, e.event_id, {{
      'tool': e.tool, 'outcome': e.outcome, 'tool_kind': e.tool_kind, 'target': e.target,
      'names': case when json_type(e.params) = 'OBJECT' then json_keys(e.params) else [] end, 'time_ns': e.time_ns
    }} as call
  from events as e semi join places as p on e.session = p.session and e.service is not distinct from p.service and e.project is not distinct from p.project
  where e.operation = 'tool' and e.time_ns >= {start} and e.time_ns < {until}
), followed as (
  select event_id, call, list(call) over (
    partition by project, service, session, subagent order by time_ns, coalesce(sequence, {last}), event_id
    rows between 1 following and {most} following
  ) as following
  from calls
)
select w.event_id, w.time_ns, coalesce(w.repository, w.service, '') as scope, w.session, w.service, w.source, w.model,
  w.mcp_server, w.tool, w.tool_kind, w.target, w.outcome, w.error_class, w.message, w.duration_ms, f.call.names as names,
  case when r.input_tokens is not null or r.output_tokens is not null
    then coalesce(r.input_tokens, 0) + coalesce(r.output_tokens, 0) end as tokens,
  r.cost_usd,
  list_transform(coalesce(f.following, []), lambda c: {{
    'tool': c.tool, 'outcome': c.outcome, 'tool_kind': c.tool_kind, 'target': c.target, 'names': c.names,
    'seconds': (c.time_ns - w.time_ns) / 1e9
  }}) as following
from wanted as w join followed as f using (event_id) left join events as r on r.event_id = w.asked_by
