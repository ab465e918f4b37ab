-- What the writer needs to store each request once and each call once. `requests`, `keys`, `reports`, `waiting`, `twins`
-- and `trace_session` are kept for 24 hours, `redirects` as long as the events.

-- The identity of every request that was stored: the same bytes again add nothing.
create table if not exists requests (
  identity    uuid not null,
  received_ns bigint not null
);

-- Every identity by which an event is known: hashes of (service, session, call id), (trace id, call id), (trace id, span id), …
create table if not exists keys (
  key         ubigint not null,
  event_id    ubigint not null,
  received_ns bigint not null
);

-- The single reports of events that are the fold of several, and of calls whose outcome nobody has told yet.
-- An event with one report has no row here: its own row in `events` is that report.
create table if not exists reports (
  event_id    ubigint not null,
  received_ns bigint not null,
  report      json not null
);

-- Events that belong to a call which nobody has told of yet: an MCP client's span below a tool span that ends later.
create table if not exists waiting (
  key         ubigint not null,
  event_id    ubigint not null,
  received_ns bigint not null
);

-- Reports without a common id that are one event because they agree within two seconds (collector/store/twins.py). `unit` is the
-- event that their keys alone would make, under which its reports stand in `reports`; `event_id` the one that tells of them all.
create table if not exists twins (
  identity    ubigint not null,
  time_ns     bigint not null,
  unit        ubigint not null,
  event_id    ubigint not null,
  received_ns bigint not null
);

-- Which session a trace belongs to, said by any of its spans or logs.
create table if not exists trace_session (
  trace_id    varchar not null,
  session     varchar not null,
  received_ns bigint not null
);

-- Events that turned out to be one: links to the younger id lead to the older.
create table if not exists redirects (
  old_id      ubigint not null,
  event_id    ubigint not null,
  received_ns bigint not null
);

-- How many records were accepted, and what became of them: stored, duplicate, or dropped by reason. Each is counted where it happens,
-- so that the sum is a check. Increments; retention adds them up.
create table if not exists accounting (
  reason      varchar not null,
  records     bigint not null,
  received_ns bigint not null
);

-- Who sent metrics, which name no call: such an agent is seen, and nothing is known of its calls. At most 1,000 rows; `source`
-- and `service` are '' where unknown; `metrics` are the names in its last request that was noted, one request a minute.
create table if not exists seen (
  source      varchar not null,
  service     varchar not null,
  first_ns    bigint not null,
  last_ns     bigint not null,
  metrics     varchar not null,
  unique (source, service)
);

-- Whose records were sampled on their way here, by what they tell of it (schemas/sampling.toml). At most 1,000 rows, each noted once a
-- minute; `kept` is the share in the request that was noted, null where it was not told.
create table if not exists sampled (
  source      varchar not null,
  service     varchar not null,
  first_ns    bigint not null,
  last_ns     bigint not null,
  kept        double,
  signs       varchar not null,
  unique (source, service)
);
