-- Parts of a WITH clause: the events of streaks in order, each numbered within its streak.
touched as (            -- sessions that may have a streak in the range; all of their events are read, so that no streak is cut
  select distinct project, service, session from events {among} where {touched}
),
timeline as (           -- their events in order; `idle`: more than an hour has passed since the previous event
  select *,
    coalesce({chosen}, false) as chosen,
    row_number() over session_order as place,
    coalesce(time_ns - lag(time_ns) over session_order > {idle}, false) as idle,
    max(time_ns) over (partition by project, service, session) as last_ns
  from {events}
  window session_order as (partition by project, service, session order by time_ns, sequence nulls last, event_id)
),
parts as (              -- numbered stretches without such a pause, and how often the agent had asked its user
  select *,
    count(case when idle then 1 end) over so_far as part,
    count(case when idle then 1 end) over (partition by project, service, session) as last_part,
    count(case when error_class = 'ConsecutiveMistakeError' then 1 end) over (
      partition by project, service, session, subagent order by place) as times_asked
  from timeline
  window so_far as (partition by project, service, session order by place)
),
calls as (              -- calls that extend or end a streak, with the number of successes so far
  select *, {counts} as counts,
    count(case when outcome = 'ok' then 1 end) over (partition by {key}, part order by place) as successes,
    count(case when outcome = 'ok' then 1 end) over (partition by {key}, part) as all_successes,
    min(time_ns) filter (outcome = 'ok') over (
      partition by {key}, part order by place rows between current row and unbounded following) as ok_ns
  from (
    select *, max(time_ns) over (partition by project, service, session, part) as rest_ns,
      max(received_ns) over (
        partition by project, service, session, part order by place rows between current row and unbounded following) as heard_ns
    from parts
  )
  where operation = 'tool' and session is not null and {known} and (outcome = 'ok' or {counts})
),
steps as (              -- the events of streaks, and whether the agent's own count fell since the previous one
  select *, {fell} as fell
  from calls where counts
  window streak as (partition by {key}, part, successes order by place)
),
counted as (            -- and their number since the agent last reset its own count
  select *, row_number() over (partition by {key}, part, successes, times_asked, falls order by place) as count_since
  from (
    select *, count(case when fell then 1 end) over (partition by {key}, part, successes order by place) as falls from steps
  )
)
