-- Counts of the chains of a range, as hours.sql counts its events: each row stands for `errors` of them. `unrepaired`: nothing that is still to
-- come can repair them; `lost`: of these, those that were retried.
with newest as (select project as newest_project, service as newest_service, time_ns - {window} as closed_ns from kept_newest)
select {names}, time_ns, attempts, {counts}, coalesce(len(closed), 0) as unrepaired,
  coalesce(len(list_filter(closed, lambda one: one.retried)), 0) as lost
from (
  select *, case when closed_ns >= time_ns + {hour} then unrepaired
    else list_filter(unrepaired, lambda one: one.time_ns < closed_ns or one.heard_ns < $clock_ns - {idle}) end as closed
  from hourly_chains left join newest on service is not distinct from newest_service and project is not distinct from newest_project
  where time_ns >= {low} and time_ns < {high}
)
union all
{single} where time_ns >= {start} and time_ns < {low}
union all
{single} where time_ns >= {high} and time_ns < {until}
