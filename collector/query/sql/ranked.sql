-- Exact quantiles in little memory: counts by narrow ranges of values show in which ranges the quantiles lie, and only the values in these are
-- compared. Equal to quantile_cont, which holds every value. The fractions may depend on the number of values (`last` + 1).
with measured as not materialized (
  select {named}, {earlier} as earlier, {of} as value, (64 * log2(least(greatest({of}, 1e-3), 1e12)))::int as bucket
  from {source} where {where} and {of} is not null
),
counts as (
  select *, sum(n) over (partition by {keys}, earlier order by bucket) - n as before, sum(n) over (partition by {keys}, earlier) - 1 as last
  from (select {keys}, earlier, bucket, count(*)::bigint as n from measured group by all)
),
wanted as (
  select * from counts where exists (
    select 1 from (select unnest({fractions}) as fraction) where before <= ceil(fraction * last) and before + n > floor(fraction * last))
),
found as (
  select *, before + sum(n) over (partition by {keys}, earlier, bucket order by value) as upto
  from (
    select {of_measured}, measured.earlier, measured.bucket, last, before, value, count(*) as n
    from measured join wanted
      on measured.bucket = wanted.bucket and measured.earlier = wanted.earlier and {same}
    group by all)
)
select {keys}, {values}
from (
  select {keys}, earlier, last, place, fraction * last - floor(fraction * last) as beyond,
    min(value) filter (upto > floor(fraction * last)) as low, min(value) filter (upto > ceil(fraction * last)) as high
  from (select *, {fractions}[place] as fraction from (select *, unnest(range(1, len({fractions}) + 1)) as place from found))
  group by all)
group by {keys}
