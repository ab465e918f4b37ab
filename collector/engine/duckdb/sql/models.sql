-- Gives the tool calls of changed sessions the request that asked for them, and its model where their own records name none: that of the request whose answer has
-- the call's id (`request`), else that of the last request of the same session and sub-agent before the call (`session`). Before means that it had
-- ended when the call began or, as agents begin calls while the answer still comes, that it had begun; of a call that does not say how long it took,
-- that it had ended when the call did. Requests with a purpose beside the conversation ask for nothing. Only the events of a day are looked at, so
-- that sessions of weeks are not read whole.
create or replace temporary table unmodelled as
select project, service, session, min(time_ns) as from_ns, count(added) = count(*) as added from changed
where modelled is null and time_ns between $first_ns and $last_ns
group by all order by from_ns limit $most;

-- What asked is found by the time when it began, `place`. Sessions are numbers below, `part`, and sub-agents hashes, in which no sub-agent is one
-- more value.
create or replace temporary table asking as
select event_id, time_ns, model, asked, purpose, u.rowid as part, subagent, least(began_ns + 1, time_ns) as place
from (
  select *, time_ns - (coalesce(duration_ms, 0) * 1e6)::bigint as began_ns from events
  where time_ns between $since_ns - $window and $until_ns and operation = 'model' and model is not null
) as e join unmodelled u on e.session = u.session and e.service is not distinct from u.service and e.project is not distinct from u.project
  and e.time_ns >= u.from_ns - $window;

create or replace temporary table calls as
select e.rowid as row, e.time_ns, e.call_id, e.model, e.model_from, e.asked_by, u.rowid as part,
  e.model is not null and coalesce(e.model_from not in ('request', 'session'), true) as own,
  hash(u.rowid, e.subagent, coalesce(e.duration_ms > 0, false)) as helper, e.time_ns - (coalesce(e.duration_ms, 0) * 1e6)::bigint as place
from {database}.main.events e join unmodelled u on e.session = u.session and e.service is not distinct from u.service and e.project is not distinct from u.project
  and e.time_ns >= u.from_ns
where e.time_ns between $since_ns and $until_ns and e.operation = 'tool';

create or replace temporary table modelled as
with named as (         -- of several requests whose answers have an id, as some servers count their calls anew, the last before the call
  select c.row, arg_max(r.event_id, struct_pack(place := r.place, event_id := r.event_id)) as event_id
  from (select *, unnest(string_split(asked, ' ')) as call_id from asking where asked is not null) as r
    join calls c on c.part = r.part and c.call_id = r.call_id
  where r.place between c.time_ns - $window and c.time_ns
  group by c.row
),
latest as (             -- one request for each moment, for calls of which it is known when they began, and for the others
  select helper, place, max(event_id) as event_id
  from (
    select hash(part, subagent, true) as helper, place, event_id from asking where purpose is null union all
    select hash(part, subagent, false) as helper, time_ns as place, event_id from asking where purpose is null
  )
  group by helper, place
),
before as (             -- of few columns, as all of them are sorted
  select c.row, latest.event_id
  from (select row, helper, place, time_ns from calls) as c asof join latest on latest.helper = c.helper and latest.place <= c.place
  where latest.place >= c.time_ns - $window
),
found as (
  select c.row, c.part, c.time_ns, c.model as old_model, c.model_from as old_from, c.asked_by as old_by, r.event_id as asked_by,
    case when own then c.model else r.model end as model,
    case when own then c.model_from when named.row is not null then 'request' when before.row is not null then 'session' end as model_from
  from calls c left join named using (row) left join before using (row) left join asking r on r.event_id = coalesce(named.event_id, before.event_id)
)
select row, part, time_ns, model, model_from, asked_by from found
where model is distinct from old_model or model_from is distinct from old_from or asked_by is distinct from old_by;

update {database}.main.events set model = m.model, model_from = m.model_from, asked_by = m.asked_by
from modelled m where events.rowid = m.row;

-- Where no event was added, a request began: nothing else changed.
update changed set modelled = changed.added is distinct from 0 from unmodelled u
where changed.session is not distinct from u.session and changed.service is not distinct from u.service
  and changed.project is not distinct from u.project
  and changed.modelled is null and changed.time_ns between $first_ns and $last_ns;

-- Their hours are counted anew; all are, if nothing is kept.
insert into changed
select any_value(project), any_value(service), any_value(session), min(time_ns), true, 0 from modelled join unmodelled u on u.rowid = modelled.part
where not $nothing_kept group by u.rowid, time_ns // $hour
