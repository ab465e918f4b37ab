-- Every session of each scope, and what is known of it: the ids of the lessons that its transcript shows among the instructions (an empty
-- text: instructions, but no lesson; null: it records none), tokens and money of its model requests.
select coalesce(repository, service, '') as scope, service, session, min(time_ns) as first_ns, max(time_ns) as last_ns,
  mode(source) filter (operation = 'tool') as source, mode(model) filter (operation = 'tool') as model,
  mode(service_version) as version, coalesce(bool_or(provenance in ('transcript', 'both')), false) as imported,
  string_agg(distinct case when provenance in ('transcript', 'both') then attributes ->> '$."lessons.loaded"' end, ' ') as loaded,
  (count(*) filter (operation = 'tool'))::bigint as calls,
  (count(*) filter (operation = 'tool' and tool_kind = 'command'))::bigint as commands,
  (count(*) filter (operation = 'tool' and outcome = 'error'))::bigint as errors,
  sum(case when input_tokens is not null or output_tokens is not null
    then coalesce(input_tokens, 0) + coalesce(output_tokens, 0) end)::bigint as tokens,
  sum(cost_usd) as cost_usd
from {source}
where {where} and session is not null and operation in ('tool', 'model')
group by all
having calls > 0
