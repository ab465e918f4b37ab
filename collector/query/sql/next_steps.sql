-- What the model did after each error of a call of a tool, within half an hour, by group of errors: one of six, in this order. `asof` finds the next
-- call of a tool, and what tokens the session had told of by a time.
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
  select left_alone.event_id from left_alone asof join calls on left_alone.whose = calls.whose and left_alone.time_ns < calls.time_ns
  where calls.time_ns - left_alone.time_ns <= {window}
),
mended as materialized (select event_id, time_ns, whose, session, repaired_ns from errors where repaired_ns is not null),
told as materialized (
  select whose, time_ns, sum(tokens) over (partition by whose order by time_ns range unbounded preceding) as so_far
  from (
    select hash(project, service, session, subagent) as whose, time_ns, sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0)) as tokens
    from events semi join mended on events.session = mended.session
    where coalesce(input_tokens, output_tokens) is not null and events.time_ns >= $start_ns and events.time_ns < $until_ns + {window}
    group by all
  )
),
stepped as (
  select errors.*,
    case
      when recovered then 'repaired' when recovered is null then 'not_known_yet' when identical_retry then 'repeated' when retried then 'changed'
      when followed.event_id is not null then 'other_tool' else 'gave_up'
    end as step
  from errors left join followed on errors.event_id = followed.event_id
),
spent as (
  select mended.event_id, until.so_far - coalesce(since.so_far, 0) as tokens
  from mended
    asof join told as until on mended.whose = until.whose and mended.repaired_ns >= until.time_ns
    asof left join told as since on mended.whose = since.whose and mended.time_ns >= since.time_ns
),
found as (
  select fingerprint, min(error_class) as error_class, min(tool) as tool, {keys}count(*) as errors, {steps},
    median(attempts) as median_calls, median(tokens) as median_tokens, count(tokens) as tokens_told,
    min(time_ns) as first_seen, max(time_ns) as last_seen, max_by(event_id, (time_ns, event_id)) as newest_event_id
  from stepped left join spent using (event_id)
  group by fingerprint{groups}
)
select found.* exclude (newest_event_id), events.template
from found left join (select event_id, time_ns, template from events where time_ns >= $start_ns and time_ns < $until_ns) as events
  on newest_event_id = events.event_id and last_seen = events.time_ns
