-- Takes the sessions that changed and whose calls have their models: from when on each did, in which hours, whether events were only added, and how
-- many. What a request only began before (`modelled` is false) goes with them.
create or replace temporary table taken as
select row_number() over () as number, *
from (
  select project, service, session, min(time_ns) as from_ns, count(added) = count(*) as added, sum(added)::bigint as events,
    list_distinct(list(time_ns - time_ns % $hour)) as hours
  from changed
  where modelled and time_ns between $first_ns and $last_ns
  group by project, service, session order by from_ns limit $most
);

delete from changed using taken
where changed.session is not distinct from taken.session and changed.service is not distinct from taken.service
  and changed.project is not distinct from taken.project
  and changed.modelled is not null and changed.time_ns between $first_ns and $last_ns
