-- One outcome of one attempt: a tool call that ended, a model request or stream that ended or broke, a failure of the agent itself.
-- This file is the only source of column names, types and order; collector/columns.py reads it. Times are BIGINT nanoseconds since 1970,
-- UTC, because DuckDB 2.0's TIMESTAMP_NS loses nanoseconds in time_bucket, date_trunc and fetchall.
create table if not exists events (
  time_ns            bigint not null,   -- when it ended: record, else observed, else received
  received_ns        bigint not null,   -- when this collector received it; retention goes by it
  event_id           ubigint not null,  -- fixed when the event is first stored
  source             varchar,           -- the dialect that was recognised
  source_signal      varchar,           -- log, span, event
  service            varchar,
  service_version    varchar,
  service_instance   varchar,
  environment        varchar,
  project            varchar,           -- whose it is, from the ingest token; null: the token names no project
  repository         varchar,           -- the code base a coding agent worked in; null: nothing tells it yet
  provenance         varchar,           -- telemetry, transcript, both; null: telemetry, as nothing else is taken yet
  agent              varchar,
  model              varchar,           -- of a tool call, the model that asked for it
  model_from         varchar,           -- record, request, session: how the model is known (collector/engine/duckdb/sql/models.sql)
  asked_by           ubigint,           -- of a tool call, the event of the model request that asked for it
  provider           varchar,
  session            varchar,
  session_source     varchar,           -- record, resource, trace, trace_id, instance
  subagent           varchar,
  turn               varchar,
  call_id            varchar,
  asked              varchar,           -- of a model request, the ids of the calls that its answer asks for, with spaces between
  purpose            varchar,           -- of a model request beside the conversation, what for: a title, a summary, a check; it asks for no call
  sequence           bigint,            -- the agent's own order
  trace_id           varchar,           -- hex
  span_id            varchar,
  parent_span_id     varchar,
  operation          varchar,           -- tool, model, agent
  outcome            varchar,           -- ok, error, cancelled, denied, unknown
  tool               varchar,
  tool_kind          varchar,           -- function, mcp, browser, command, file, …
  mcp_server         varchar,
  target             varchar,           -- path, URL, command or resource that the tool acted on
  phase              varchar,           -- model, tool, sandbox, system
  domain             varchar,           -- this and the next ten: null on ok
  category           varchar,
  error_class        varchar,
  reported_class     varchar,           -- what the agent itself called it, unchanged
  classified_by      varchar,           -- reported, alias, shape, status, message, none
  severity           varchar,           -- info, warn, error, fatal
  attribution        varchar,           -- model, tool, environment, provider, user, agent
  recovery           varchar,           -- retry, fix_and_retry, needs_user, none
  mistake            boolean,
  retryable          boolean,
  fatal              boolean,
  retryable_declared boolean,           -- null if the agent did not say
  attempt            integer,
  retry_after_ms     bigint,
  status_code        integer,
  duration_ms        double,
  input_tokens       bigint,
  output_tokens      bigint,
  cost_usd           double,
  message            varchar,           -- sanitised, as are the rest
  stack              varchar,
  suggestion         varchar,           -- what the agent told the model, else the taxonomy's advice
  fingerprint        ubigint,           -- the group
  template           varchar,
  params             json,
  params_hash        ubigint,           -- keyed hash of the arguments before sanitising; null if the agent had cut them
  redactions         integer,           -- secrets removed from this event
  reported_streak    integer,           -- the agent's own count of consecutive mistakes
  attributes         json,
  report_rank        smallint,          -- rank of this event's only report in the fold; see `reports`
  outcome_strength   smallint,          -- how certain its outcome is
  target_guessed     boolean            -- `target` was found in the message: what its call itself named is not known
);
