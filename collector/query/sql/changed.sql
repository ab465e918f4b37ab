-- For every value of every dimension, the sums over the sessions of each side. `which` has a 0 bit for the dimension that a row is
-- of, all ones for the whole.
select {names}, side, which, count(*) as sessions, sum(part)::double as part, sum(whole)::double as whole,
  sum(part * part)::double as parts2, sum(part * whole)::double as cross, sum(whole * whole)::double as wholes2
from (
  select {names}, side, grouping_id({names}) as which,
    count(*) filter ({part} and {whole}) as part, count(*) filter ({whole}) as whole
  from (select {names}, outcome, mistake, source, service as of_service, coalesce(session, event_id::varchar) as of_session,
          {side} as side
        from {relation} where {where})
  group by grouping sets ({sets})
)
where whole > 0
group by {names}, side, which
