-- Every event with the outcome of the retry chain that it began. An error's chain ends with the first success or after {window} ns.
-- `honoured`: the next attempt waited for at least {patience} of `retry_after_ms`; null if there was no such time, or no next attempt.
-- `recovered` is null without an error or session, if the source reports no successes, or while the window is still open: until the service has
-- a newer event than the window, or an hour after the last record of the session in the window was received.
select * exclude (next_ns, next_start_ns, next_hash, ok, step, newest_ns, heard_ns){kept},
  begins and coalesce(next_ns - time_ns <= {window}, false) as retried,
  case
    when not begins or not {rated} then null
    when ok.time_ns - time_ns <= {window} then true
    when newest_ns - time_ns > {window} or $clock_ns - heard_ns > {idle} then false
  end as recovered,
  begins and coalesce(next_ns - time_ns <= {window} and next_hash = params_hash, false) as identical_retry,
  coalesce(recovered and ok.hash = params_hash, false) as recovered_identical,
  coalesce(recovered and ok.hash <> params_hash, false) as recovered_changed,
  case when begins and retry_after_ms > 0 and next_ns - time_ns <= {window}
    then next_start_ns - time_ns >= {patience} * retry_after_ms * 1e6 end as honoured,
  case when recovered then ok.step - step end as attempts,
  case when recovered then (ok.time_ns - time_ns) / 1e9 end as seconds
from (
  select *,
    outcome = 'error' and session is not null as begins,
    lead(time_ns) over chain as next_ns,
    lead(time_ns - coalesce(duration_ms, 0) * 1e6) over chain as next_start_ns,
    lead(event_id) over chain as next_id,
    lead(params_hash) over chain as next_hash,
    arg_min(struct_pack(time_ns := time_ns, hash := params_hash, step := step), step) filter (outcome = 'ok') over (
      partition by project, service, session, subagent, operation, tool, {acted_on}
      order by step rows between 1 following and unbounded following) as ok,
    max(received_ns) over (
      partition by project, service, session order by time_ns range between current row and {window} following) as heard_ns
  from (
    select *, row_number() over chain as step
    from ({events})
    window chain as (
      partition by project, service, session, subagent, operation, tool, {acted_on}
      order by time_ns, sequence nulls last, event_id)
  )
  window chain as (partition by project, service, session, subagent, operation, tool, {acted_on} order by step)
)
left join (select project as newest_project, service as newest_service, max(time_ns) as newest_ns from events where {known_by} group by project, service)
  on service is not distinct from newest_service and project is not distinct from newest_project
