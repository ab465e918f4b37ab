select "{column}" as value, sum(events)::bigint as events, max(last_ns) as last_seen, null::ubigint as row
from {ever} where contains(lower("{column}"), lower($q)) group by "{column}"
