-- What became of calls by what a shape is made of: enough to tell in Python which have one shape.
select tool, tool_kind, case when tool_kind = 'command' then target end as target, outcome, count(*)::bigint as calls
from {source}
where {where} and operation = 'tool' and outcome in ('ok', 'error', 'denied') and ({wanted})
group by all
