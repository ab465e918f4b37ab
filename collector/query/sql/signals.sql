-- What agents report about their own streaks, beside our count at that moment: a count on a failed call, or an event of the category `state`
-- (a loop was detected, a limit was reached). Reads only the sessions in which agents report something.
with told as (
  select distinct project, service, session from events where {said} and session is not null and time_ns >= $start_ns and time_ns < $until_ns
),
timeline as (
  select events.*, coalesce({chosen}, false) as chosen, row_number() over session_order as place,
    coalesce(time_ns - lag(time_ns) over session_order > {idle}, false) as idle
  from {source} events semi join told
    on events.session = told.session and events.service is not distinct from told.service and events.project is not distinct from told.project
  window session_order as (partition by project, service, session order by time_ns, sequence nulls last, event_id)
),
parts as (
  select *, count(case when idle then 1 end) over (partition by project, service, session order by place) as part from timeline
),
runs as (               -- cut as streaks are: by a success of the sub-agent, and by an hour without any event
  select *, count(case when operation = 'tool' and outcome = 'ok' then 1 end) over (
    partition by project, service, session, subagent, part order by place) as run
  from parts
),
counted as (
  select *,
    count(case when operation = 'tool' and {counts} then 1 end) over so_far as ours,
    count(case when operation = 'tool' and outcome = 'error' then 1 end) over so_far as tool_errors,
    count(case when operation in ('tool', 'model') and outcome = 'error' then 1 end) over so_far as errors,
    count(case when error_class = 'ConsecutiveMistakeError' then 1 end) over before as times_asked
  from runs
  window so_far as (partition by project, service, session, subagent, part, run order by place),
    before as (partition by project, service, session, subagent order by place rows between unbounded preceding and 1 preceding)
)
select time_ns as time, source, project, service, session, subagent, model, tool, event_id, reported_streak, ours,
  case when not coalesce(category = 'state', false) then 'count' when error_class = 'ConsecutiveMistakeError' then 'limit' else 'loop' end
    as signal,
  reported_class,
  case
    when reported_streak is null then 'no_number'
    when reported_streak = ours then 'equal'
    when error_class = 'ToolRepetitionError' then 'repeats'
    when reported_streak = tool_errors then 'no_mistakes'
    when reported_streak = errors then 'model_errors'
    when reported_streak < ours and times_asked > 0 then 'reset'
    when reported_streak < ours and not coalesce({rated}, true) then 'failures_only'
    when reported_streak < ours then 'own_rule'
    else 'not_seen'
  end as why
from counted
where {said} and chosen and time_ns >= $start_ns and time_ns < $until_ns
