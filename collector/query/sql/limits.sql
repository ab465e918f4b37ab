-- For each limit n, if the agent had stopped to ask after n in a row: the sessions that this would have interrupted, those of them in which every
-- such streak recovered by itself, those in which one is still open and none ended otherwise (`not_known_yet`), and the failures after the limit.
-- Sessions with equal longest streaks, and equal longest ones that ended unrecovered (`lost`) or are open (`awaited`), behave alike under every limit,
-- so they are counted first. Of those whose source reports no successes, nobody knows whether they recovered: they are not `rated`, and not among the
-- others. The first event of a streak may lie before the range, and no event in it have its values: so `totals` counts its session too.
-- The values to break down by are compared as a hash (`kind`), and streaks read more than once: rows of texts, or all streaks, would take more memory.
with found as not materialized (
  select {firsts}hash(project, service, session) as whose, started, length, state, can_recover from ({streaks})
),
affected as materialized (
  select {kind} as kind, whose, max(length) as longest, coalesce(max(length) filter (state = 'ended'), 0) as lost,
    coalesce(max(length) filter (state = 'open'), 0) as awaited, bool_and(can_recover) as rated
  from found group by kind, whose
),
alike as (
  select kind, longest, lost, awaited, rated, count(*) as sessions from affected group by all
),
by_limit as (
  select kind, mistake_limit, sum(sessions)::bigint as interrupted, coalesce(sum(sessions) filter (rated), 0)::bigint as rated,
    coalesce(sum(sessions) filter (rated and greatest(lost, awaited) < mistake_limit), 0)::bigint as recovered,
    coalesce(sum(sessions) filter (rated and lost < mistake_limit and awaited >= mistake_limit), 0)::bigint as not_known_yet
  from alike, unnest(range(1, longest + 1)) as steps(mistake_limit)
  group by all
),
saved as (
  select {keys}{kind} as kind, mistake_limit, sum((length - mistake_limit) * streaks)::bigint as mistakes_saved
  from (select {keys}length, count(*) as streaks from found group by all), unnest(range(1, length + 1)) as steps(mistake_limit)
  group by all
),
totals as (
  select kind, count(*) as sessions
  from (
    select {kind} as kind, hash(project, service, session) as whose from {source} where {where} and operation = 'tool' and session is not null
    union
    select {kind} as kind, whose from found where started < {start}
  )
  group by kind
)
select {keys}mistake_limit, sessions, interrupted, rated,
  recovered, not_known_yet, {rate} as recovery_rate, {low} as low, {high} as high, mistakes_saved
from by_limit join saved using (kind, mistake_limit) join totals using (kind)
