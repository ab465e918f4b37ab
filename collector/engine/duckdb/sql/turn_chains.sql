-- The retry chains of a turn as they are now, and the places of those that are gone.
with taken as (
  select distinct project, service, session, time_ns, event_id from unpublished where turn = $turn and about = 'kept_chains'
),
there as (
  select k.* from (from kept_chains where time_ns between $low and $high) as k join taken t
    on k.event_id = t.event_id and k.time_ns = t.time_ns and k.session is not distinct from t.session
      and k.service is not distinct from t.service and k.project is not distinct from t.project
)
select there.*, coalesce(e.received_ns, $now) as received_ns, $collector as collector, $turn as version, 0::utinyint as gone
from there left join (select event_id, time_ns, received_ns from events where time_ns between $low and $high) as e
  on e.event_id = there.event_id and e.time_ns = there.time_ns
union all by name
select taken.*, $now as received_ns, $collector as collector, $turn as version, 1::utinyint as gone
from taken anti join there on there.event_id = taken.event_id and there.time_ns = taken.time_ns and there.project is not distinct from taken.project
  and there.service is not distinct from taken.service and there.session is not distinct from taken.session
