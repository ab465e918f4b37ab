-- Streaks as known at the end of the range: those of sessions that changed since, or whose streaks are not recomputed yet, from their events, all
-- others from the streaks that the store keeps.
with fresh as (
  select project, service, session from changed where session is not null
  union
  select project, service, session from events where time_ns >= $until_ns and session is not null
),
newest as (
  select project, service, max(time_ns) as time_ns from events where time_ns >= $start_ns and time_ns < $until_ns group by project, service
)
select * from ({kept}) as kept anti join fresh
  on fresh.session = kept.session and fresh.service is not distinct from kept.service and fresh.project is not distinct from kept.project
union all by name
select * from ({computed})
