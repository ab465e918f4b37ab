-- Recounts stale hours, up to {most} of them, newest first. The hour of the newest event is left out until it is over, because most of its events
-- are still to come.
create or replace temporary table counted_hours as
select time_ns from stale_hours
where time_ns < (select max(time_ns) - max(time_ns) % $hour from events)
qualify time_ns > max(time_ns) over () - {most} * $hour;

delete from hourly using counted_hours c where hourly.time_ns = c.time_ns;

delete from hourly_sessions using counted_hours c where hourly_sessions.time_ns = c.time_ns;

insert into hourly by name
select e.time_ns - e.time_ns % $hour as time_ns, {hourly}, count(*) as events, min(e.time_ns) as first_ns, max(e.time_ns) as last_ns,
  {facts}
from events e                   -- the hours are a list: for a join with them, the engine would hold the events in memory, not the hours
where e.time_ns >= $low_ns and e.time_ns < $high_ns and list_contains($hours::bigint[], e.time_ns - e.time_ns % $hour)
group by e.time_ns - e.time_ns % $hour, {hourly};

-- In order, because distinct sessions are counted in three quarters of the time where the rows of each are neighbours.
insert into hourly_sessions by name
select e.time_ns - e.time_ns % $hour as time_ns, {hourly_sessions}, count(*) as events, min(e.time_ns) as first_ns, max(e.time_ns) as last_ns
from events e
where e.time_ns >= $low_ns and e.time_ns < $high_ns and list_contains($hours::bigint[], e.time_ns - e.time_ns % $hour) and session is not null
group by e.time_ns - e.time_ns % $hour, {hourly_sessions}
order by 1, session;

delete from stale_hours using counted_hours c where stale_hours.time_ns = c.time_ns
