-- Recounts stale hours of chains, up to {most} of them, newest first. An hour in which errors may still be repaired is left out.
create or replace temporary table counted_hours as
select time_ns from stale_chains
where time_ns + $hour + $window <= (select max(time_ns) from kept_newest)
qualify time_ns > max(time_ns) over () - {most} * $hour;

delete from hourly_chains using counted_hours c where hourly_chains.time_ns = c.time_ns;

insert into hourly_chains by name
select time_ns - time_ns % $hour as time_ns, {hourly}, attempts, {chains},
  list(struct_pack(time_ns, heard_ns, retried) order by time_ns, heard_ns, retried) filter (not repaired) as unrepaired
from kept_chains
where time_ns >= $low_ns and time_ns < $high_ns and list_contains($hours::bigint[], time_ns - time_ns % $hour)
group by time_ns - time_ns % $hour, {hourly}, attempts;

delete from stale_chains using counted_hours c where stale_chains.time_ns = c.time_ns
