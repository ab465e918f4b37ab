-- The streaks of a turn as they are now, and the places of those that are gone. A streak is kept as long as its last event.
with taken as (
  select distinct project, scope, kind, service, session, time_ns as started, event_id as first_event_id
  from unpublished where turn = $turn and about = 'kept_streaks'
),
there as (
  select k.* from kept_streaks as k join taken t
    on k.first_event_id = t.first_event_id and k.started = t.started and k.scope = t.scope and k.kind = t.kind
      and k.session = t.session and k.service is not distinct from t.service and k.project is not distinct from t.project
),
received as (
  select event_id, time_ns, received_ns from events where time_ns between (select min(ended) from there) and (select max(ended) from there)
)
select there.*, coalesce(e.received_ns, $now) as received_ns, $collector as collector, $turn as version, 0::utinyint as gone
from there left join received e on e.event_id = there.last_event_id and e.time_ns = there.ended
union all by name
select taken.*, $now as received_ns, $collector as collector, $turn as version, 1::utinyint as gone
from taken anti join there on there.first_event_id = taken.first_event_id and there.started = taken.started and there.scope = taken.scope
  and there.kind = taken.kind and there.session = taken.session and there.service is not distinct from taken.service
  and there.project is not distinct from taken.project
