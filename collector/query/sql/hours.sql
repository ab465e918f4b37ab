-- Events of a range, counted: `events` of them in each row. From `hourly` in the longest run of whole hours in which nothing changed since they
-- were counted, one by one in what is left of the range.
with stale as (
  select time_ns from stale_hours union select time_ns - time_ns % {hour} from changed
),
ends as (               -- hours of the range that are not counted, and one before and after its whole hours
  select time_ns from stale where time_ns >= {start} and time_ns < {until} - {until} % {hour}
  union select ({start} - 1) - ({start} - 1) % {hour}
  union select {until} - {until} % {hour}
),
counted as (
  select time_ns + {hour} as low, lead(time_ns) over (order by time_ns) as high from ends
  qualify high is not null order by high - low desc, low limit 1
)
select {names}, time_ns, events, first_ns, last_ns{facts}
from hourly where time_ns >= (select low from counted) and time_ns < (select high from counted)
union all
select {names}, time_ns, 1, time_ns, time_ns{told}
from events where time_ns >= {start} and time_ns < (select low from counted)
union all
select {names}, time_ns, 1, time_ns, time_ns{told}
from events where time_ns >= (select high from counted) and time_ns < {until}
