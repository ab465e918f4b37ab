-- For each of several questions: the seconds since the last event, and the number of events in a window that ends with it.
with last as (select {keys}{lasts} from {counted} where {where} {group}),
matching as (
  select {keys}time_ns, {heres} from {source} where {where} and time_ns > (select {earliest} from last)
)
select {answered}{answers}
from last left join matching on {same}
group by all
