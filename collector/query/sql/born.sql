-- Groups in the window that were never seen before it, by service: when each group and each service was first seen.
with fresh as (
  select fingerprint, coalesce(service, '') as service, min(time_ns) over (partition by fingerprint) as born_ns
  from events
  where time_ns >= $start_ns and time_ns < $until_ns and fingerprint not in (
    select distinct fingerprint from {before} where fingerprint in (
      select fingerprint from events where time_ns >= $start_ns and time_ns < $until_ns and fingerprint is not null))
),
services as (
  select coalesce(service, '') as service, {first} as whose_ns from {ever}
  where coalesce(service, '') in (select service from fresh) group by all
)
select distinct fingerprint, service, born_ns, whose_ns from fresh join services using (service)
