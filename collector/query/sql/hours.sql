-- Counts of the events of a range: each row stands for `events` of them. Rows come from {table} for the longest run of whole hours in which
-- nothing has changed since they were counted; the rest of the range, and events that {table} leaves out, are read one by one.
select {counted}, time_ns, events, first_ns, last_ns{facts}
from {table} where time_ns >= {low} and time_ns < {high}
union all
select {names}, time_ns, 1, time_ns, time_ns{told}
from events where time_ns >= {low} and time_ns < {high} and {left_out}
union all
select {names}, time_ns, 1, time_ns, time_ns{told}
from events where time_ns >= {start} and time_ns < {low}
union all
select {names}, time_ns, 1, time_ns, time_ns{told}
from events where time_ns >= {high} and time_ns < {until}
