-- Takes the sessions that changed and whose calls have their models, the time from which each did, and whether events were only added.
create or replace temporary table taken as
select row_number() over () as number, *
from (
  select project, service, session, min(time_ns) as from_ns, bool_and(coalesce(added, false)) as added from changed
  where modelled and time_ns between $first_ns and $last_ns
  group by all order by from_ns limit $most
);

create or replace temporary table touched as
select distinct c.time_ns - c.time_ns % $hour as time_ns
from changed c join taken t on c.session is not distinct from t.session and c.service is not distinct from t.service
  and c.project is not distinct from t.project
where c.modelled and c.time_ns between $first_ns and $last_ns;

insert into stale_hours from touched where time_ns not in (select time_ns from stale_hours);

-- Where there may be no chain any more; keep.sql notes the hours of those that it writes.
insert into stale_chains from touched where time_ns not in (select time_ns from stale_chains);

delete from changed using taken
where changed.session is not distinct from taken.session and changed.service is not distinct from taken.service
  and changed.project is not distinct from taken.project
  and changed.modelled and changed.time_ns between $first_ns and $last_ns
