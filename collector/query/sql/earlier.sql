-- Of the groups of the window, those that were there before it, and the services that were a day before it: no more is read of all time than is asked for.
with earlier_groups as (
  select distinct fingerprint from events
  where time_ns < $start_ns and fingerprint in (
    select fingerprint from events where time_ns >= $start_ns and time_ns < $until_ns and fingerprint is not null)
),
earlier_services as (
  select coalesce(service, '') as service from events where time_ns < $start_ns - {day} group by all
)
