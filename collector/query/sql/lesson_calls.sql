-- The calls that lessons with a mark may be about, by all that tells their shape; each of the five lists chooses some.
with calls as (
  select coalesce(repository, service, '') as scope, service, session, tool, tool_kind, mcp_server, target, outcome, time_ns,
    case when outcome in ('error', 'denied') then error_class end as error_class,
    case when outcome in ('error', 'denied') then left(message, 1000) end as message
  from {source}
  where {where} and operation = 'tool' and session is not null and outcome in ('ok', 'error', 'denied')
)
select * exclude (time_ns), count(*)::bigint as calls, min(time_ns) as first_ns
from calls
where tool in (select unnest($tools)) or mcp_server in (select unnest($servers))
  or regexp_matches(coalesce(target, ''), $paths) or regexp_matches(concat_ws(' ', target, message), $hosts)
  or (tool_kind = 'command' and regexp_matches(coalesce(target, ''), $programs))
group by all
