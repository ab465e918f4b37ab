-- For every value of a dimension, the sums over the sessions of each side; `which` is 1 for the sums over all values.
select value, side, which, count(*) as sessions, sum(part)::double as part, sum(whole)::double as whole,
  sum(part * part)::double as parts2, sum(part * whole)::double as cross, sum(whole * whole)::double as wholes2
from (
  select {name} as value, side, grouping_id({name}) as which,
    count(*) filter ({part} and {whole}) as part, count(*) filter ({whole}) as whole
  from (select *, service as of_service, coalesce(session, event_id::varchar) as of_session, {side} as side
        from {relation} where {where})
  group by grouping sets ({sets})
)
where whole > 0
group by value, side, which
