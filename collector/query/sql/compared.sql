-- Of each measure, sums over the sessions of each side, from which a value and the variance between sessions follow: first what each
-- session has of its part and of its whole. An event without a session is one of its own. What each condition says of an event is a column
-- before it is counted: a condition inside of an aggregate is looked at once for every aggregate.
select {keys}side, {sums}
from (
  select {keys}side, {counts}
  from (
    select {keys}{side} as side, case when session is null then event_id else hash(service, session) end as whose, {events}{marked}
    from {source} where {where}
    {struck}
  )
  where side is not null
  group by {keys}side, whose
)
group by {keys}side
