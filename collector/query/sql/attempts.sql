-- How often what candidates are about was tried: calls by what shapes are made of. Each of the four lists chooses some.
select coalesce(repository, service, '') as scope, tool, tool_kind, mcp_server, source,
  case when tool_kind = 'command' or target in (select unnest($targets)) then target end as target,
  count(*)::bigint as calls
from {source}
where {where} and operation = 'tool' and outcome in ('ok', 'error', 'denied') and (
  tool in (select unnest($tools)) or mcp_server in (select unnest($servers)) or target in (select unnest($targets))
  or (tool_kind = 'command' and regexp_matches(target, $programs))
)
group by all
