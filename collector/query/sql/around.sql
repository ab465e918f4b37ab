-- The events among which the retry chains of the errors of a page are judged, with only the columns that this needs.
select event_id, time_ns, received_ns, sequence, source, project, service, session, subagent, operation, tool, target, target_guessed, outcome, params_hash,
  duration_ms, retry_after_ms
from events semi join page on events.service is not distinct from page.service and events.project is not distinct from page.project and events.session = page.session and page.outcome = 'error'
where time_ns >= (select min(time_ns) from page) and time_ns <= (select max(time_ns) from page) + {window}
