-- Sums over the sessions of each value, as in compared.sql: of calls that ended as ok or as an error, and of the mistakes among them.
select {keys}count(*) as sessions, sum(part)::double as part, sum(whole)::double as whole, sum(part * part)::double as parts2,
  sum(part * whole)::double as cross, sum(whole * whole)::double as wholes2
from (
  select {keys}{mistakes} as part, {calls} as whole
  from (
    select {keys}case when session is null then event_id else hash(project, service, session) end as whose, {events}outcome = 'error' and coalesce(mistake, false) as missed
    from {source} where {where} and outcome in ('ok', 'error') and {rated}
  )
  group by {keys}whose
)
group by {keys_only}
