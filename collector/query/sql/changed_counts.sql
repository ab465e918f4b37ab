-- The same where no rate is asked for, so that of the sessions nothing but Σ part² is needed: counts as they are counted elsewhere, and the
-- errors in sessions, each with its session, from the chains that they began. An error without a session is one of its own (`alone`).
with sums as (
  select {name} as value, {side} as side, {part} as part, {whole} as whole, {alone} as alone
  from {counted} where {where} and {only}
  group by all
),
likeness as (
  select value, side, sum(part * part) as parts2
  from (
    select {name} as value, {side} as side, hash(service, session) as of_session, count(*) as part
    from ({chains}) where {where} and {counts}
    group by all
  )
  group by value, side
)
select sums.value, sums.side, 0 as sessions, part::double as part, whole::double as whole, (coalesce(parts2, 0) + alone)::double as parts2,
  0::double as cross, 0::double as wholes2
from sums left join likeness on sums.value is not distinct from likeness.value and sums.side = likeness.side
where whole > 0
