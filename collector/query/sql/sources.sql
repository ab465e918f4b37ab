-- Who sends. `coverage` is the share of events that tell each fact; of errors for class and retryable.
select source, service, events, errors, last_seen, unclassified, unclassified / nullif(errors, 0)::double as unclassified_rate,
  reports_ok, struct_pack(
    session := sessioned / events, parameters := with_params / events, "order" := ordered / events, model := with_model / events,
    class := (errors - unclassified) / nullif(errors, 0), retryable := with_declared / nullif(errors, 0)) as coverage
from (
  select source, service, count(*) as events, count(*) filter (outcome = 'error') as errors, max(time_ns) as last_seen,
    count(*) filter (outcome = 'error' and error_class = 'UnknownError') as unclassified,
    bool_and({rated}) as reports_ok, count(session) as sessioned, count(params_hash) as with_params,
    count(sequence) as ordered, count(model) as with_model,
    count(*) filter (outcome = 'error' and retryable_declared is not null) as with_declared
  from {source} where {where}
  group by source, service
)
