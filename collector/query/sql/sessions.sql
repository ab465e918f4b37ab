-- One row per session of the matching events. The strip is made for the page only: o(k), e(rror), c(ancelled), d(enied).
with counted as (
  select service, session, arg_max(agent, time_ns) as agent, arg_max(model, time_ns) as model, count(*) as calls,
    count(*) filter (outcome = 'ok') as ok, count(*) filter (outcome = 'error') as errors,
    count(*) filter (outcome = 'cancelled') as cancelled, count(*) filter (outcome = 'denied') as denied,
    min(time_ns) as started, max(time_ns) as ended
  from {source} where {where} and session is not null
  group by service, session
),
worst as (
  select service as worst_service, session as worst_session, max(length) as worst_streak from ({streaks}) group by all
),
page as (
  select * replace (coalesce(worst_streak, 0) as worst_streak)
  from counted left join worst on session = worst_session and service is not distinct from worst_service
  order by {order} limit {limit}
),
strips as (
  select service as strip_service, session as strip_session,
    right(string_agg(left(outcome, 1), '' order by time_ns, sequence nulls last, event_id), {strip}) as strip
  from {source} as shown
    semi join page on shown.session = page.session and shown.service is not distinct from page.service
  where {where}
  group by all
)
select {columns}
from page left join strips on session = strip_session and service is not distinct from strip_service
