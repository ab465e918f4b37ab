-- Computes the streaks and retry chains of the taken sessions anew (query/sql/streaks.sql and judged.sql are the same rules, read from all
-- events) and the newest event of their services.
delete from kept_streaks using bounds b
where kept_streaks.session = b.session and kept_streaks.service is not distinct from b.service
  and (kept_streaks.closed_ns is null or kept_streaks.closed_ns >= b.from_ns);

delete from kept_chains using bounds b
where kept_chains.session = b.session and kept_chains.service is not distinct from b.service
  and kept_chains.time_ns >= b.from_ns - $window and kept_chains.time_ns >= $low_ns;

create or replace temporary table told as
select e.event_id, e.time_ns, e.sequence, e.params_hash, e.reported_streak, e.retryable_declared, {dimensions}, b.from_ns
from events e join bounds b on e.session = b.session and e.service is not distinct from b.service
where e.time_ns >= $low_ns and e.time_ns >= b.begin_ns;

insert into kept_streaks by name
with timeline as (      -- in order; `idle` where more than an hour passed since the session's event before
  select event_id, time_ns, from_ns, service, session, subagent, operation, outcome, mistake, tool, target, error_class, reported_streak,
    row_number() over session_order as place,
    coalesce(time_ns - lag(time_ns) over session_order > $idle, false) as idle,
    max(time_ns) over (partition by service, session) as last_ns
  from told
  window session_order as (partition by service, session order by time_ns, sequence nulls last, event_id)
),
parts as (              -- numbered stretches without such a pause, and the times the agent had asked its person
  select *,
    count(*) filter (idle) over so_far as part,
    lead(case when idle then time_ns end ignore nulls) over so_far as resumed_ns,
    count(*) filter (error_class = 'ConsecutiveMistakeError') over (partition by service, session, subagent order by place) as asked
  from timeline
  window so_far as (partition by service, session order by place)
),
scopes(scope, by_tool, by_target) as (values ('session', false, false), ('tool', true, false), ('target', true, true)),
scoped as (             -- calls in each scope, with the number of successes before and the time of the next
  select parts.*, scope, case when by_tool then tool end as key_tool, case when by_target then target end as key_target,
    count(*) filter (outcome = 'ok') over scope_order as successes,
    lead(case when outcome = 'ok' then time_ns end ignore nulls) over scope_order as ok_ns
  from parts, scopes
  where operation = 'tool' and outcome in ('ok', 'error', 'denied')
    and (not by_tool or tool is not null) and (not by_target or target is not null)
  window scope_order as (partition by service, session, scope, subagent, key_tool, key_target, part order by place)
),
calls as (              -- those that count, of each kind
  select scoped.*, kind
  from scoped, unnest(['mistake', 'error', 'denied']) as kinds(kind)
  where case kind when 'mistake' then outcome = 'error' and mistake when 'error' then outcome = 'error' else outcome = 'denied' end
),
steps as (              -- with whether the agent's own count fell: in narrower scopes it also falls for other tools' sake
  select *, coalesce(scope = 'session' and reported_streak < lag(reported_streak) over streak, false) as fell
  from calls
  window streak as (partition by service, session, scope, kind, subagent, key_tool, key_target, part, successes order by place)
),
counted as (
  select *, count(*) filter (fell) over (
    partition by service, session, scope, kind, subagent, key_tool, key_target, part, successes order by place) as falls
  from steps
),
pieces as (             -- streaks, cut where the agent began to count anew
  select service, session, scope, kind, subagent, key_tool, key_target, part, successes, from_ns, last_ns, ok_ns, resumed_ns,
    count(*) as length, min(place) as place, arg_min(event_id, place) as first_event_id, arg_max(event_id, place) as last_event_id,
    min(time_ns) as started, max(time_ns) as ended, count(tool) as tooled, min(tool) as low_tool, max(tool) as high_tool,
    count(target) as targeted, min(target) as low_target, max(target) as high_target,
    list(distinct error_class) as classes, list(distinct tool) as tools
  from counted
  group by service, session, scope, kind, subagent, key_tool, key_target, part, successes, from_ns, last_ns, ok_ns, resumed_ns, asked, falls
),
runs as (
  select scope, kind, service, session, subagent,
    case when sum(tooled) = sum(length) and min(low_tool) = max(high_tool) then min(low_tool) end as only_tool,
    case when sum(targeted) = sum(length) and min(low_target) = max(high_target) then min(low_target) end as only_target,
    min(started) as started, max(ended) as ended, coalesce(ok_ns, resumed_ns) as closed_ns, ok_ns is not null as succeeded, last_ns,
    list(length order by place) as since,
    list_sort(list_distinct(flatten(list(classes)))) as classes, list_sort(list_distinct(flatten(list(tools)))) as tools,
    arg_min(first_event_id, place) as first_event_id, arg_max(last_event_id, place) as last_event_id,
    sum(length) as length, from_ns
  from pieces
  group by scope, kind, service, session, subagent, key_tool, key_target, part, successes, from_ns, last_ns, ok_ns, resumed_ns
)
select runs.* exclude (from_ns), {firsts}
from runs join told on told.event_id = runs.first_event_id
where closed_ns is null or closed_ns >= runs.from_ns;

insert into kept_chains by name
select * exclude (from_ns, sequence, params_hash, reported_streak, step, next_ns, next_hash, ok),
  coalesce(next_ns - time_ns <= $window, false) as retried,
  coalesce(ok.time_ns - time_ns <= $window, false) as repaired,
  coalesce(next_ns - time_ns <= $window and next_hash = params_hash, false) as identical_retry,
  case when ok.time_ns - time_ns <= $window then ok.hash = params_hash end as same,
  case when ok.time_ns - time_ns <= $window then ok.step - step end as attempts,
  case when ok.time_ns - time_ns <= $window then (ok.time_ns - time_ns) / 1e9 end as seconds
from (
  select *, lead(time_ns) over chain as next_ns, lead(params_hash) over chain as next_hash,
    lead(case when outcome = 'ok' then struct_pack(time_ns := time_ns, hash := params_hash, step := step) end ignore nulls) over chain as ok
  from (
    select *, row_number() over chain as step
    from told
    window chain as (
      partition by service, session, subagent, operation, tool, target order by time_ns, sequence nulls last, event_id)
  )
  window chain as (partition by service, session, subagent, operation, tool, target order by step)
)
where outcome = 'error' and time_ns >= from_ns - $window;

create or replace temporary table found as
select e.service, max(e.time_ns) as time_ns
from events e join services s on e.service is not distinct from s.service
where e.time_ns >= $newest_ns
group by e.service;

delete from kept_newest using services s where kept_newest.service is not distinct from s.service;

insert into kept_newest from found
