-- For each limit n: had the agent stopped to ask after n in a row, the sessions that this would have interrupted, those of them
-- in which every such streak recovered by itself, and the calls that were still to fail.
with reaching as (
  select {firsts}hash(service, session) as whose, mistake_limit, bool_and(state = 'recovered') as recovered, sum(length - mistake_limit) as saved
  from ({streaks}), unnest(range(1, length + 1)) as steps(mistake_limit)
  group by all
),
by_limit as (
  select {keys}mistake_limit, count(*) as interrupted, count(*) filter (recovered) as recovered, sum(saved)::bigint as mistakes_saved
  from reaching group by all
),
totals as (
  select {keys}count(distinct hash(service, session)) as sessions
  from {source} where {where} and operation = 'tool' and session is not null
  group by all
)
select {answered}mistake_limit, sessions, interrupted, recovered, {rate} as recovery_rate, {low} as low, {high} as high,
  mistakes_saved
from by_limit left join totals on {same}
