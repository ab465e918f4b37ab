-- Events of a range, counted: `events` of them in each row. From {table} in the longest run of whole hours in which nothing changed since they
-- were counted, one by one in what is left of the range, and what {table} leaves out.
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
