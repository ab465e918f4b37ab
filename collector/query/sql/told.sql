-- What the groups of the range are, and whether each was seen before it. Texts are read of the newest event alone.
with ever as (          -- of every group: fewer rows to join than events
  select fingerprint, min(time_ns) >= $middle_ns as fresh, max(time_ns) as time_ns, arg_max(event_id, time_ns) as event_id
  from events where fingerprint is not null
  group by all
)
select ever.fingerprint, fresh, error_class, tool, template
from ever semi join (select fingerprint from {source} where {where} and fingerprint is not null) as shown using (fingerprint)
  join events using (time_ns, event_id)
