-- What storms.sql tells, in one reading of the errors: for ClickHouse, which computes what WITH names again for each mention of it. An error is
-- struck if a run of {least} errors within {window} ns covers it; struck errors with short pauses between them are a storm.
with errors as (
  select {keys}error_class, time_ns, honoured, case when session is not null then hash(project, service, session) end as whose
  from {source} where {where} and error_class is not null
),
runs as (               -- equal times have no order: the place is the one that all windows agree on
  select *, row_number() over of_kind as place, lead(time_ns, {least} - 1) over of_kind - time_ns <= {window} as dense
  from errors window of_kind as (partition by {keys}error_class order by time_ns)
),
covered as (
  select *, max(coalesce(dense, false)::int) over (
    partition by {keys}error_class order by place rows between {least} - 1 preceding and current row
  ) as struck
  from runs
),
parted as (
  select *, coalesce(time_ns - lag(time_ns) over of_kind > {window}, true)::int as parts
  from covered where struck = 1 window of_kind as (partition by {keys}error_class order by place)
),
numbered as (
  select *, sum(parts) over (partition by {keys}error_class order by place rows unbounded preceding) as storm from parted
),
minutes as (
  select *, count(*) over (partition by {keys}error_class, storm, time_ns // {minute}) as in_a_minute from numbered
),
storms as (
  select *, case when (select max(time_ns) from events) - ended <= {window} then 'ongoing' else 'ended' end as state
  from (
    select {keys}error_class, min(time_ns) as started, max(time_ns) as ended, count(distinct whose) as sessions, count(*) as calls,
      max(in_a_minute) as most_in_a_minute, count(honoured) as told_to_wait, count(*) filter (honoured) as honoured
    from minutes group by {keys}error_class, storm having max(time_ns) >= $from_ns and min(time_ns) < $to_ns
  )
)
select {keys}error_class, started, ended, state, sessions, calls, most_in_a_minute, told_to_wait, honoured from storms where {chosen}
