-- One row per session: its task and success as far as told, its calls, those that failed for the infrastructure ({apart}), and whether such a
-- failure of a model request or of the agent was the last thing in it.
select hash(project, service, session) as whose, any_value(service) as service, any_value(session) as session, min({task}) as task,
  arg_max({success}, time_ns) filter (({success}) is not null) as success, count(*) as calls,
  count(*) filter ({apart}) as infrastructure, coalesce(arg_max({apart} and operation <> 'tool', time_ns), false) as cut_off
from {source} where {where} and session is not null
group by whose
