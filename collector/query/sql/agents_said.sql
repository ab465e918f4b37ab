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
heard as (
  select streaks.first_event_id as heard_id, max(said.reported_streak) as reported_streak, bool_or(said.state) as stopped
  from streaks join said on streaks.session = said.session and streaks.service is not distinct from said.service and streaks.project is not distinct from said.project
    and streaks.subagent is not distinct from said.subagent
    and said.time_ns >= streaks.started and said.time_ns <= streaks.ended + case when said.state then {idle} else 0 end
  where (said.time_ns, said.sequence, said.event_id) >= (streaks.started, streaks.from_sequence, streaks.first_event_id) and (
    (said.time_ns, said.sequence, said.event_id) <= (streaks.ended, streaks.to_sequence, streaks.last_event_id)
    or said.state and not exists (
      select 1 from events went where went.session = said.session and went.service is not distinct from said.service and went.project is not distinct from said.project
        and went.subagent is not distinct from said.subagent and went.operation = 'tool' and went.outcome = 'ok'
        and went.time_ns >= streaks.ended and went.time_ns <= said.time_ns
        and (went.time_ns, coalesce(went.sequence, {last}), went.event_id) > (streaks.ended, streaks.to_sequence, streaks.last_event_id)
        and (went.time_ns, coalesce(went.sequence, {last}), went.event_id) < (said.time_ns, said.sequence, said.event_id)
        and went.time_ns >= (select min(ended) from streaks) and went.time_ns <= (select max(time_ns) from said)))
  group by all
)
select streaks.* exclude ({order}), reported_streak, coalesce(stopped, false) as agent_stopped
from streaks left join heard on heard_id = first_event_id
