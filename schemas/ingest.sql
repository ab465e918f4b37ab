-- Tables by which the writer stores each request and each call exactly once. `requests`, `keys`, `reports`, `waiting`, `twins`,
-- `trace_session`, `conversation_keys` and `conversations` are kept for 24 hours, all but `requests` in limited number (docs/decisions/0003), `redirects` as long as the
-- events.

-- The identity of every stored request: the same bytes sent again add nothing.
create table if not exists requests (
  identity    uuid not null,
  received_ns bigint not null
);

-- The keys of every event: hashes of (service, session, call id), (trace id, call id), (trace id, span id), …
create table if not exists keys (
  key         ubigint not null,
  event_id    ubigint not null,
  received_ns bigint not null
);

-- The single reports of events that are folded from several, and of calls whose outcome is not known yet.
-- An event of one report has a row here only if the report has keys that its row in `events` cannot hold, or no outcome.
-- `orphan` is the trace of a report whose session is only a guess, which a parent span may bring later.
create table if not exists reports (
  event_id    ubigint not null,
  received_ns bigint not null,
  report      json not null,
  orphan      varchar
);

-- Events that belong to a call that has not been reported yet: an MCP client's span below a tool span that ends later.
create table if not exists waiting (
  key         ubigint not null,
  event_id    ubigint not null,
  received_ns bigint not null
);

-- Reports without a common id that are one event because they match and are near in time (collector/correlate/twins.py). `unit` is the
-- event that their keys alone would make, and has its reports in `reports`; `event_id` is the event that combines them.
create table if not exists twins (
  identity    ubigint not null,
  time_ns     bigint not null,
  unit        ubigint not null,
  event_id    ubigint not null,
  received_ns bigint not null
);

-- The sessions that spans and logs name for each trace: what began first names the session of the trace, as an agent's span begins
-- before those of its sub-agents, which may have sessions of their own. `named_ns` is when it began.
create table if not exists trace_session (
  trace_id    varchar not null,
  session     varchar not null,
  received_ns bigint not null,
  named_ns    bigint
);

-- Conversations of clients that name none, each of whose requests is a trace of its own (collector/correlate/conversations.py): what a
-- request retells of others, and the name of the conversation of each trace. Of several names the smallest (named_ns, session) counts.
create table if not exists conversation_keys (
  key         ubigint not null,
  trace_id    varchar not null,
  received_ns bigint not null
);

create table if not exists conversations (
  trace_id    varchar not null,
  named_ns    bigint not null,
  session     varchar not null,
  received_ns bigint not null
);

-- Events that were merged: the younger id redirects to the older.
create table if not exists redirects (
  old_id      ubigint not null,
  event_id    ubigint not null,
  received_ns bigint not null
);

-- Counts of records accepted, stored, duplicate, and dropped by reason. Each is counted where it happens, so that the sum is a
-- check. Rows are increments; retention adds them up.
create table if not exists accounting (
  project     varchar,
  reason      varchar not null,
  records     bigint not null,
  received_ns bigint not null
);

-- Senders of metrics, which identify no calls: such an agent is listed, but nothing is known of its calls. At most 1,000 rows; `source`
-- and `service` are '' if unknown, `project` without one; `metrics` are the names in the last noted request, at most one per minute.
create table if not exists seen (
  source      varchar not null,
  service     varchar not null,
  project     varchar not null,
  first_ns    bigint not null,
  last_ns     bigint not null,
  metrics     varchar not null,
  unique (source, service, project)
);

-- Senders whose records were sampled on their way here, by signs in the records (schemas/sampling.toml). At most 1,000 rows, each updated
-- at most once a minute; `kept` is the share in the noted request, null if unknown.
create table if not exists sampled (
  source      varchar not null,
  service     varchar not null,
  project     varchar not null,
  first_ns    bigint not null,
  last_ns     bigint not null,
  kept        double,
  signs       varchar not null,
  unique (source, service, project)
);

-- Settings of agents that showed in their records (schemas/switches.toml, `switch` in schemas/sources/). At most 1,000 rows, each updated at
-- most once a minute.
create table if not exists switches (
  source      varchar not null,
  service     varchar not null,
  name        varchar not null,
  project     varchar not null,
  first_ns    bigint not null,
  last_ns     bigint not null,
  unique (source, service, name, project)
);

-- Records that no table of `schemas/sources/` takes although they speak a convention, counted: by the scope that sent them and the attribute
-- that shows it (schemas/unread.toml). At most 1,000 rows.
create table if not exists unread (
  source      varchar not null,
  service     varchar not null,
  scope       varchar not null,
  sign        varchar not null,
  project     varchar not null,
  records     bigint not null,
  first_ns    bigint not null,
  last_ns     bigint not null,
  unique (source, service, scope, sign, project)
);

-- Events that had settled, counted by the labels of `misstep_calls_total` (collector/engine/duckdb/counted.py). `owed` of them have other
-- labels by now, or are part of another event: as many of the next are not counted, so that no total goes down.
create table if not exists counted (
  project     varchar not null,
  service     varchar not null,
  operation   varchar not null,
  tool        varchar not null,
  outcome     varchar not null,
  rated       varchar not null,            -- 'true': ok or error, of a source that tells of both
  category    varchar not null,
  error_class varchar not null,
  calls       bigint not null,
  owed        bigint not null
);

-- Events that changed after they had settled: where verdicts are told to others, these are told again.
create table if not exists corrected (
  event_id    ubigint not null,
  received_ns bigint not null
);

-- Only with MISSTEP_CLUSTER: rows that the cluster lacks or has otherwise, by their places there. Noted in the transaction that changes them, so
-- that a kill loses nothing. What is no longer at its place is gone there, too; so what retention removes here must not be noted.
create table if not exists unpublished (
  about       varchar not null,   -- events, kept_streaks, kept_chains, redirects
  project     varchar,
  service     varchar,
  session     varchar,
  time_ns     bigint not null,    -- of a streak, when it started
  event_id    ubigint not null,   -- of a streak, its first event's; of a redirect, the old one
  scope       varchar,            -- of a streak, as the next
  kind        varchar,
  turn        bigint              -- in which it is being published; null: in none yet
);
