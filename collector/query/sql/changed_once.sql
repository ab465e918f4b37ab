-- As changed.sql, for several dimensions at once of which most sessions have a single value each: a session is then counted once for all of
-- them. A `kind` is a combination of one value of each. Sessions of a single kind count for all its values; in others, each dimension is
-- counted separately.
with kinds as materialized (
  select kind, unnest([{told}]) as told
  from (select distinct {names}, hash({names}) as kind from {counted} where {where})
),
calls as not materialized (
  select {present} as present, {session} as whose, hash({names}) as kind, {part} as counts from {source} where {where} and {only}
),
sessions as materialized (
  select present, whose, min(kind) as kind, max(kind) as other, count(*) filter (counts) as part, count(*) as whole from calls group by present, whose
),
alike as (
  select present, kind, {sums} from sessions where kind = other group by all
),
mixed as (
  select told.dimension, told.value, present, sum(part) as part, sum(whole) as whole
  from (
    select present, whose, calls.kind, count(*) filter (counts) as part, count(*) as whole
    from calls join (select present, whose from sessions where kind <> other) using (present, whose)
    group by all
  ) join kinds using (kind)
  group by 1, 2, 3, whose
)
select dimension, value, case when present then 'b' else 'a' end as side, {added}
from (
  select told.dimension, told.value, present, {listed} from alike join kinds using (kind)
  union all
  select dimension, value, present, {sums} from mixed group by all
)
group by all
