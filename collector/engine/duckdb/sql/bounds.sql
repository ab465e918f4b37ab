-- Finds what is computed anew of each taken session, and the time from which it must be read for that. An event at or after `from_ns` cannot change
-- a streak that was over before it, or a retry chain that was repaired or whose half hour was over before it. So reading starts at the earliest
-- streak or chain that it can change. Where events were only added, it can only change those of its own scope (sub-agent, tool, target); of the
-- others, only how long they stay open (`lasting`), so that a session is not read again for each streak that stays open in it.
-- If nothing is kept of these sessions (`nothing_kept`), the kept streaks and chains are not searched. Where they are, `changed_ns`, the least
-- `from_ns`, is a constant, so that only recent blocks are read.
create or replace temporary table fresh as
select t.number, e.time_ns, e.received_ns, e.operation, e.outcome in ('ok', 'error', 'denied') as counts, e.subagent, e.tool, {acted_on} as acted_on
from events e join taken t on e.session = t.session and e.service is not distinct from t.service and e.project is not distinct from t.project
  and e.time_ns >= t.from_ns
where t.added and e.time_ns between $changed_ns and $high_ns;

-- Hashes of the scopes of streaks and chains with such an event; `call`: of calls without a target, which are in a chain with errors whose target
-- was found in a message.
create or replace temporary table scopes as
select distinct scope
from (
  select unnest([hash(number, 'session', subagent), case when tool is not null then hash(number, 'tool', subagent, tool) end,
    case when tool is not null and acted_on is not null then hash(number, 'target', subagent, tool, acted_on) end]) as scope
  from fresh where operation = 'tool' and counts
  union all
  select case when acted_on is null then hash(number, 'call', subagent, operation, tool)
    else hash(number, 'chain', subagent, operation, tool, acted_on) end
  from fresh
)
where scope is not null;

-- Until when each session goes on after `from_ns` without a pause of an hour (`part` 0), and when the last of its records so far was received.
create or replace temporary table heard as
select number, time_ns, count(case when idle then 1 end) over so_far as part, max(received_ns) over so_far as heard_ns
from (
  select number, time_ns, received_ns, coalesce(time_ns - lag(time_ns) over (partition by number order by time_ns) > $idle, false) as idle from fresh
)
window so_far as (partition by number order by time_ns);

create or replace temporary table open_streaks as
select k.rowid as row, t.number, k.started, k.until_ns, not t.added or case k.scope
    when 'session' then hash(t.number, 'session', k.subagent)
    when 'tool' then hash(t.number, 'tool', k.subagent, k.only_tool)
    else hash(t.number, 'target', k.subagent, k.only_tool, k.only_target) end in (select scope from scopes) as anew
from {database}.main.kept_streaks k join taken t on k.session = t.session and k.service is not distinct from t.service
  and k.project is not distinct from t.project and k.until_ns >= t.from_ns
where k.until_ns >= $changed_ns and not $nothing_kept;

create or replace temporary table open_chains as
select * exclude (added, repaired, until_ns), not added or time_ns >= from_ns or until_ns >= from_ns and scope_changed as anew, not repaired as lasts,
  until_ns >= from_ns as is_open
from (
  select k.rowid as row, k.event_id, t.number, t.from_ns, t.added, k.time_ns, k.repaired,
    case when k.repaired then k.time_ns + round(k.seconds * 1e9)::bigint else k.time_ns + $window end as until_ns,
    hash(t.number, 'chain', k.subagent, k.operation, k.tool, k.target) in (select scope from scopes)
      or hash(t.number, 'call', k.subagent, k.operation, k.tool) in (select scope from scopes) as scope_changed
  from {database}.main.kept_chains k join taken t on k.session = t.session and k.service is not distinct from t.service
    and k.project is not distinct from t.project and k.time_ns >= t.from_ns - $window
  where k.time_ns >= $changed_ns - $window and not $nothing_kept
);

create or replace temporary table bounds as
select t.number, t.project, t.service, t.session, t.from_ns, t.added, least(t.from_ns, min(again.begin_ns)) as begin_ns
from taken t left join (
  select number, started as begin_ns from open_streaks where anew
  union all
  select number, time_ns from open_chains where anew and is_open
) as again using (number)
where t.session is not null
group by t.number, t.project, t.service, t.session, t.from_ns, t.added;

create or replace temporary table services as
select t.project, t.service, coalesce(any_value(n.time_ns), min(t.from_ns)) as time_ns
from taken t left join kept_newest n on n.service is not distinct from t.service and n.project is not distinct from t.project
group by t.project, t.service
