-- The groups that people ignore: what happened since, and when as much had happened as they said, if it has.
with since as (
  select fingerprint, time_ns, event_id, until_events, until_sessions,
    session is not null and row_number() over (partition by fingerprint, service, session order by time_ns, event_id) = 1 as another
  from events join (select fingerprint, ignored_ns, until_events, until_sessions from group_marks where ignored_ns > 0) using (fingerprint)
  where time_ns > ignored_ns
),
counted as (
  select *, row_number() over inorder as events, count(*) filter (another) over inorder as sessions
  from since window inorder as (partition by fingerprint order by time_ns, event_id rows unbounded preceding)
)
select fingerprint, count(*) as events_since, max(sessions) as sessions_since,
  min(time_ns) filter (events >= until_events or sessions >= until_sessions) as over_ns
from counted group by fingerprint
