-- Bursts of errors of one class: stretches in which every error is one of at least {least} within {window} ns; a longer pause ends a burst. Of all
-- errors only kind (class and keys, as a number) and time are sorted, once: windows without an order of their own read the sorted rows as they
-- come, without holding them. A run of {least} errors is dense if it is short enough; dense runs that overlap or touch are a stretch, and stretches
-- with short pauses between them a storm. What else is told of storms is read for those of `page` alone, and again from the errors: to hold
-- them would take more than to read them.
with errors as not materialized (
  select {keys}error_class, time_ns, honoured, hash({keys}error_class) as kind, case when session is not null then hash(project, service, session) end as whose
  from {source} where {where} and error_class is not null
),
kinds as materialized (
  select *, (row_number() over (order by kind))::integer as number
  from (select *, hash({keys}error_class) as kind from (select distinct {keys}error_class from errors))
),
sorted as (
  select number, time_ns from errors join kinds using (kind) order by number, time_ns
),
runs as (
  select number, row_number() over as_sorted as place, time_ns as started,
    case when lead(number, {least} - 1) over as_sorted = number then lead(time_ns, {least} - 1) over as_sorted end as ended
  from sorted window as_sorted as ()
),
dense as (
  select *, lag(number) over as_placed is distinct from number as other, place - lag(place) over as_placed as further,
    started - lag(ended) over as_placed as pause
  from runs where ended - started <= {window} window as_placed as ()
),
numbered as (
  select *, (sum((other or further > {least})::int) over as_placed)::integer as stretch,
    (sum((other or pause > {window})::int) over as_placed)::integer as storm
  from dense window as_placed as (rows unbounded preceding)
),
stretches as materialized (
  select kind, storm, started, ended, calls
  from (
    select number, storm, min(started) as started, max(ended) as ended, max(place) - min(place) + {least} as calls
    from numbered group by number, storm, stretch
  ) join kinds using (number)
),
storms as (
  select *, case when (select max(time_ns) from events) - ended <= {window} then 'ongoing' else 'ended' end as state
  from (
    select storm, any_value(kind) as kind, min(started) as started, max(ended) as ended, sum(calls)::bigint as calls
    from stretches group by storm having max(ended) >= $from_ns and min(started) < $to_ns
  )
),
page as materialized (select * from storms where {chosen}),
span as (select min(started) as first_ns, max(ended) as last_ns, greatest({window}, (max(ended) - min(started)) // {slots}) as slot from page),
pieces as (             -- of their stretches, one for each slot: the engine joins equal slots faster than times that lie between others
  select kind, storm, started, ended, unnest(range(started // slot, ended // slot + 1)) as slot
  from stretches semi join page using (storm), span
),
struck as not materialized (
  select storm, time_ns, honoured, whose
  from (select kind, time_ns, honoured, whose, time_ns // slot as slot from errors, span where time_ns between first_ns and last_ns) as errors
    join pieces on errors.kind = pieces.kind and errors.slot = pieces.slot and time_ns between started and ended
),
told as materialized (  -- of each session, then of all: distinct ones of large storms do not fit into memory
  select storm, count(whose) as sessions, sum(told_to_wait)::bigint as told_to_wait, sum(honoured)::bigint as honoured
  from (
    select storm, whose, count(honoured) as told_to_wait, count(*) filter (honoured) as honoured from struck group by storm, whose
  )
  group by storm
),
minutes as (            -- once `told` is known: both at once do not fit either
  select storm, max(errors) as most_in_a_minute
  from (
    select storm, time_ns // {minute} as minute, count(*) as errors from struck, (select count(*) as known from told)
    where known > 0 group by all
  )
  group by storm
)
select {keys}error_class, started, ended, state, sessions, calls, most_in_a_minute, told_to_wait, honoured
from page join kinds using (kind) join told using (storm) join minutes using (storm)
