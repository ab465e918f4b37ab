-- The newest failed or denied calls of those that are wanted, each with the successes among the next {most} calls of its session and sub-agent
-- that ended soon enough to be what worked next. Nothing before the oldest of them is read: their number is known first (oldest_failure.sql).
with wanted as (
  select event_id, time_ns, coalesce(repository, service, '') as scope, project, service, session, source, model, asked_by, mcp_server, tool, tool_kind,
    target, outcome, error_class, message, duration_ms, params
  from {source}
  where {where} and operation = 'tool' and session is not null
    and outcome in ('error', 'denied') and ({wanted})
  order by time_ns desc, event_id desc limit {rows}
), places as (select distinct project, service, session from wanted), calls as (
  select event_id, time_ns, tool, outcome, tool_kind, target, params, hash(e.project, e.service, e.session, e.subagent) as whose,
    row_number() over (
      partition by e.project, e.service, e.session, e.subagent order by time_ns, coalesce(sequence, {last}), event_id) as place
  from events as e semi join places as p on e.session = p.session and e.service is not distinct from p.service and e.project is not distinct from p.project
  where operation = 'tool' and time_ns >= {oldest} and time_ns < {until}
), next_places as (
  select event_id as failed_id, time_ns as failed_ns, whose, place + unnest(range(1, {most} + 1)) as place
  from calls semi join wanted using (event_id)
), followed as (
  select failed_id, list({{
      'tool': tool, 'outcome': outcome, 'tool_kind': tool_kind, 'target': target,
      'names': case when json_type(params) = 'OBJECT' then json_keys(params) else [] end, 'seconds': (time_ns - failed_ns) / 1e9
    }} order by place) as following
  from next_places join calls using (whose, place)
  where outcome = 'ok' and time_ns - failed_ns <= {within}
  group by failed_id
)
select w.event_id, w.time_ns, w.scope, w.session, w.project, w.service, w.source, w.model,
  w.mcp_server, w.tool, w.tool_kind, w.target, w.outcome, w.error_class, w.message, w.duration_ms,
  case when json_type(w.params) = 'OBJECT' then json_keys(w.params) else [] end as names,
  case when r.input_tokens is not null or r.output_tokens is not null
    then coalesce(r.input_tokens, 0) + coalesce(r.output_tokens, 0) end as tokens,
  r.cost_usd, coalesce(f.following, []) as following
from wanted as w left join followed as f on w.event_id = f.failed_id left join events as r on r.event_id = w.asked_by
order by w.time_ns desc, w.event_id desc
