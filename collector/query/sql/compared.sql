-- Sums over the sessions of each side, from which a value and the variance between sessions follow. An event without a session is
-- one of its own.
select {keys}side, count(*) as sessions, sum(part)::double as part, sum(whole)::double as whole,
  sum(part * part)::double as parts2, sum(part * whole)::double as cross, sum(whole * whole)::double as wholes2
from ({counted}) where whole > 0
group by {keys}side
