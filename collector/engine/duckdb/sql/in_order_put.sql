-- new_streaks
insert into kept_streaks by name
select i.* exclude (row, was) replace (round(i.busy_ms, 6) as busy_ms, round(i.cost_usd, 9) as cost_usd),
  told.project, told.service, told.session, told.subagent, {firsts}
from incoming i join {database}.main.events told on told.rowid = i.row
where told.rowid between $low and $high;

-- parted_streaks: mistakes that were one streak with the errors
insert into kept_streaks by name
select k.* replace (i.kind as kind)
from kept_streaks k join incoming i on k.first_event_id = i.first_event_id and k.scope = i.scope
where k.kind = 'both' and k.started between $low and $high;

-- longer_streaks
update {database}.main.kept_streaks as k set kind = i.kind, only_tool = i.only_tool, only_target = i.only_target, length = i.length, ended = i.ended,
  until_ns = i.until_ns, succeeded = i.succeeded, heard_ns = i.heard_ns, since = i.since, classes = i.classes, tools = i.tools,
  last_event_id = i.last_event_id, to_sequence = i.to_sequence, calls = i.calls, busy_ms = round(i.busy_ms, 6), told = i.told,
  input_tokens = i.input_tokens, output_tokens = i.output_tokens, cost_usd = round(i.cost_usd, 9)
from incoming i
where k.first_event_id = i.first_event_id and k.scope = i.scope and k.kind = i.was and k.started between $low and $high;

-- closed_streaks
update {database}.main.kept_streaks as k set until_ns = i.until_ns, succeeded = true, heard_ns = null, calls = i.calls,
  busy_ms = round(i.busy_ms, 6), told = i.told, input_tokens = i.input_tokens, output_tokens = i.output_tokens, cost_usd = round(i.cost_usd, 9)
from incoming i
where k.first_event_id = i.first_event_id and k.scope = i.scope and k.kind = i.kind and k.started between $low and $high;

-- lasting_streaks
update {database}.main.kept_streaks as k set until_ns = i.until_ns, heard_ns = i.heard_ns
from incoming i
where k.first_event_id = i.first_event_id and k.scope = i.scope and k.kind = i.kind and k.started between $low and $high;

-- new_errors
insert into kept_chains by name
select i.* exclude (row), e.retryable_declared, {dimensions}
from incoming i join {database}.main.events e on e.rowid = i.row
where e.rowid between $low and $high;

-- tried_errors
update {database}.main.kept_chains as k set retried = i.retried, next_id = i.next_id, next_duration_ms = i.next_duration_ms,
  next_request = i.next_request, honoured = i.honoured, repaired = i.repaired, identical_retry = i.identical_retry, same = i.same,
  attempts = i.attempts, seconds = i.seconds, heard_ns = i.heard_ns
from incoming i
where k.event_id = i.event_id and k.time_ns between $low and $high;

-- heard_errors
update {database}.main.kept_chains as k set heard_ns = i.heard_ns
from incoming i
where k.event_id = i.event_id and k.time_ns between $low and $high;

-- note_streaks
insert into unpublished (about, project, service, session, time_ns, event_id, scope, kind)
select 'kept_streaks', k.project, k.service, k.session, k.started, k.first_event_id, k.scope,
  unnest(list_distinct([i.kind, coalesce(i.was, i.kind)]))
from kept_streaks k join incoming i on k.first_event_id = i.first_event_id and k.scope = i.scope and k.kind = i.kind
where k.started between $low and $high;

-- note_errors
insert into unpublished (about, project, service, session, time_ns, event_id)
select 'kept_chains', k.project, k.service, k.session, k.time_ns, k.event_id
from kept_chains k join incoming i on k.event_id = i.event_id
where k.time_ns between $low and $high
