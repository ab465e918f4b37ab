-- Bursts of errors of one class: stretches in which every error is one of at least {least} within {window} ns. A stretch without one
-- for longer than that ends it.
with errors as (
  select {keys}error_class, event_id, time_ns, service, session, honoured
  from ({judged}) where {where} and outcome = 'error' and error_class is not null
),
dense as (
  select *, coalesce(lead(time_ns, {least} - 1) over storm - time_ns <= {window}, false) as dense
  from errors window storm as (partition by {keys}error_class order by time_ns, event_id)
),
hot as (
  select *, bool_or(dense) over (
      partition by {keys}error_class order by time_ns, event_id rows between {least} - 1 preceding and current row) as hot,
    count(*) over (partition by {keys}error_class order by time_ns range between {minute} preceding and current row) as within
  from dense
),
numbered as (
  select *, count(*) filter (begins) over (partition by {keys}error_class order by time_ns, event_id) as storm
  from (
    select *, coalesce(time_ns - lag(time_ns) over (partition by {keys}error_class order by time_ns, event_id) > {window}, true)
      as begins
    from hot where hot
  )
)
select {keys}error_class, min(time_ns) as started, max(time_ns) as ended,
  case when (select max(time_ns) from events) - max(time_ns) <= {window} then 'ongoing' else 'ended' end as state,
  count(distinct case when session is not null then hash(service, session) end) as sessions,
  count(*) as calls, max(within) as most_in_a_minute, count(honoured) as told_to_wait, count(*) filter (honoured) as honoured
from numbered
group by {keys}error_class, storm
having max(time_ns) >= $from_ns
