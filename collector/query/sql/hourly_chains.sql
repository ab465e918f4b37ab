-- Counts of the chains of a range, as hours.sql counts its events: each row stands for `errors` of them. `lost`: they were retried, and nothing
-- that is still to come can repair them.
with newest as (select service as newest_service, time_ns - {window} as closed_ns from kept_newest)
select {names}, time_ns, attempts, {counts},
  coalesce(case when closed_ns >= time_ns + {hour} then len(lost_ns) else len(list_filter(lost_ns, lambda one: one < closed_ns)) end, 0) as lost
from hourly_chains left join newest on service is not distinct from newest_service
where time_ns >= {low} and time_ns < {high}
union all
{single} where time_ns >= $start_ns and time_ns < {low}
union all
{single} where time_ns >= {high} and time_ns < $until_ns
