-- What it costs that agents go wrong: whatever happened in a session between the first mistake of a streak and the success that
-- ended it (else its last mistake), and the retries of what no later attempt repaired.
with streaks as materialized (
  select {firsts}row_number() over () as id, service, session, subagent, started, ended, state, length from ({streaks})
),
saved as (
  select id, min(e.time_ns) as until
  from streaks s join events e
    on e.session = s.session and e.service is not distinct from s.service and e.subagent is not distinct from s.subagent
      and e.time_ns >= s.ended
  where s.state = 'recovered' and e.operation = 'tool' and e.outcome = 'ok'
  group by id
),
stretches as (
  select streaks.*, coalesce(until, ended) as until from streaks left join saved using (id)
),
spent as (
  select id, count(*) as calls, sum(duration_ms) as busy_ms, count(coalesce(input_tokens, output_tokens)) as told,
    sum(input_tokens) as input_tokens, sum(output_tokens) as output_tokens, sum(cost_usd) as cost_usd
  from stretches s join events e
    on e.session = s.session and e.service is not distinct from s.service and e.subagent is not distinct from s.subagent
      and e.time_ns between s.started and s.until
  group by id
),
halves as (
  select {keys}count(*) as streaks, sum(length) as mistakes, sum(calls) as calls, sum(until - started) / 1e9 as seconds,
    sum(busy_ms) as busy_ms, sum(told) as told, sum(input_tokens) as input_tokens, sum(output_tokens) as output_tokens,
    sum(cost_usd) as cost_usd
  from stretches join spent using (id)
  {group}
  union all by name
  select {errors}count(*) as wasted_retries, sum(e.duration_ms) as wasted_ms,
    count(coalesce(e.input_tokens, e.output_tokens)) as wasted_told, sum(e.input_tokens) as wasted_input_tokens,
    sum(e.output_tokens) as wasted_output_tokens, sum(e.cost_usd) as wasted_cost_usd
  from (select * from ({judged}) where {where} and retried and recovered = false) as error
    join events e on e.event_id = error.next_id
  {wasted_group}
)
select {keys}{sums} from halves {group}
