-- Groups in the window that were never seen before it, by service: when each group and each service was first seen. Errors are many, groups
-- are few: so errors are grouped before anything is done for each row.
with seen as materialized (
  select fingerprint, coalesce(project, '') as project, coalesce(service, '') as service, min(time_ns) as first_ns
  from events where time_ns >= $start_ns and time_ns < $until_ns and fingerprint is not null
  group by all
),
fresh as (
  select fingerprint, project, service, min(first_ns) over (partition by fingerprint) as born_ns
  from seen where fingerprint not in (select fingerprint from {before} where fingerprint in (select fingerprint from seen))
),
services as (
  select coalesce(project, '') as project, coalesce(service, '') as service, {first} as whose_ns from {ever}
  where coalesce(service, '') in (select service from fresh) group by all
)
select fingerprint, service, born_ns, whose_ns from fresh join services using (project, service)
