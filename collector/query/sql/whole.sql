-- Every column of the events of a page, with what became of the retry chains that its errors began. These are judged over few columns, and
-- only the page's own events are read whole. Whether a window is still open is known from the day after, unless a service was silent on it.
with page as ({page}),
known as (
  select case
    when exists (
      select service from page where outcome = 'error'
      except
      select service from events
      where time_ns > (select max(time_ns) from page) + {window} and time_ns <= (select max(time_ns) from page) + {day})
    then 9223372036854775807 else (select max(time_ns) from page) + {day} end as until_ns
),
chains as (select event_id, recovered from ({judged}))
select events.* exclude (report_rank, outcome_strength) rename (time_ns as time, received_ns as received_time), chains.recovered
from events semi join page on events.time_ns = page.time_ns and events.event_id = page.event_id
  left join chains on events.event_id = chains.event_id
