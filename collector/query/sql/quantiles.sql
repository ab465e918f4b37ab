-- A quantile of the durations of each side, with values around it from which the interval of order statistics is chosen.
select {keys}side, count(duration_ms) as whole, quantile_cont(duration_ms, {fractions}) as around
from (select *, {side} as side from {source} where {where})
where side is not null and duration_ms is not null
group by {keys}side
