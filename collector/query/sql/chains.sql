-- Every error with a session and what became of it, as in judged.sql, but read from the chains that the store keeps.
-- `closed`: nothing that is still to come can repair it, because the service went on for longer, or the session has been silent for an hour.
select * exclude (newest_ns, heard_ns)
  replace (case when recovered then attempts end as attempts, case when recovered then seconds end as seconds),
  coalesce(recovered and same, false) as recovered_identical, coalesce(recovered and not same, false) as recovered_changed
from (
  select stored.*, newest_ns,
    coalesce(newest_ns - time_ns > {window}, false) or coalesce($clock_ns - heard_ns > {idle}, false) as closed,
    case when not {rated} then null when repaired then true when closed then false end as recovered
  from ({kept}) as stored left join (select project as newest_project, service as newest_service, time_ns as newest_ns from kept_newest)
    on service is not distinct from newest_service and project is not distinct from newest_project
)
