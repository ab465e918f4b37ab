-- Senders, of each project by itself. `coverage` is the share of events that have each fact; of tool calls for parameters and outcome, of errors for class and retryable. Senders of
-- metrics alone are listed, but nothing is known of their calls: they have no count of errors, not even 0. The same filters apply to both.
-- `switched`: the settings of the agent that showed in its records since the range began.
-- `unread`: records that no table takes although they speak a convention, since `unread_since`; a sender of these alone is listed, too.
-- `sampled`: since the range began, something upstream was noticed to keep only a part of the sender's records.
with noted as (
  select source, service, nullif(project, '') as project, kept, signs from sampled where last_ns >= $start_ns
),
told as (
  select source, service, project, bool_and({rated}) as reports_ok, {told}
  from {source} where {where}
  group by source, service, project
),
strange as (
  select source, service, nullif(project, '') as project, sum(records)::bigint as unread, min(first_ns) as unread_since,
    string_agg(distinct sign, ', ' order by sign) as unread_by, string_agg(distinct nullif(scope, ''), ', ' order by nullif(scope, '')) as unread_scopes,
    max(last_ns) as last_ns
  from unread where last_ns >= $start_ns and first_ns < $until_ns group by all
),
metered as (
  select s.source, s.service, nullif(s.project, '') as project, least(s.last_ns, $until_ns - 1) as time_ns, s.metrics from seen s
  where s.first_ns < $until_ns
    and not exists (select 1 from events e where e.service = s.service and coalesce(e.project, '') = s.project and s.source in (e.source, ''))
    and not exists (select 1 from seen known where known.service = s.service and known.project = s.project and known.source > s.source and s.source = '')
),
senders as (
  select coalesce(m.source, u.source) as source, coalesce(m.service, u.service) as service, coalesce(m.project, u.project) as project, metrics,
    least(greatest(m.time_ns, u.last_ns), $until_ns - 1) as time_ns,
    unread, unread_since, unread_by, unread_scopes
  from metered m full join strange u on m.source = u.source and m.service = u.service and m.project is not distinct from u.project
),
others as (
  select senders.* from senders
  anti join (select coalesce(source, '') as source, coalesce(service, '') as service, project from told) as known
    on known.source = senders.source and known.service = senders.service and known.project is not distinct from senders.project
)
select told.source, told.service, told.project, events, errors, unknown, last_seen, unclassified, unclassified / nullif(errors, 0)::double as unclassified_rate,
  reports_ok, struct_pack(
    session := with_session / events, parameters := with_params / nullif(calls, 0), outcome := with_outcome / nullif(calls, 0), "order" := with_sequence / events, model := with_model / events,
    class := (errors - unclassified) / nullif(errors, 0), retryable := with_declared / nullif(errors, 0)) as coverage,
  true as tool_data, null::varchar as metrics,
  n.signs is not null as sampled, n.kept, n.signs as sampled_by, s.switched,
  u.unread, u.unread_since, u.unread_by, u.unread_scopes
from told left join (
  select told.source, told.service, told.project, max(signs) as signs, min(kept) as kept from told cross join noted
  where noted.source in (told.source, '') and noted.service in (told.service, '') and noted.project is not distinct from told.project
  group by told.source, told.service, told.project
) n on told.source is not distinct from n.source and told.service is not distinct from n.service and told.project is not distinct from n.project
left join (
  select told.source, told.service, told.project, string_agg(distinct name, ', ' order by name) as switched from told cross join switches
  where switches.last_ns >= $start_ns and switches.source = told.source and switches.service in (told.service, '')
    and switches.project = coalesce(told.project, '')
  group by told.source, told.service, told.project
) s on told.source is not distinct from s.source and told.service is not distinct from s.service and told.project is not distinct from s.project
left join strange u on u.source = coalesce(told.source, '') and u.service = coalesce(told.service, '') and u.project is not distinct from told.project
union all by name
select source, service, project, 0 as events, time_ns as last_seen, false as reports_ok, false as tool_data, metrics, false as sampled,
  unread, unread_since, unread_by, unread_scopes
from (
  select events.* exclude (source, service, project, time_ns), others.*
  from others left join (select * from {events} where false) as events on others.source = events.source
) where {where}
