-- What is found of one kind, the best first: the very thing, then what begins so, then the newest. `row` is the newest event of each: the rest
-- of it is read only for those that are shown.
with ranked as materialized (
  select *, count(*) over () as found from ({found})
  order by value = $q desc, starts_with(lower(value), lower($q)) desc, last_seen desc, value limit $most
)
select '{kind}' as kind, value, {text} as text, service, session, event_id, fingerprint, events, last_seen, found
from ranked left join (
  select event_id as row, service, session, event_id, fingerprint, tool, error_class, outcome, template, message
  from {database}.main.events where rowid in (  -- a view of some events has no rowid; these were found in it
    select rowid from {database}.main.events where event_id in (select row from ranked))
) using (row)
order by value = $q desc, starts_with(lower(value), lower($q)) desc, last_seen desc, value
