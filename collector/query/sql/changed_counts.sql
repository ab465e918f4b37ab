-- Errors and calls of every value of some dimensions, for each side. An error without a session counts as a session of its own (`alone`), and
-- adds 1 to Σ part².
with counts as materialized (
  select {names}{side} as side, {part} as part, {whole} as whole, {alone} as alone
  from {counted} where {where} and {only}
  group by all
)
select told.dimension, told.value, side, sum(part)::double as part, sum(whole)::double as whole, sum(alone)::double as parts2
from (select *, unnest([{told}]) as told from counts)
group by all
