-- The events with which groups came back in a range: the first one since the group was resolved; the one up to which it was ignored; or, if it
-- was neither, the first one after more than {silence} ns without any, if its service sent events on one of the seven days before. Otherwise, all
-- groups would come back after a holiday. Such a pause takes several days and so ends with the first event of a day: errors are many, and the
-- first and last of each day few.
with lately as materialized (
  select fingerprint, hash(project, service) as whose, time_ns // {day} as day, min(time_ns) as first_ns, max(time_ns) as last_ns
  from events where time_ns >= $start_ns and time_ns < $until_ns and fingerprint is not null
  group by all
),
earlier as (
  select fingerprint, {last} as last_ns from {before} where fingerprint in (select fingerprint from lately)
  group by all
),
days as (
  select distinct hash(project, service) as whose, time_ns // {day} as active from {ever} where time_ns >= $start_ns - {silence} - {day}
),
known as (
  select fingerprint, day, first_ns, coalesce(lag(last_ns) over (partition by fingerprint order by day), before_ns) as before_ns
  from (select fingerprint, day, min(first_ns) as first_ns, max(last_ns) as last_ns from lately group by all)
    left join (select fingerprint, last_ns as before_ns from earlier) using (fingerprint)
)
select fingerprint, first_ns as returned_ns
from known join (select fingerprint, whose, first_ns from lately) as lately using (fingerprint, first_ns)
  join days on days.whose = lately.whose and days.active >= known.day - 7 and days.active < known.day
  left join (select fingerprint as marked, greatest(resolved_ns, ignored_ns) as marked_ns from group_marks) on fingerprint = marked
where first_ns - before_ns > {silence} and not coalesce(marked_ns between 1 and first_ns, false)
union
select fingerprint, min(time_ns) as returned_ns
from events join (from group_marks select * exclude (changed_ns) where resolved_ns > 0) as marks using (fingerprint)
where time_ns >= $start_ns and time_ns < $until_ns and time_ns > resolved_ns and ({tells})
  and fingerprint not in (
    select fingerprint from {before} as told join (from group_marks where resolved_ns > 0) as earlier_marks using (fingerprint)
    where last_ns > resolved_ns and ({tells}))
group by fingerprint
union
select fingerprint, over_ns from ({ignored}) where over_ns >= $start_ns and over_ns < $until_ns
