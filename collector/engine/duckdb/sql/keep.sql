-- Recomputes the streaks and retry chains of the taken sessions (by the same rules as query/sql/streaks.sql and judged.sql, which read all
-- events) and the newest event of their services.
-- Not `count(*) filter (…) over (… order by …)`: DuckDB 2.0 needs the square of a session's length for it (400,000 rows: 6.2 s,
-- `count(case …)`: 0.05).
-- Sums of fractions are rounded to a nanosecond and a billionth of a dollar, because their last bits depend on the order of addition.
delete from kept_streaks where until_ns >= $changed_ns and rowid in (select row from open_streaks where anew);

update {database}.main.kept_streaks as k set until_ns = o.until_ns, heard_ns = greatest(k.heard_ns, o.heard_ns)
from (
  select any_value(o.row) as row, greatest(any_value(o.until_ns), max(h.time_ns) + $idle) as until_ns, max(h.heard_ns) as heard_ns
  from open_streaks o join heard h using (number) where not o.anew and h.part = 0
  group by o.row, o.until_ns having min(h.time_ns) <= o.until_ns
) as o
where k.rowid = o.row;

delete from kept_chains where time_ns >= $changed_ns - $window
  and rowid in (select row from open_chains c join bounds b using (number) where c.anew and c.time_ns >= b.begin_ns);

-- Of a chain that stays open, the last record of its session within its half hour.
create or replace temporary table lasting as
select c.row, c.time_ns, h.heard_ns from (from open_chains where not anew and lasts) as c
  asof join heard h on h.number = c.number and h.time_ns <= c.time_ns + $window;

update {database}.main.kept_chains as k set heard_ns = l.heard_ns from lasting l where k.rowid = l.row and k.heard_ns < l.heard_ns;

create or replace temporary table told as
select e.event_id, e.time_ns, e.received_ns, e.sequence, e.params_hash, e.reported_streak, e.retryable_declared, e.retry_after_ms, e.duration_ms,
  e.input_tokens, e.output_tokens, e.cost_usd, {acted_on} as acted_on, {dimensions}, b.from_ns, b.number, b.added
from events e join bounds b on e.session = b.session and e.service is not distinct from b.service and e.project is not distinct from b.project
where e.time_ns between $low_ns and $high_ns and e.time_ns >= b.begin_ns;

-- The events of each session in order, as narrow rows of numbers, because they are sorted several times below. Sub-agent, tool and target are
-- hashes of 64 bits, which are enough within one session.
create or replace temporary table ordered as
select *, max(time_ns) over (partition by number, part) as paused_ns,
  max(received_ns) over (partition by number, part order by place rows between current row and unbounded following) as heard_ns
from (
  select *, count(case when idle then 1 end) over so_far as part,
    count(case when asks then 1 end) over (partition by number, helper order by place) as asked,
    count(case when tool_call and ok then 1 end) over (
      partition by number, helper order by place rows between unbounded preceding and 1 preceding) as earlier_successes
  from (                -- `idle`: more than an hour has passed since the session's previous event
    select event_id, number, added, from_ns, time_ns, received_ns, coalesce(sequence, {last}) as sequence, operation = 'tool' as tool_call, outcome = 'ok' as ok,
      outcome = 'error' as error, outcome = 'denied' as denied, mistake, error_class is not distinct from 'ConsecutiveMistakeError' as asks,
      reported_streak, params_hash, retry_after_ms, duration_ms, hash(number, 'session', subagent) as helper,
      case when tool is not null then hash(number, 'tool', subagent, tool) end as tool_key,
      case when tool is not null and acted_on is not null then hash(number, 'target', subagent, tool, acted_on) end as target_key,
      hash(subagent, operation, tool, acted_on) as chain_key,
      row_number() over session_order as place,
      coalesce(time_ns - lag(time_ns) over session_order > $idle, false) as idle,
      max(received_ns) over (
        partition by number order by time_ns range between current row and $window following) as heard_in_window_ns
    from told
    window session_order as (partition by number order by time_ns, sequence nulls last, event_id)
  )
  window so_far as (partition by number order by place)
);

insert into kept_streaks by name
with scoped as (        -- calls in each scope, with the number of earlier successes and the time of the next one
  select number, event_id, from_ns, time_ns, sequence, paused_ns, heard_ns, ok, error, denied, mistake, reported_streak, asked, part, place, scope, key,
    earlier_successes, count(case when ok then 1 end) over scope_order as successes,
    min(case when ok then time_ns end) over (
      partition by number, part, scope, key order by place rows between 1 following and unbounded following) as ok_ns
  from (
    select *, 'session' as scope, helper as key from ordered union all
    select *, 'tool' as scope, tool_key as key from ordered where tool_key is not null union all
    select *, 'target' as scope, target_key as key from ordered where target_key is not null
  )
  where tool_call and (ok or error or denied) and (not added or key in (select scope from scopes))
  window scope_order as (partition by number, part, scope, key order by place)
),
calls as (              -- those that count, of each kind; errors between two successes that are all mistakes are the same streak for both
  select *, unnest(case
      when denied then ['denied'] when errors = mistakes then ['both'] when mistake then ['mistake', 'error'] else ['error']
    end) as kind
  from (
    select *, count(case when error then 1 end) over between_successes as errors,
      count(case when error and mistake then 1 end) over between_successes as mistakes
    from scoped where error or denied
    window between_successes as (partition by number, part, scope, key, successes)
  )
),
steps as (              -- whether the agent's own count fell: in narrower scopes it also falls because of other tools
  select *, coalesce(scope = 'session' and reported_streak < lag(reported_streak ignore nulls) over streak, false) as fell
  from calls
  window streak as (partition by number, part, scope, kind, key, successes order by place)
),
counted as (
  select *, count(case when fell then 1 end) over (partition by number, part, scope, kind, key, successes order by place) as falls
  from steps
),
pieces as (             -- streaks, cut where the agent reset its own count
  select number, part, scope, kind, key, successes, counted.from_ns, paused_ns, ok_ns,
    count(*) as length, min(place) as place, max(place) as last_place, min(earlier_successes) as earlier_successes,
    arg_min(event_id, place) as first_event_id, arg_max(event_id, place) as last_event_id, arg_min(heard_ns, place) as heard_ns,
    arg_min(sequence, place) as from_sequence, arg_max(sequence, place) as to_sequence,
    min(counted.time_ns) as started, max(counted.time_ns) as ended, count(tool) as tooled, min(tool) as low_tool, max(tool) as high_tool,
    count(target) as targeted, min(target) as low_target, max(target) as high_target,
    list(error_class) as classes, list(tool) as tools
  from counted join (select event_id, tool, target, error_class from told where outcome in ('error', 'denied')) using (event_id)
  group by number, part, scope, kind, key, successes, counted.from_ns, paused_ns, ok_ns, asked, falls
),
runs as (
  select scope, kind, number, part, key, min(place) as place, max(last_place) as last_place, min(earlier_successes) as earlier_successes,
    case when sum(tooled) = sum(length) and min(low_tool) = max(high_tool) then min(low_tool) end as only_tool,
    case when sum(targeted) = sum(length) and min(low_target) = max(high_target) then min(low_target) end as only_target,
    min(started) as started, max(ended) as ended, coalesce(ok_ns, paused_ns + $idle) as until_ns, ok_ns is not null as succeeded,
    case when ok_ns is null then arg_min(heard_ns, pieces.place) end as heard_ns,
    list(length order by pieces.place) as since,
    list_sort(list_distinct(flatten(list(classes)))) as classes, list_sort(list_distinct(flatten(list(tools)))) as tools,
    arg_min(first_event_id, pieces.place) as first_event_id, arg_max(last_event_id, pieces.place) as last_event_id,
    arg_min(from_sequence, pieces.place) as from_sequence, arg_max(to_sequence, pieces.place) as to_sequence,
    sum(length) as length, from_ns
  from pieces
  group by number, part, scope, kind, key, successes, from_ns, paused_ns, ok_ns
)
select runs.* exclude (from_ns, number, part, key, place, last_place, earlier_successes), told.project, told.service, told.session, told.subagent, {firsts},
  calls, busy_ms, spent.told, spent.input_tokens, spent.output_tokens, spent.cost_usd
from runs join (from told where outcome in ('error', 'denied')) as told on told.event_id = runs.first_event_id
  left join (           -- of each streak what its sub-agent did from its first call to the success that ended it, or else to its last call
    select first_event_id, kind, count(*) as calls, round(sum(told.duration_ms), 6) as busy_ms,
      count(coalesce(told.input_tokens, told.output_tokens)) as told, {sum_of_input} as input_tokens,
      {sum_of_output} as output_tokens, round(sum(told.cost_usd), 9) as cost_usd
    from runs join ordered on ordered.number = runs.number and ordered.part = runs.part and ordered.helper = runs.key
        and ordered.earlier_successes = runs.earlier_successes
      join told on told.event_id = ordered.event_id
    where scope = 'session' and ordered.place >= runs.place and (succeeded or ordered.place <= last_place)
    group by first_event_id, kind
  ) as spent on scope = 'session' and spent.first_event_id = runs.first_event_id and spent.kind = runs.kind
where until_ns >= runs.from_ns
-- Queries want one scope and kind: other columns of blocks without them are not read.
order by scope, kind;

insert into kept_chains by name
select told.* exclude (
    from_ns, received_ns, sequence, params_hash, reported_streak, retry_after_ms, duration_ms, input_tokens, output_tokens, cost_usd, acted_on, number, added),
  retried, chain.next_id, again.duration_ms as next_duration_ms, coalesce(again.asked_by, chain.next_id) as next_request, honoured, repaired, identical_retry, same, attempts, seconds, heard_ns
from told join (
  select event_id,
    coalesce(next_ns - time_ns <= $window, false) as retried,
    case when next_ns - time_ns <= $window then next_id end as next_id,
    case when retry_after_ms > 0 and next_ns - time_ns <= $window
      then next_start_ns - time_ns >= $patience * retry_after_ms * 1e6 end as honoured,
    coalesce(mended.time_ns - time_ns <= $window, false) as repaired,
    coalesce(next_ns - time_ns <= $window and next_hash = params_hash, false) as identical_retry,
    case when mended.time_ns - time_ns <= $window then mended.hash = params_hash end as same,
    case when mended.time_ns - time_ns <= $window then mended.step - step end as attempts,
    case when mended.time_ns - time_ns <= $window then (mended.time_ns - time_ns) / 1e9 end as seconds,
    case when mended.time_ns - time_ns <= $window then null else heard_in_window_ns end as heard_ns
  from (
    select event_id, error, time_ns, from_ns, added, params_hash, retry_after_ms, step, heard_in_window_ns,
      lead(time_ns) over chain as next_ns,
      lead(time_ns - coalesce(duration_ms, 0) * 1e6) over chain as next_start_ns,
      lead(event_id) over chain as next_id,
      lead(params_hash) over chain as next_hash,
      arg_min(struct_pack(time_ns := time_ns, hash := params_hash, step := step), step) filter (ok) over (
        partition by number, chain_key order by step rows between 1 following and unbounded following) as mended
    from (select *, row_number() over (partition by number, chain_key order by place) as step from ordered) as stepped
    window chain as (partition by number, chain_key order by step)
  )
  where error and time_ns >= from_ns - $window
    and (not added or time_ns >= from_ns or event_id in (select event_id from open_chains where anew))
) as chain using (event_id) left join told as again on again.event_id = chain.next_id;

insert into stale_chains
select distinct time_ns - time_ns % $hour
from (select time_ns from told where outcome = 'error' and time_ns >= from_ns - $window union all select time_ns from lasting)
where time_ns - time_ns % $hour not in (select time_ns from stale_chains);

create or replace temporary table found as
select e.project, e.service, max(e.time_ns) as time_ns
from events e join services s on e.service is not distinct from s.service and e.project is not distinct from s.project
where e.time_ns >= $newest_ns
group by e.project, e.service;

delete from kept_newest using services s where kept_newest.service is not distinct from s.service
  and kept_newest.project is not distinct from s.project;

insert into kept_newest from found
