-- Seconds since the last event, and how many came in a window's length before it.
with matching as (
  select {keys}time_ns from {source} where time_ns >= $gone_ns and time_ns < $until_ns and {condition}
),
last as (select {keys}max(time_ns) as newest_ns from matching {group})
select {answered}($until_ns - newest_ns) / 1e9 as value, count(matching.time_ns) as calls
from last left join matching on {same} and matching.time_ns > newest_ns - $window_ns
group by {answered_group}
