-- Data derived from the events, so that a query over a month does not read them all: updated about once a second for the sessions that
-- changed (collector/engine/duckdb/sql/keep.sql), and recomputed from all events by `misstep rebuild`.

-- Sessions with events added, changed or removed since they were last computed, and the earliest such time in each hour. Written in the
-- transaction that changes the events, so that a crash loses nothing. A null session: events without a session.
create table if not exists changed (
  project               varchar,
  service               varchar,
  session               varchar,
  time_ns               bigint not null,
  modelled              boolean,           -- the models of its calls are found (collector/engine/duckdb/sql/models.sql): null, not yet; false, and
                                           -- nothing else changed
  added                 integer            -- how many events were added, if they were only added or given models; null: some were replaced or removed
);

-- Time of the newest event of each service: it decides which streaks and chains are still open.
create table if not exists kept_newest (
  project               varchar,
  service               varchar,
  time_ns               bigint not null
);

-- All streaks, by scope and kind; `first_…` are the dimensions of the first event, to which filters apply.
create table if not exists kept_streaks (
  scope                 varchar not null,  -- session, tool, target
  kind                  varchar not null,  -- mistake, error, denied; both: a streak of errors that are all mistakes
  project               varchar,
  service               varchar,
  session               varchar not null,
  subagent              varchar,
  only_tool             varchar,           -- of all its events, if they have only one
  only_target           varchar,
  length                integer not null,
  started               bigint not null,   -- time of its first event; next, of its last
  ended                 bigint not null,
  until_ns              bigint not null,   -- time of the success that ended it, else an hour after the last event before a pause of more
                                           -- than that: no later event changes it
  succeeded             boolean not null,
  heard_ns              bigint,            -- when the last record of its session from its first event to a pause was received: an hour later none
                                           -- is expected; null: succeeded
  since                 integer[] not null, -- its length in parts, between which the agent's own count restarted
  classes               varchar[],
  tools                 varchar[],
  first_event_id        ubigint not null,
  last_event_id         ubigint not null,
  from_sequence         bigint not null,   -- of its first event, the largest number if it has none; next, of its last
  to_sequence           bigint not null,
  calls                 bigint,            -- this and the next five: only in scope session; what its session (and sub-agent) did from its
  busy_ms               double,            -- first event to the success that ended it, or else to its last event
  told                  bigint,            -- calls with tokens
  input_tokens          bigint,
  output_tokens         bigint,
  cost_usd              double,
  first_operation       varchar,
  first_outcome         varchar,
  first_domain          varchar,
  first_category        varchar,
  first_error_class     varchar,
  first_reported_class  varchar,
  first_classified_by   varchar,
  first_severity        varchar,
  first_attribution     varchar,
  first_recovery        varchar,
  first_mistake         boolean,
  first_retryable       boolean,
  first_fatal           boolean,
  first_tool            varchar,
  first_tool_kind       varchar,
  first_mcp_server      varchar,
  first_target          varchar,
  first_source          varchar,
  first_service_version varchar,
  first_environment     varchar,
  first_repository      varchar,
  first_provenance      varchar,
  first_agent           varchar,
  first_model           varchar,
  first_provider        varchar,
  first_trace_id        varchar,
  first_fingerprint     ubigint,
  first_status_code     integer
);

-- All errors with a session, and the outcome of the retry chains that they began.
create table if not exists kept_chains (
  event_id              ubigint not null,
  time_ns               bigint not null,
  operation             varchar,
  outcome               varchar,
  domain                varchar,
  category              varchar,
  error_class           varchar,
  reported_class        varchar,
  classified_by         varchar,
  severity              varchar,
  attribution           varchar,
  recovery              varchar,
  mistake               boolean,
  retryable             boolean,
  fatal                 boolean,
  tool                  varchar,
  tool_kind             varchar,
  mcp_server            varchar,
  target                varchar,
  source                varchar,
  project               varchar,
  service               varchar,
  service_version       varchar,
  environment           varchar,
  repository            varchar,
  provenance            varchar,
  agent                 varchar,
  model                 varchar,
  provider              varchar,
  session               varchar,
  subagent              varchar,
  trace_id              varchar,
  fingerprint           ubigint,
  status_code           integer,
  retryable_declared    boolean,
  asked_by              ubigint,           -- the model request that asked for it
  retried               boolean not null,  -- another attempt within 30 minutes
  next_id               ubigint,           -- that attempt; this and the next two
  next_duration_ms      double,
  next_request          ubigint,           -- the event that tells its tokens: the model request that asked for it, else the attempt itself
  honoured              boolean,           -- it waited as long as required; null: no time was given, or no attempt
  repaired              boolean not null,  -- an attempt within 30 minutes succeeded
  identical_retry       boolean not null,  -- the next attempt had the same parameters
  same                  boolean,           -- the attempt that repaired it had the same parameters; null: not repaired, or not known
  attempts              integer,           -- to the one that repaired it
  seconds               double,
  heard_ns              bigint             -- when the last record of its session in those 30 minutes was received: an hour later none is
                                           -- expected; null: repaired
);

-- Counts of the events of each hour by every dimension with few values in an hour, so that counts over days read few rows per hour instead of
-- its events. Always exact: an hour in `changed` or `stale_hours` is counted from the events (collector/query/sql/hours.sql).
create table if not exists hourly (
  time_ns               bigint not null,   -- start of the hour
  operation             varchar,
  outcome               varchar,
  domain                varchar,
  category              varchar,
  error_class           varchar,
  reported_class        varchar,
  classified_by         varchar,
  severity              varchar,
  attribution           varchar,
  recovery              varchar,
  mistake               boolean,
  retryable             boolean,
  fatal                 boolean,
  tool                  varchar,
  tool_kind             varchar,
  mcp_server            varchar,
  source                varchar,
  project               varchar,
  service               varchar,
  service_version       varchar,
  environment           varchar,
  repository            varchar,
  provenance            varchar,
  agent                 varchar,
  model                 varchar,
  provider              varchar,
  fingerprint           ubigint,
  status_code           integer,
  events                bigint not null,
  first_ns              bigint not null,   -- time of the first of them; next, of the last
  last_ns               bigint not null,
  with_session          bigint not null,   -- this and the next two: how many of them have it
  with_params           bigint not null,
  with_sequence         bigint not null,
  with_declared         bigint not null    -- errors only: with `retryable_declared`
);

-- Counts of the events of each hour by session and by dimensions with few values per session, so that counting or comparing sessions reads
-- one row for eight events. Events without a session are left out; the hours are the same as in `hourly`.
create table if not exists hourly_sessions (
  time_ns               bigint not null,   -- start of the hour
  operation             varchar,
  outcome               varchar,
  mistake               boolean,
  source                varchar,
  project               varchar,
  service               varchar,
  service_version       varchar,
  environment           varchar,
  repository            varchar,
  provenance            varchar,
  agent                 varchar,
  model                 varchar,
  provider              varchar,
  session               varchar not null,
  events                bigint not null,
  first_ns              bigint not null,
  last_ns               bigint not null
);

-- Hours with events added, changed or removed since they were last counted; always includes the newest one.
create table if not exists stale_hours (
  time_ns               bigint not null
);

-- Counts of the chains that errors of each hour began, by the dimensions of `hourly` and by the number of attempts. An hour is counted when the
-- half hour after it is over, in which its errors may still be repaired. They equal `kept_chains` but for the hours in `stale_chains` and in `changed`.
create table if not exists hourly_chains (
  time_ns               bigint not null,   -- start of the hour
  operation             varchar,
  outcome               varchar,
  domain                varchar,
  category              varchar,
  error_class           varchar,
  reported_class        varchar,
  classified_by         varchar,
  severity              varchar,
  attribution           varchar,
  recovery              varchar,
  mistake               boolean,
  retryable             boolean,
  fatal                 boolean,
  tool                  varchar,
  tool_kind             varchar,
  mcp_server            varchar,
  source                varchar,
  project               varchar,
  service               varchar,
  service_version       varchar,
  environment           varchar,
  repository            varchar,
  provenance            varchar,
  agent                 varchar,
  model                 varchar,
  provider              varchar,
  fingerprint           ubigint,
  status_code           integer,
  attempts              integer,           -- to the one that repaired it
  errors                bigint not null,
  retried               bigint not null,
  repaired              bigint not null,
  repaired_identical    bigint not null,   -- repaired by an attempt with the same parameters; next, with others
  repaired_changed      bigint not null,
  identical_retries     bigint not null,
  told_to_wait          bigint not null,
  honoured              bigint not null,
  declared              bigint not null,
  declared_retryable    bigint not null,
  -- Those that were not repaired; whether that is final, the newest event or the clock tells.
  unrepaired            struct(time_ns bigint, heard_ns bigint, retried boolean)[]
);

-- Hours with chains that changed since they were last counted; always includes the newest one.
create table if not exists stale_chains (
  time_ns               bigint not null
);
