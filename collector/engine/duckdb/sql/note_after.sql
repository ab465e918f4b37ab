-- Notes the streaks and chains that are new, other or gone (schemas/ingest.sql, `unpublished`).
insert into unpublished (about, project, service, session, time_ns, event_id, scope, kind)
with now as (
  select k.* from kept_streaks k semi join bounds b on k.session = b.session and k.service is not distinct from b.service
  where k.until_ns >= $changed_ns
)
select distinct 'kept_streaks', project, service, session, started, first_event_id, scope, kind
from ((from now except from old_streaks) union all (from old_streaks except from now));

insert into unpublished (about, project, service, session, time_ns, event_id)
with now as (
  select k.* from kept_chains k semi join bounds b on k.session = b.session and k.service is not distinct from b.service
  where k.time_ns >= least($low_ns, $changed_ns - $window)
)
select distinct 'kept_chains', project, service, session, time_ns, event_id
from ((from now except from old_chains) union all (from old_chains except from now))
