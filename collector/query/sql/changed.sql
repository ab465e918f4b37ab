-- For every value of a dimension, the sums over the sessions of each side; `which` is 1 for the sums over all values. Sessions are grouped by
-- a 64-bit hash of their names: 300,000 of them share one with a chance of 1 in 400 million, and grouping by the names costs half as much again.
select value, side, which, count(*) as sessions, sum(part)::double as part, sum(whole)::double as whole,
  sum(part * part)::double as parts2, sum(part * whole)::double as cross, sum(whole * whole)::double as wholes2
from (
  select {name} as value, side, grouping_id({name}) as which,
    count(*) filter ({part} and {whole}) as part, count(*) filter ({whole}) as whole
  from (select *, case when session is null then event_id else hash(service, session) end as of_session, {side} as side
        from {relation} where {where})
  group by grouping sets ({sets})
)
where whole > 0
group by value, side, which
