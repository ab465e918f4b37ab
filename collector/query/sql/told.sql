-- Class, tool and template of each group in either period, read only from its newest event, and whether it was never seen before (`fresh`).
with ever as (          -- of all groups: they are fewer rows to join than events
  select fingerprint, {first} >= $middle_ns as fresh, {last} as time_ns
  from {ever} where fingerprint is not null
  group by all
)
select ever.fingerprint, fresh, error_class, tool, template
from ever semi join (select fingerprint from {shown} where {where} and fingerprint is not null) as shown using (fingerprint)
  join events using (time_ns, fingerprint)
qualify row_number() over (partition by ever.fingerprint order by event_id desc) = 1
