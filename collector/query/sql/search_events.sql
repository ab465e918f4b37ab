select {column}::varchar as value, count(*) as events, max(time_ns) as last_seen, arg_max(event_id, time_ns) as row
from events where {matches} group by {by}
