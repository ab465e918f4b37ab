-- What the model did after each error of a call of a tool, within half an hour, by group of errors: one of six, in this order. Errors are the smaller
-- side of each join: what follows them is looked up in the order in which it is read, and never sorted.
with errors as materialized (
  select fingerprint, error_class, tool, {keys}event_id, time_ns, session, hash(project, service, session, subagent) as whose, retried, identical_retry, recovered,
    case when recovered then attempts end as attempts, case when recovered then time_ns + round(seconds * 1e9)::bigint end as repaired_ns
  from ({chains}) where {where} and operation = 'tool' and fingerprint is not null
),
left_alone as materialized (select event_id, time_ns, whose, session from errors where recovered = false and not retried),
calls as (
  select hash(project, service, session, subagent) as whose, time_ns from events semi join left_alone on events.session = left_alone.session
  where operation = 'tool' and events.time_ns >= $start_ns and events.time_ns < $until_ns + {window}
),
followed as (
  select distinct left_alone.event_id from calls join left_alone on calls.whose = left_alone.whose
    and calls.time_ns > left_alone.time_ns and calls.time_ns <= left_alone.time_ns + {window}
),
mended as materialized (select fingerprint, {keys}event_id, time_ns, whose, repaired_ns from errors where repaired_ns is not null),
told as materialized (
  select whose, time_ns, tokens from (
    select hash(project, service, session, subagent) as whose, time_ns, coalesce(input_tokens, 0) + coalesce(output_tokens, 0) as tokens
    from events
    where coalesce(input_tokens, output_tokens) is not null and session is not null and time_ns >= $start_ns and time_ns < $until_ns + {window}
  ) semi join mended using (whose)
),
stepped as (
  select errors.*,
    case
      when recovered then 'repaired' when recovered is null then 'not_known_yet' when identical_retry then 'repeated' when retried then 'changed'
      when followed.event_id is not null then 'other_tool' else 'gave_up'
    end as step
  from errors left join followed on errors.event_id = followed.event_id
),
meanwhile as (
  select mended.event_id, sum(tokens) as tokens from told join mended on told.whose = mended.whose
    and told.time_ns > mended.time_ns and told.time_ns <= mended.repaired_ns
  group by mended.event_id
),
telling as (select whose, min(time_ns) as since_ns from told group by whose),
spent as (                -- known where the session had told of any tokens by then
  select fingerprint, {keys}median(coalesce(meanwhile.tokens, 0)) as median_tokens, count(*) as tokens_told
  from mended join telling on mended.whose = telling.whose and mended.repaired_ns >= telling.since_ns left join meanwhile using (event_id)
  group by fingerprint{groups}
),
found as (
  select fingerprint, min(error_class) as error_class, min(tool) as tool, {keys}count(*) as errors, {steps},
    median(attempts) as median_calls,
    min(time_ns) as first_seen, max(time_ns) as last_seen, max_by(event_id, (time_ns, event_id)) as newest_event_id
  from stepped
  group by fingerprint{groups}
)
select found.* exclude (newest_event_id), median_tokens, coalesce(tokens_told, 0) as tokens_told, events.template
-- With names of its own: ClickHouse would name those that both have after their table.
from found left join (select fingerprint as its_fingerprint, {its}median_tokens, tokens_told from spent) as spent
    on found.fingerprint = its_fingerprint{same}
  left join (select event_id, time_ns, template from events where time_ns >= $start_ns and time_ns < $until_ns) as events
  on newest_event_id = events.event_id and last_seen = events.time_ns
