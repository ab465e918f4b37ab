-- What the groups of the range are, and whether each was seen before it.
select fingerprint, arg_max(error_class, time_ns) as error_class, arg_max(tool, time_ns) as tool,
  arg_max(template, time_ns) as template, min(time_ns) >= $middle_ns as fresh
from events semi join (select distinct fingerprint from {source} where {where} and fingerprint is not null) as shown
  on events.fingerprint = shown.fingerprint
group by all
