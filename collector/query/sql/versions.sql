-- Every event once for each state of its retry chain (not retried, retried, ended), with the times between which it counts in this state. That it
-- was retried, and how its chain ended, is known only from the time of the event that shows it.
select * from (
  select * exclude (retried, recovered, next_ns, ok_ns, heard_ns, whose, gone_ns, retried_ns, settled_ns, state),
    case state when 0 then time_ns when 1 then retried_ns else settled_ns end as enter_ns,
    case state when 0 then least(retried_ns, settled_ns, gone_ns) when 1 then least(settled_ns, gone_ns) else gone_ns end as leave_ns,
    case state when 0 then false when 1 then true else retried end as retried,
    case when state = 2 then recovered end as recovered
  from (
    select event.*, event.time_ns + {kept} as gone_ns,
      case when event.retried then event.next_ns end as retried_ns,
      case when event.recovered then event.ok_ns when not event.recovered then least(later.time_ns, event.heard_ns + {idle} + 1) end as settled_ns
    from (select *, hash(project, service) as whose from ({judged})) as event
      asof left join (select hash(project, service) as whose, time_ns from events where time_ns >= {since} and time_ns < $until_ns) as later
        on event.whose = later.whose and event.time_ns + {chain} < later.time_ns
  ) cross join (select unnest([0, 1, 2]) as state)
)
where enter_ns < leave_ns
