-- Takes the sessions that changed, and finds the time from which each must be read. An event at or after `from_ns` cannot change a streak that was
-- closed before it, or a retry chain that was repaired or whose half hour was over before it. So reading starts at the earliest streak or chain
-- that it can change. If nothing is kept of these sessions (`nothing_kept`), the kept streaks and chains are not searched.
create or replace temporary table taken as
select service, session, min(time_ns) as from_ns from changed where time_ns between $first_ns and $last_ns
group by all order by from_ns limit $most;

insert into stale_hours
select distinct c.time_ns - c.time_ns % $hour
from changed c join taken t on c.session is not distinct from t.session and c.service is not distinct from t.service
where c.time_ns between $first_ns and $last_ns and c.time_ns - c.time_ns % $hour not in (select time_ns from stale_hours);

delete from changed using taken
where changed.session is not distinct from taken.session and changed.service is not distinct from taken.service
  and changed.time_ns between $first_ns and $last_ns;

create or replace temporary table bounds as
select row_number() over () as number, t.service, t.session, t.from_ns, least(t.from_ns, min(open.begin_ns)) as begin_ns
from taken t left join (
  select service, session, started as begin_ns, closed_ns, 9223372036854775807 as until_ns from kept_streaks
  where not $nothing_kept
  union all
  select service, session, time_ns, case when repaired then time_ns + round(seconds * 1e9)::bigint end, time_ns + $window from kept_chains
  where not $nothing_kept and time_ns >= (select min(from_ns) from taken) - $window
) as open
  on open.session = t.session and open.service is not distinct from t.service
    and open.until_ns >= t.from_ns and (open.closed_ns is null or open.closed_ns >= t.from_ns)
where t.session is not null
group by t.service, t.session, t.from_ns;

create or replace temporary table services as
select t.service, coalesce(any_value(n.time_ns), min(t.from_ns)) as time_ns
from taken t left join kept_newest n on n.service is not distinct from t.service
group by t.service
