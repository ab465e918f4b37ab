-- The events with which groups came back in a range: the first one since the group was resolved, or the first one after more than {silence} ns
-- without any, if its service sent events on one of the seven days before. Otherwise, all groups would come back after a holiday.
with lately as (
  select fingerprint, service, time_ns, lag(time_ns) over (partition by fingerprint order by time_ns) as before_ns
  from events where time_ns >= $start_ns and time_ns < $until_ns and fingerprint is not null
),
earlier as (
  select fingerprint, {last} as last_ns from {before} where fingerprint in (select fingerprint from lately)
  group by all
),
days as (
  select distinct service, time_ns // {day} as day from events where time_ns >= $start_ns - {silence} - {day} and time_ns < $until_ns
),
known as (
  select fingerprint, service, time_ns, coalesce(before_ns, last_ns) as before_ns, resolved_ns
  from lately left join earlier using (fingerprint) left join group_marks using (fingerprint)
)
select fingerprint, time_ns as returned_ns from known
where (resolved_ns > 0 and time_ns > resolved_ns and coalesce(before_ns, 0) <= resolved_ns)
  or (time_ns - before_ns > {silence} and exists (
    from days where days.service is not distinct from known.service
      and day >= known.time_ns // {day} - 7 and day < known.time_ns // {day}))
