-- Every event once for each state of its retry chain (not retried, retried, ended), with the times between which it counts in this state. That it
-- was retried, and how its chain ended, is known only from the time of the event that shows it.
select event.* exclude (retried, recovered, next_ns, ok_ns, heard_ns, whose), version.*
from (
  select event, unnest([
    {{'enter_ns': event.time_ns, 'leave_ns': least(retried_ns, settled_ns, gone_ns), 'retried': false, 'recovered': null::boolean}},
    {{'enter_ns': retried_ns, 'leave_ns': least(settled_ns, gone_ns), 'retried': true, 'recovered': null::boolean}},
    {{'enter_ns': settled_ns, 'leave_ns': gone_ns, 'retried': event.retried, 'recovered': event.recovered}}
  ]) as version
  from (
    select event, event.time_ns + {kept} as gone_ns,
      case when event.retried then event.next_ns end as retried_ns,
      case when event.recovered then event.ok_ns when not event.recovered then least(later.time_ns, event.heard_ns + {idle} + 1) end as settled_ns
    from (select *, coalesce(service, '') as whose from ({judged})) as event
      asof left join (select coalesce(service, '') as whose, time_ns from events where time_ns >= {since} and time_ns < $until_ns) as later
        on event.whose = later.whose and event.time_ns + {chain} < later.time_ns
  )
)
where version.enter_ns < version.leave_ns
