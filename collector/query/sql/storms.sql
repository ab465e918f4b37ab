-- Bursts of errors of one class: stretches in which every error is one of at least {least} within {window} ns; a longer pause ends a burst. Only
-- narrow rows of numbers are sorted: `kind` is the class (and keys), `whose` the session, as 64-bit hashes. Errors of the same time are ordered by
-- event: all windows must have the same order.
with kinds as (
  select distinct {keys}error_class, hash({keys}error_class) as kind from {source} where {where} and {errors}
),
errors as (
  select hash({keys}error_class) as kind, time_ns, event_id, case when session is not null then hash(service, session) end as whose,
    waited as honoured
  from {source} left join (
    select event_id as waited_id, honoured as waited from kept_chains where honoured is not null and time_ns >= $start_ns
  ) on event_id = waited_id
  where {where} and {errors}
),
dense as (
  select *, coalesce(lead(time_ns, {least} - 1) over storm - time_ns <= {window}, false) as dense
  from errors window storm as (partition by kind order by time_ns, event_id)
),
hot as (
  select kind, time_ns, event_id, whose, honoured
  from dense
  qualify bool_or(dense) over (partition by kind order by time_ns, event_id rows between {least} - 1 preceding and current row)
),
numbered as (           -- `rows`: the default, which sums equal times together, takes ten times as long
  select *, sum(begins::int) over (partition by kind order by time_ns, event_id rows unbounded preceding) as storm
  from (
    select *, coalesce(time_ns - lag(time_ns) over (partition by kind order by time_ns, event_id) > {window}, true) as begins
    from hot
  )
),
minutes as (
  select *, count(*) over (partition by kind, storm order by time_ns range {minute} preceding) as within from numbered
),
storms as (
  select kind, min(time_ns) as started, max(time_ns) as ended, count(distinct whose) as sessions, count(*) as calls,
    max(within) as most_in_a_minute, count(honoured) as told_to_wait, count(*) filter (honoured) as honoured
  from minutes
  group by kind, storm
  having max(time_ns) >= $from_ns
)
select {keys}error_class, started, ended,
  case when (select max(time_ns) from events) - ended <= {window} then 'ongoing' else 'ended' end as state,
  sessions, calls, most_in_a_minute, told_to_wait, honoured
from storms join kinds using (kind)
