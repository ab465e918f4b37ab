-- What failing costs: everything that happened in a session between the first mistake of a streak and the success that ended it (or else its
-- last mistake), the model requests outside of streaks that asked for failed calls, and retries of errors that no later attempt repaired.
-- Streaks and chains are read from what the store keeps of them, requests from the events.
with streaks as materialized (
  select {firsts}coalesce(service, source) as sender, coalesce(project, '') as whose, hash(project, service, session, subagent) as run, length, started, from_sequence, first_event_id, ended, to_sequence,
    last_event_id, state = 'recovered' as succeeded, until_ns, calls, busy_ms, told, input_tokens, output_tokens, cost_usd
  from ({streaks})
),
errors as materialized (
  select {keys}coalesce(service, source) as sender, coalesce(project, '') as whose, event_id, time_ns, case when operation = 'tool' then asked_by end as asked_by,
    operation = 'tool' as called, next_duration_ms, case when retried and recovered = false then next_request end as next_request
  from ({judged}) where {where}
),
asking as materialized (  -- each request once, by the first failed call that it asked for
  select {earliest}asked_by as request from errors where asked_by is not null group by asked_by
),
again as materialized (   -- the same of retries in vain
  select {earliest}next_request as request from errors where next_request is not null group by next_request
),
requests as materialized (
  select event_id as request, hash(project, service, session, subagent) as run, time_ns,
    coalesce(sequence, {last}) as sequence, duration_ms, input_tokens, output_tokens, cost_usd
  from events
  where time_ns between $start_ns - {asked} and $until_ns + {asked}
    and event_id in (select request from asking union all select request from again)
),
inside as (               -- those between the first mistake of a streak and its end
  select distinct request
  from requests r join streaks s on r.run = s.run and r.time_ns between s.started and s.until_ns
  where (r.time_ns, r.sequence, r.request) > (s.started, s.from_sequence, s.first_event_id)
    and (s.succeeded or (r.time_ns, r.sequence, r.request) < (s.ended, s.to_sequence, s.last_event_id))
),
telling as (              -- who tells tokens, and who tells money; senders of two projects may have one name
  select coalesce(service, source) as sender, coalesce(project, '') as whose, count(coalesce(input_tokens, output_tokens)) > 0 as tokens, count(cost_usd) > 0 as money
  from events
  where time_ns >= least($start_ns - {asked}, (select min(started) from streaks)) and time_ns <= $until_ns + {asked}
    and (coalesce(input_tokens, output_tokens) is not null or cost_usd is not null)
  group by all
),
senders as (
  select {keys}sender, bool_and(coalesce(tokens, false)) as tokens, bool_and(coalesce(money, false)) as money
  from (select {keys}sender, whose from streaks union select {keys}sender, whose from errors where called or next_request is not null) as asked
  left join telling using (sender, whose)
  group by all
),
parts as (
  select {keys}count(*) as streaks, sum(length) as mistakes, sum(calls) as calls, sum(until_ns - started) / 1e9 as seconds,
    sum(busy_ms) as busy_ms, sum(told) as told, sum(input_tokens) as input_tokens, sum(output_tokens) as output_tokens,
    sum(cost_usd) as cost_usd
  from streaks
  {group}
  union all by name
  select {keys}count(*) as asking, count(*) as calls, sum(duration_ms) as busy_ms, count(coalesce(input_tokens, output_tokens)) as told,
    sum(input_tokens) as input_tokens, sum(output_tokens) as output_tokens, sum(cost_usd) as cost_usd
  from asking join requests using (request) anti join inside using (request)
  {group}
  union all by name
  select {keys}count(next_request) as wasted_retries, sum(case when next_request is not null then next_duration_ms end) as wasted_ms
  from errors where called or next_request is not null
  {group}
  union all by name
  select {keys}count(coalesce(input_tokens, output_tokens)) as wasted_told, sum(input_tokens) as wasted_input_tokens,
    sum(output_tokens) as wasted_output_tokens, sum(cost_usd) as wasted_cost_usd
  from again join requests using (request)
  {group}
  union all by name
  select {keys}list(sender order by sender) filter (not tokens) as tokens_not_told_by,
    list(sender order by sender) filter (not money) as money_not_told_by
  from senders
  {group}
)
select {keys}{sums} from parts {group}
