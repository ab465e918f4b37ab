-- The time of the oldest of the newest {rows} failed or denied calls that are wanted.
select min(time_ns) as oldest_ns
from (
  select time_ns from {source}
  where {where} and operation = 'tool' and session is not null and outcome in ('error', 'denied') and ({wanted})
  order by time_ns desc limit {rows}
)
