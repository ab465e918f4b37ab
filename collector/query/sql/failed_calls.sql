-- The newest failed or denied calls of those that are wanted. Nothing before the oldest of them is read: their number is known first
-- (oldest_failure.sql).
with wanted as (
  select event_id, time_ns, coalesce(repository, service, '') as scope, project, service, session, source, model, asked_by, mcp_server, tool, tool_kind,
    target, outcome, error_class, message, duration_ms, params
  from {source}
  where {where} and operation = 'tool' and session is not null
    and outcome in ('error', 'denied') and ({wanted})
  order by time_ns desc, event_id desc limit {rows}
)
select w.event_id, w.time_ns, w.scope, w.session, w.project, w.service, w.source, w.model,
  w.mcp_server, w.tool, w.tool_kind, w.target, w.outcome, w.error_class, w.message, w.duration_ms,
  case when json_type(w.params) = 'OBJECT' then json_keys(w.params) else [] end as names,
  case when r.input_tokens is not null or r.output_tokens is not null
    then coalesce(r.input_tokens, 0) + coalesce(r.output_tokens, 0) end as tokens,
  r.cost_usd
from wanted as w left join events as r on r.event_id = w.asked_by
order by w.time_ns desc, w.event_id desc
