-- For each of several questions: the seconds since the last event, and the number of events in a window that ends with it, from the beginning of
-- the hour in which that window begins, because past hours are counted.
select {keys}{answers}
from (
  select *, {newest}
  from (select {keys}time_ns - time_ns % {hour} as hour, {told} from {counted} where {where} group by all)
)
{group}
