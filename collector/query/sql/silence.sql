-- Seconds since the last event, and how many came in a window's length before it.
with last as (select {keys}{last} as newest_ns from {counted} where {where} {group}),
matching as (
  select {keys}time_ns from {source} where {where} and time_ns > (select min(newest_ns) from last) - $window_ns
)
select {answered}($until_ns - newest_ns) / 1e9 as value, count(matching.time_ns) as calls
from last left join matching on {same} and matching.time_ns > newest_ns - $window_ns
group by {answered_group}
