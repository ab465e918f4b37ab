-- Streaks with what the agent itself reported about them: its highest count, and whether it stopped (an event of the category `state`
-- after the first mistake and before the next success, at most an hour after the last mistake). Order: time, sequence, id.
with page as materialized ({page}),  -- the requested streaks, from narrow columns if these decide the order
streaks as materialized (select {columns} from ({streaks}) join page using (first_event_id, ended)),
said as materialized (
  select project, service, session, subagent, time_ns, coalesce(sequence, {last}) as sequence, event_id, reported_streak,
    coalesce(category = 'state', false) as state
  from events where {said} and session is not null
    and time_ns >= (select min(started) from streaks) and time_ns <= (select max(ended) + {idle} from streaks)
),
begun as materialized (  -- what was said in each streak, or within an hour after it
  select streaks.first_event_id as heard_id, streaks.ended, streaks.to_sequence, streaks.last_event_id,
    said.project, said.service, said.session, said.subagent, said.time_ns, said.sequence, said.event_id, said.reported_streak, said.state as stops,
    (said.time_ns, said.sequence, said.event_id) <= (streaks.ended, streaks.to_sequence, streaks.last_event_id) as inside
  from streaks join said on streaks.session = said.session and streaks.service is not distinct from said.service and streaks.project is not distinct from said.project
    and streaks.subagent is not distinct from said.subagent
    and said.time_ns >= streaks.started and said.time_ns <= streaks.ended + case when said.state then {idle} else 0 end
  where (said.time_ns, said.sequence, said.event_id) >= (streaks.started, streaks.from_sequence, streaks.first_event_id)
),
later as (  -- states after a streak that a success had ended before
  select distinct heard_id, begun.event_id
  from begun join events went on went.session = begun.session and went.service is not distinct from begun.service and went.project is not distinct from begun.project
    and went.subagent is not distinct from begun.subagent and went.operation = 'tool' and went.outcome = 'ok'
    and went.time_ns >= begun.ended and went.time_ns <= begun.time_ns
  where begun.stops and not begun.inside
    and went.time_ns >= (select min(ended) from streaks) and went.time_ns <= (select max(time_ns) from said)
    and (went.time_ns, coalesce(went.sequence, {last}), went.event_id) > (begun.ended, begun.to_sequence, begun.last_event_id)
    and (went.time_ns, coalesce(went.sequence, {last}), went.event_id) < (begun.time_ns, begun.sequence, begun.event_id)
),
heard as (
  select heard_id, max(reported_streak) as reported_streak, bool_or(stops) as stopped
  from begun anti join later using (heard_id, event_id)
  where inside or stops
  group by all
)
select streaks.* exclude ({order}), reported_streak, coalesce(stopped, false) as agent_stopped
from streaks left join heard on heard_id = first_event_id
