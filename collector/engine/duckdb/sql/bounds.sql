-- Finds the time from which each taken session must be read. An event at or after `from_ns` cannot change a streak that was over before it, or a
-- retry chain that was repaired or whose half hour was over before it. So reading starts at the earliest streak or chain that it can change.
-- If nothing is kept of these sessions (`nothing_kept`), the kept streaks and chains are not searched. Where they are, `changed_ns`, the least
-- `from_ns`, is a constant, so that only recent blocks are read.
create or replace temporary table bounds as
select row_number() over () as number, t.project, t.service, t.session, t.from_ns, least(t.from_ns, min(kept.begin_ns)) as begin_ns
from taken t left join (
  select project, service, session, started as begin_ns, until_ns from kept_streaks
  where until_ns >= $changed_ns and not $nothing_kept
  union all
  select project, service, session, time_ns, case when repaired then time_ns + round(seconds * 1e9)::bigint else time_ns + $window end from kept_chains
  where time_ns >= $changed_ns - $window and not $nothing_kept
) as kept
  on kept.session = t.session and kept.service is not distinct from t.service and kept.project is not distinct from t.project
    and kept.until_ns >= t.from_ns
where t.session is not null
group by t.project, t.service, t.session, t.from_ns;

create or replace temporary table services as
select t.project, t.service, coalesce(any_value(n.time_ns), min(t.from_ns)) as time_ns
from taken t left join kept_newest n on n.service is not distinct from t.service and n.project is not distinct from t.project
group by t.project, t.service
