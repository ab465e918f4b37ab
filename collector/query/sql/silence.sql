-- Seconds since the last event, and how many came in a window's length before it, for each of several questions.
with last as (select {keys}{lasts} from {counted} where {where} {group}),
matching as (
  select {keys}time_ns, {heres} from {source} where {where} and time_ns > (select {earliest} from last)
)
select {answered}{answers}
from last left join matching on {same}
group by all
