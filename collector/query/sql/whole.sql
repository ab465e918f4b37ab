-- All columns of the events of a page, with the outcomes of the retry chains that its errors began. Chains are judged from few columns; all columns
-- are read only for the events of the page. Whether a window is still open is judged from the day after the page, or from all later events if a
-- service sent none on that day.
with page as ({page}),
known as (
  select case
    when exists (
      select project, service from page where outcome = 'error'
      except
      select project, service from events
      where time_ns > (select max(time_ns) from page) + {window} and time_ns <= (select max(time_ns) from page) + {day})
    then 9223372036854775807 else (select max(time_ns) from page) + {day} end as until_ns
),
chains as (select event_id, recovered from ({judged}))
select events.time_ns as time, events.received_ns as received_time,
  events.* exclude (time_ns, received_ns, report_rank, outcome_strength, target_guessed), chains.recovered
from events semi join page on events.time_ns = page.time_ns and events.event_id = page.event_id
  left join chains on events.event_id = chains.event_id
