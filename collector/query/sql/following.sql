-- The successes among the next {most} calls after each of the failed ones, in its session and sub-agent, that ended soon enough to be what worked
-- next, in order.
with failed as (
  select event_id, project, service, session from events where time_ns >= {oldest} and event_id in (select unnest($failed))
), places as (select distinct project, service, session from failed), calls as (
  select event_id, time_ns, tool, outcome, tool_kind, target, params, hash(e.project, e.service, e.session, e.subagent) as whose,
    row_number() over (
      partition by e.project, e.service, e.session, e.subagent order by time_ns, coalesce(sequence, {last}), event_id) as place
  from events as e semi join places as p on e.session = p.session and e.service is not distinct from p.service and e.project is not distinct from p.project
  where operation = 'tool' and time_ns >= {oldest} and time_ns < {until}
), next_places as (
  select event_id as failed_id, time_ns as failed_ns, whose, place + unnest(range(1, {most} + 1)) as place
  from calls semi join failed using (event_id)
)
select failed_id, tool, outcome, tool_kind, target, case when json_type(params) = 'OBJECT' then json_keys(params) else [] end as names,
  (time_ns - failed_ns) / 1e9 as seconds
from next_places join calls using (whose, place)
where outcome = 'ok' and time_ns - failed_ns <= {within}
order by failed_id, place
