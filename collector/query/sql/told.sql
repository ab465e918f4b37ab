-- What the groups of the range are, and whether each was seen before it. Texts are read of the newest event alone.
with ever as (          -- of every group: fewer rows to join than events
  select fingerprint, {first} >= $middle_ns as fresh, {last} as time_ns
  from {ever} where fingerprint is not null
  group by all
)
select ever.fingerprint, fresh, error_class, tool, template
from ever semi join (select fingerprint from {shown} where {where} and fingerprint is not null) as shown using (fingerprint)
  join events using (time_ns, fingerprint)
qualify row_number() over (partition by ever.fingerprint order by event_id desc) = 1
