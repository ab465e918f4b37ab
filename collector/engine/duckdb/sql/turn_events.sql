-- The events of a turn as they are now, and the places that they have left. By row: where the engine compares ids it reads all columns.
with taken as (
  select distinct project, service, session, time_ns, event_id from unpublished where turn = $turn and about = 'events'
),
there as materialized (
  select e.rowid as row, e.* exclude (rowid)
  from (select rowid, project, service, session, time_ns, event_id from {database}.main.events where time_ns between $low and $high) as e
    semi join taken t on e.event_id = t.event_id and e.time_ns = t.time_ns and e.project is not distinct from t.project
      and e.service is not distinct from t.service and e.session is not distinct from t.session
)
select {columns}, $collector as collector, $turn as version, 0::utinyint as gone
from {database}.main.events where time_ns between $low and $high and rowid in (select row from there)
union all by name
select project, service, session, time_ns, event_id, $now as received_ns, $collector as collector, $turn as version, 1::utinyint as gone
from taken anti join there on there.event_id = taken.event_id and there.time_ns = taken.time_ns and there.project is not distinct from taken.project
  and there.service is not distinct from taken.service and there.session is not distinct from taken.session
