-- Every event with what became of the retry chain that it began. An error's chain ends with the first ok or after {window} ns.
-- `honoured`: the next attempt began no earlier than `retry_after_ms` asked; null where nothing was asked or nothing followed.
-- Null in `recovered`: not an error, no session, a source that reports no success, or a window that is still open, which is
-- judged by event time against the newest event of the service.
select * exclude (next_ns, next_start_ns, next_hash, ok, step, newest_ns){kept},
  begins and coalesce(next_ns - time_ns <= {window}, false) as retried,
  case
    when not begins or not {rated} then null
    when ok.time_ns - time_ns <= {window} then true
    when newest_ns - time_ns > {window} then false
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
    lead(case when outcome = 'ok' then struct_pack(time_ns := time_ns, hash := params_hash, step := step) end ignore nulls)
      over chain as ok
  from (
    select *, row_number() over chain as step
    from ({events})
    window chain as (
      partition by service, session, subagent, operation, tool, target
      order by time_ns, sequence nulls last, event_id)
  )
  window chain as (partition by service, session, subagent, operation, tool, target order by step)
)
left join (select service as newest_service, max(time_ns) as newest_ns from events where {known_by} group by service)
  on service is not distinct from newest_service
