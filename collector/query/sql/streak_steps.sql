-- The events of streaks in their order, for WITH: each numbered within its streak, from sessions that the range touches.
touched as (       -- sessions that may hold one; all of their events are read, so that no streak is cut
  select distinct service, session from events where {touched}
),
timeline as (           -- their events in order; `idle` where more than an hour passed since the event before
  select *,
    coalesce({chosen}, false) as chosen,
    row_number() over session_order as place,
    coalesce(time_ns - lag(time_ns) over session_order > {idle}, false) as idle,
    max(time_ns) over (partition by service, session) as last_ns
  from {events}
  window session_order as (partition by service, session order by time_ns, sequence nulls last, event_id)
),
parts as (              -- numbered stretches without such a pause, and the times the agent had asked its person
  select *,
    count(*) filter (idle) over so_far as part,
    count(*) filter (idle) over (partition by service, session) as last_part,
    count(*) filter (error_class = 'ConsecutiveMistakeError') over (
      partition by service, session, subagent order by place) as asked
  from timeline
  window so_far as (partition by service, session order by place)
),
calls as (              -- what extends a streak or ends it, with the number of successes before it
  select *, {counts} as counts,
    count(*) filter (outcome = 'ok') over (partition by {key}, part order by place) as successes,
    count(*) filter (outcome = 'ok') over (partition by {key}, part) as all_successes,
    min(time_ns) filter (outcome = 'ok') over (
      partition by {key}, part order by place rows between current row and unbounded following) as ok_ns
  from (select *, max(time_ns) over (partition by service, session, part) as rest_ns from parts)
  where operation = 'tool' and session is not null and {known} and (outcome = 'ok' or {counts})
),
steps as (              -- the events of streaks, with whether the agent's own count fell since the one before
  select *, {fell} as fell
  from calls where counts
  window streak as (partition by {key}, part, successes order by place)
),
counted as (            -- and their number since the agent last began to count anew
  select *, row_number() over (partition by {key}, part, successes, asked, falls order by place) as count_since
  from (
    select *, count(*) filter (fell) over (partition by {key}, part, successes order by place) as falls from steps
  )
)
