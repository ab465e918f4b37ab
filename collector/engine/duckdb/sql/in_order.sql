-- Of sessions that are not remembered, since when anything has been open that an event at or after `from_ns` may change.
select number, min(begin_ns)
from (
  select t.number, k.started as begin_ns
  from kept_streaks k join taken t on k.session = t.session and k.service is not distinct from t.service and k.project is not distinct from t.project
    and k.until_ns >= t.from_ns
  where k.until_ns >= $changed_ns and list_contains($unknown::bigint[], t.number)
  union all
  select t.number, k.time_ns
  from kept_chains k join taken t on k.session = t.session and k.service is not distinct from t.service and k.project is not distinct from t.project
    and k.time_ns >= t.from_ns - $window
  where k.time_ns >= $changed_ns - $window and not k.repaired and list_contains($unknown::bigint[], t.number)
)
group by number;

-- The events of sessions that only had later ones added, in their order, each session after what was open in it before: as many events are at or
-- after `from_ns` as were added. Of the sessions with the fewest such events, $most in all.
with wanted as (
  select t.number, t.project, t.service, t.session, t.from_ns, t.events, least(b.begin_ns, t.from_ns) as begin_ns
  from taken t left join (select unnest($numbers::bigint[]) as number, unnest($begins::bigint[]) as begin_ns) as b using (number)
  where t.added and t.session is not null
),
chosen as (
  select *
  from (
    select w.*, count(*) as n
    from events e join wanted w on e.session = w.session and e.service is not distinct from w.service and e.project is not distinct from w.project
      and e.time_ns >= w.begin_ns
    where e.time_ns >= $low_ns
    group by all having count(case when e.time_ns >= w.from_ns then 1 end) = w.events
  )
  qualify sum(n) over (order by n, number) <= $most
)
select c.number, e.event_id, e.time_ns, e.received_ns, coalesce(e.sequence, {last}) as sequence, e.operation, e.outcome, e.mistake, e.error_class,
  e.reported_streak, e.params_hash, e.retry_after_ms, e.duration_ms, e.input_tokens, e.output_tokens, e.cost_usd, e.subagent, e.tool, e.target,
  {acted_on} as acted_on, e.asked_by, e.rowid
from {database}.main.events e join chosen c on e.session = c.session and e.service is not distinct from c.service
  and e.project is not distinct from c.project and e.time_ns >= c.begin_ns
where e.time_ns >= $low_ns
order by c.number, e.time_ns, sequence, e.event_id;

-- Of events without a session.
select project, service, max(time_ns) from events e
where session is null and time_ns >= $changed_ns
  and exists (select 1 from taken t where t.session is null and t.added and t.service is not distinct from e.service and t.project is not distinct from e.project)
group by project, service;

merge into kept_newest k using incoming i on k.service is not distinct from i.service and k.project is not distinct from i.project
when matched and i.time_ns > k.time_ns then update set time_ns = i.time_ns
when not matched then insert values (i.project, i.service, i.time_ns);

delete from taken where added and session is null or list_contains($done::bigint[], number)
