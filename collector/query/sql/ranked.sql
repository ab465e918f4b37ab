-- Exact quantiles of durations in little memory: counts by narrow ranges of durations show in which ranges the quantiles lie, and only the values
-- in these are compared. Equal to quantile_cont, which holds every value. The fractions may depend on the number of durations (`last` + 1).
with durations as not materialized (
  select {named}, {earlier} as earlier, duration_ms, (64 * log2(least(greatest(duration_ms, 1e-3), 1e12)))::int as bucket
  from {source} where {where} and duration_ms is not null
),
counts as (
  select *, sum(n) over (partition by {keys}, earlier order by bucket) - n as before, sum(n) over (partition by {keys}, earlier) - 1 as last
  from (select {keys}, earlier, bucket, count(*)::bigint as n from durations group by all)
),
wanted as (
  select * from counts where exists (
    select 1 from (select unnest({fractions}) as fraction) where before <= ceil(fraction * last) and before + n > floor(fraction * last))
),
found as (
  select *, before + sum(n) over (partition by {keys}, earlier, bucket order by duration_ms) as upto
  from (
    select {of_durations}, durations.earlier, durations.bucket, last, before, duration_ms, count(*) as n
    from durations join wanted
      on durations.bucket = wanted.bucket and durations.earlier = wanted.earlier and {same}
    group by all)
)
select {keys}, {values}
from (
  select {keys}, earlier, last, place, fraction * last - floor(fraction * last) as beyond,
    min(duration_ms) filter (upto > floor(fraction * last)) as low, min(duration_ms) filter (upto > ceil(fraction * last)) as high
  from (select *, unnest({fractions}) as fraction, generate_subscripts({fractions}, 1) as place from found)
  group by all)
group by {keys}
