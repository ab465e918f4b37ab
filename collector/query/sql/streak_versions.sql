-- Every streak once for each of its lengths: from the event that gave it this length until the next one, or until it leaves the window.
-- It is open until a success (`ok_ns`), until its service sends an event more than {idle} ns after the session's last event before a pause
-- (`rest_ns`), or until as long after the last record of the session before that pause was received.
with {steps},
runs as (
  select counted.*, hash(project, service) as whose,
    first_value(chosen) over run as of_interest, first_value(heard_ns) over run as silent_ns, row_number() over run as length, lead(time_ns) over run as next_ns,
    bool_or(count_since = {limit}) over run as limit_reached{firsts}
  from counted
  window run as (partition by {key}, part, successes order by place)
)
select runs.time_ns as enter_ns, least(runs.next_ns, runs.time_ns + {kept}) as leave_ns, length, limit_reached,
  least(ok_ns, later.time_ns, silent_ns + {idle} + 1) as closed_ns{answered}
from runs asof left join (select hash(project, service) as whose, time_ns from events where time_ns >= $start_ns and time_ns < $until_ns) as later
  on runs.whose = later.whose and runs.rest_ns + {idle} < later.time_ns
where of_interest
