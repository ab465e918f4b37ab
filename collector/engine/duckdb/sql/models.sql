-- Gives the tool calls of changed sessions the request that asked for them, and its model where their own records name none: that of the request whose answer has
-- the call's id (`request`), else that of the last request of the same session and sub-agent before the call (`session`). Before means that it had
-- ended when the call began or, as agents begin calls while the answer still comes, that it had begun; of a call that does not say how long it took,
-- that it had ended when the call did. Requests with a purpose beside the conversation ask for nothing. Only the events of a day are looked at, so
-- that sessions of weeks are not read whole.
create or replace temporary table unmodelled as
select service, session, min(time_ns) as from_ns from changed
where modelled is null and time_ns between $first_ns and $last_ns
group by all order by from_ns limit $most;

-- What asked is found by the time when it began, `place`. Sub-agents are hashes below, in which no sub-agent is one more value.
create or replace temporary table asking as
select event_id, time_ns, model, asked, purpose, u.service, u.session, subagent, least(began_ns + 1, time_ns) as place
from (
  select *, time_ns - (coalesce(duration_ms, 0) * 1e6)::bigint as began_ns from events
  where time_ns >= $since_ns - $window and operation = 'model' and model is not null
) as e join unmodelled u on e.session = u.session and e.service is not distinct from u.service and e.time_ns >= u.from_ns - $window;

create or replace temporary table calls as
select e.rowid as row, e.event_id, e.time_ns, e.call_id, e.model, e.model_from, e.asked_by, u.service, u.session,
  e.model is not null and coalesce(e.model_from not in ('request', 'session'), true) as own,
  hash(u.service, u.session, e.subagent, coalesce(e.duration_ms > 0, false)) as helper, e.time_ns - (coalesce(e.duration_ms, 0) * 1e6)::bigint as place
from {database}.main.events e join unmodelled u on e.session = u.session and e.service is not distinct from u.service and e.time_ns >= u.from_ns
where e.time_ns >= $since_ns and e.operation = 'tool';

create or replace temporary table modelled as
with named as (         -- of several requests whose answers have an id, as some servers count their calls anew, the last before the call
  select c.row, arg_max(struct_pack(model := r.model, event_id := r.event_id), struct_pack(place := r.place, event_id := r.event_id)) as request
  from (select *, unnest(string_split(asked, ' ')) as call_id from asking where asked is not null) as r
    join calls c on c.session = r.session and c.service is not distinct from r.service and c.call_id = r.call_id
  where r.place between c.time_ns - $window and c.time_ns
  group by c.row
),
latest as (             -- one request for each moment, for calls of which it is known when they began, and for the others
  select helper, place, arg_max(struct_pack(model := model, event_id := event_id), event_id) as request
  from (
    select hash(service, session, subagent, true) as helper, place, model, event_id from asking where purpose is null union all
    select hash(service, session, subagent, false) as helper, time_ns as place, model, event_id from asking where purpose is null
  )
  group by helper, place
),
found as (
  select c.*, named.request as told,
    case when latest.place >= c.time_ns - $window then latest.request end as last
  from calls c left join named using (row) asof left join latest on latest.helper = c.helper and latest.place <= c.place
)
select row, service, session, time_ns, asking.*
from (
  select found.*, case
      when own then struct_pack(model := model, model_from := model_from, asked_by := coalesce(told.event_id, last.event_id))
      when told is not null then struct_pack(model := told.model, model_from := 'request', asked_by := told.event_id)
      else struct_pack(model := last.model, model_from := case when last is not null then 'session' end, asked_by := last.event_id)
    end as asking
  from found
)
where (model, model_from, asked_by) is distinct from (asking.model, asking.model_from, asking.asked_by);

update {database}.main.events set model = m.model, model_from = m.model_from, asked_by = m.asked_by
from modelled m where events.rowid = m.row;

update changed set modelled = true from unmodelled u
where changed.session is not distinct from u.session and changed.service is not distinct from u.service
  and changed.modelled is null and changed.time_ns between $first_ns and $last_ns;

-- Their hours are counted anew; all are, if nothing is kept.
insert into changed
select service, session, min(time_ns), true from modelled where not $nothing_kept group by service, session, time_ns // $hour
