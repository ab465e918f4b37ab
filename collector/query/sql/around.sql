select events.*
from events semi join page on events.service is not distinct from page.service
  and (events.session = page.session or events.event_id = page.event_id)
where time_ns >= (select min(time_ns) from page) and time_ns <= (select max(time_ns) from page) + {window}
