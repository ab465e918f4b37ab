-- State of alerting that survives a restart. Times are BIGINT nanoseconds since 1970, UTC, 0 for never; labels are a JSON object with sorted keys.

-- Alerts that are pending, firing, or resolved but not yet reported to all receivers.
create table if not exists alerts (
  rule         varchar not null,
  labels       varchar not null,
  state        utinyint not null,   -- 0 inactive, 1 pending, 2 firing
  value        double not null,     -- this and the next two: at last_seen_ns
  calls        bigint not null,     -- number of events behind the value
  threshold    double not null,
  since_ns     bigint not null,     -- when the condition began to hold
  last_seen_ns bigint not null,     -- last evaluation at which it had not recovered
  fired_ns     bigint not null,
  resolved_ns  bigint not null,     -- of the firing at fired_ns
  rule_labels  varchar default '{}', -- labels and severity of the rule when it fired
  primary key (rule, labels)
);

-- All firings, for the history on the alerts page.
create table if not exists alert_history (
  rule        varchar not null,
  labels      varchar not null,
  fired_ns    bigint not null,
  resolved_ns bigint not null,
  severity    varchar not null,
  value       double not null,      -- when it fired; once resolved, when it had last not recovered
  threshold   double not null,
  summary     varchar not null,     -- rendered and sanitised
  primary key (rule, labels, fired_ns)
);

-- The notification log: what was last sent to each receiver about each row of alerts. Written only after delivery.
create table if not exists alert_notifications (
  receiver varchar not null,
  rule     varchar not null,
  labels   varchar not null,
  fired_ns bigint not null,
  resolved boolean not null,
  sent_ns  bigint not null,
  primary key (receiver, rule, labels)
);

-- The value of each rule over time: written when it changes, at most once a minute, and at least every ten minutes.
create table if not exists alert_samples (
  time_ns   bigint not null,
  rule      varchar not null,
  labels    varchar not null,
  value     double,                 -- null: the label set had no events left in the window
  calls     bigint not null,
  threshold double,
  state     utinyint not null
);

-- Silences: by whom, for which alerts, until when, and why.
create table if not exists alert_silences (
  id         varchar primary key,
  rule       varchar not null,      -- empty: every rule
  labels     varchar not null,      -- these must be equal in the alert
  author     varchar not null,
  reason     varchar not null,
  starts_ns  bigint not null,
  ends_ns    bigint not null        -- the largest number: until the alerts are resolved
);
