-- Every column of the events of a page, with what became of their retry chains.
with page as ({page})
select whole.* exclude (report_rank, outcome_strength, begins, retried, next_id, honoured, identical_retry, recovered_identical,
    recovered_changed, attempts, seconds, newest_service)
  rename (time_ns as time, received_ns as received_time)
from ({judged}) as whole semi join page on whole.event_id = page.event_id
