-- Bursts of errors of one class: stretches in which every error is one of at least {least} within {window} ns; a longer pause ends a burst. Of all
-- errors only kind (class and keys, as a hash) and time are sorted, once: windows without an order of their own read the sorted rows as they
-- come, without holding them. A run of {least} errors is dense if it is short enough; dense runs that overlap or touch are a stretch, and stretches
-- with short pauses between them a storm. What else is told of storms is read for those of `page` alone.
with sorted as (
  select kind, time_ns from (select hash({keys}error_class) as kind, time_ns from {source} where {where} and {errors}) order by kind, time_ns
),
runs as (
  select kind, row_number() over () as place, time_ns as started,
    case when lead(kind, {least} - 1) over () = kind then lead(time_ns, {least} - 1) over () end as ended
  from sorted
),
dense as (
  select *, lag(kind) over () is distinct from kind as other, place - lag(place) over () as further, started - lag(ended) over () as pause
  from runs where ended - started <= {window}
),
numbered as (
  select *, sum((other or further > {least})::int) over (rows unbounded preceding) as stretch,
    sum((other or pause > {window})::int) over (rows unbounded preceding) as storm
  from dense
),
stretches as (
  select kind, storm, min(started) as started, max(ended) as ended, max(place) - min(place) + {least} as calls
  from numbered group by kind, storm, stretch
),
storms as (
  select *, case when (select max(time_ns) from events) - ended <= {window} then 'ongoing' else 'ended' end as state
  from (
    select storm, any_value(kind) as kind, min(started) as started, max(ended) as ended, sum(calls)::bigint as calls
    from stretches group by storm having max(ended) >= $from_ns
  )
),
page as materialized (select * from storms where {chosen}),
errors as (
  select {keys}error_class, time_ns, event_id, hash({keys}error_class) as kind, case when session is not null then hash(service, session) end as whose
  from {source} where {where} and {errors} and time_ns between (select min(started) from page) and (select max(ended) from page)
),
told as (
  select storm, {named}any_value(error_class) as error_class, count(distinct whose) as sessions, count(honoured) as told_to_wait,
    count(*) filter (honoured) as honoured
  from errors
  asof join (select kind, storm, started, ended from stretches semi join page using (storm)) as stretches
    on errors.kind = stretches.kind and errors.time_ns >= stretches.started
  left join (
    select event_id, honoured from kept_chains where honoured is not null and time_ns >= (select min(started) from page)
  ) as chains using (event_id)
  where time_ns <= stretches.ended
  group by storm
),
minutes as (
  select storm, max(errors) as most_in_a_minute
  from page join (select kind, time_ns // {minute} as minute, count(*) as errors from errors group by all) as minutes
    on page.kind = minutes.kind and minute between started // {minute} and ended // {minute}
  group by storm
)
select {keys}error_class, started, ended, state, sessions, calls, most_in_a_minute, told_to_wait, honoured
from page join told using (storm) join minutes using (storm)
