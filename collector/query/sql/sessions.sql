-- One row per session of the matching events. The sessions of the page are found by the columns that they are sorted by; the other columns are
-- read only for these. Strip: o(k), e(rror), c(ancelled), d(enied).
with worst as (
  select hash(project, service, session) as worst_whose, max(length) as worst_streak, count(*) filter (length >= 2) as streaks
  from ({streaks}) group by all
),
fates as (
  select hash(project, service, session) as fated_whose, count(*) filter (not recovered) as lasting, count(*) filter (recovered is null) as not_known_yet
  from ({chains}) where {where} group by all
),
{all_ends}page as materialized (
  select whose, coalesce(worst_streak, 0) as worst_streak, coalesce(streaks, 0) as streaks, coalesce(lasting, 0) as lasting,
    coalesce(not_known_yet, 0) as not_known_yet
  from (
    select hash(project, service, session) as whose{sorted} from {source} where {where} and session is not null group by all
  ) left join worst on whose = worst_whose left join fates on whose = fated_whose {with_ends}
  where {in_state}
  order by {order} limit {limit}
),
shown as materialized (
  select hash(shown.project, shown.service, shown.session) as whose, any_value(project) as project, any_value(service) as service, any_value(session) as session, {told},
    right(string_agg(left(outcome, 1), '' order by time_ns, sequence nulls last, event_id), {strip}) as strip
  from {source} as shown semi join page on hash(shown.project, shown.service, shown.session) = page.whose
  where {where}
  group by hash(shown.project, shown.service, shown.session)
){page_ends}
select * from shown join page using (whose) left join ends on whose = ended_whose
