-- The tables of a cluster, of one template for one server, replicas and shards (collector/cluster/tables.py fills the braces).
-- `events_rows`, `kept_streaks_rows` and `kept_chains_rows` hold versions of rows: of equal places (the sorting key) the row with the highest
-- version counts, and none if that one is `gone`. Only `final` reads leave the others out, as the views do that have the names of the local tables.
-- A place never changes its partition, so that each day is merged for itself, and costs nothing once it is one part.

create table if not exists events_rows (
  {events},
  collector          LowCardinality(String), -- who published this version
  version            UInt64 codec(Delta, ZSTD(1)),
  gone               UInt8
) engine = {versions}
partition by intDiv(time_ns, 86400000000000)
order by (project, intDiv(time_ns, 3600000000000), service, session, time_ns, event_id)
ttl toDateTime(intDiv(received_ns, 1000000000)) + toIntervalSecond({retention})
settings {settings};

create table if not exists kept_streaks_rows (
  {kept_streaks},
  received_ns        Int64 codec(Delta, ZSTD(1)), -- when its last event was received: until when it is kept
  collector          LowCardinality(String),
  version            UInt64 codec(Delta, ZSTD(1)),
  gone               UInt8
) engine = {versions}
partition by intDiv(started, 86400000000000)
order by (project, scope, kind, service, session, started, first_event_id)
ttl toDateTime(intDiv(received_ns, 1000000000)) + toIntervalSecond({retention})
settings {settings};

create table if not exists kept_chains_rows (
  {kept_chains},
  received_ns        Int64 codec(Delta, ZSTD(1)), -- when its error was received
  collector          LowCardinality(String),
  version            UInt64 codec(Delta, ZSTD(1)),
  gone               UInt8
) engine = {versions}
partition by intDiv(time_ns, 86400000000000)
order by (project, intDiv(time_ns, 3600000000000), service, session, time_ns, event_id)
ttl toDateTime(intDiv(received_ns, 1000000000)) + toIntervalSecond({retention})
settings {settings};

create or replace view events as select * except (collector, version, gone) from events_rows final;

create or replace view kept_streaks as select * except (received_ns, collector, version, gone) from kept_streaks_rows final;

create or replace view kept_chains as select * except (received_ns, collector, version, gone) from kept_chains_rows final;

-- The newest event of each service: it decides which streaks and chains are still open.
create table if not exists kept_newest_rows (
  project            LowCardinality(Nullable(String)),
  service            LowCardinality(Nullable(String)),
  time_ns            Int64
) engine = {newest}
order by (project, service)
settings {settings};

create or replace view kept_newest as select * from kept_newest_rows final;

-- Small tables of each collector, published whole when they changed; `gone` as above.
create table if not exists senders_rows (
  {senders},
  version            UInt64,
  gone               UInt8
) engine = {versions}
order by (collector, project, about, source, service, name, sign)
settings {settings};

create or replace view senders as select * except (version, gone) from senders_rows final;

-- Events that were merged: the younger id redirects to the older.
create table if not exists redirects_rows (
  {redirects},
  version            UInt64,
  gone               UInt8
) engine = {versions}
order by old_id
ttl toDateTime(intDiv(received_ns, 1000000000)) + toIntervalSecond({retention})
settings {settings};

create or replace view redirects as select * except (version, gone) from redirects_rows final;

-- How far each collector has come: everything that it answered before `published_ns` is published; `pending` counts what is not.
create table if not exists collectors_rows (
  collector          String,
  at_ns              Int64,
  published_ns       Int64,
  pending            UInt64,
  version            UInt64,
  gone               UInt8
) engine = {versions}
order by collector
settings {settings};

create or replace view collectors as select * except (version, gone) from collectors_rows final;

-- What every collector of a cluster has alike: states of alerts, silences, deliveries, and the files of rules and tokens, which are sealed.
-- The last version of each key counts, by this server's clock; `gone` ones stay, so that no older one comes back.
create table if not exists shared_rows (
  kind               LowCardinality(String),
  key                String,
  value              String codec(ZSTD(1)),
  version            UInt64 default toUnixTimestamp64Nano(now64(9)),
  gone               UInt8,
  until              DateTime
) engine = {latest}
order by (kind, key)
ttl until
settings {settings};

-- Values of alert rules over time.
create table if not exists alert_samples_rows (
  {alert_samples}
) engine = {people}
order by (time_ns, rule, labels)
ttl toDateTime(intDiv(time_ns, 1000000000)) + toIntervalWeek(1)
settings {settings};

-- Who evaluates the alert rules: the holder of the highest term, while it renews it.
create table if not exists leases_rows (
  name               String,
  term               UInt64,
  holder             String,
  released           UInt8,
  version            UInt64 default toUnixTimestamp64Nano(now64(9))
) engine = {latest}
order by (name, term)
settings {settings};

-- What people add, from whichever collector: the last row of each key counts.
create table if not exists group_marks_rows (
  {group_marks}
) engine = {people}
order by fingerprint
settings {settings};

create or replace view group_marks as select * from group_marks_rows final;

create table if not exists lesson_marks_rows (
  {lesson_marks}
) engine = {people}
order by (project, lesson)
settings {settings};

create or replace view lesson_marks as select * from lesson_marks_rows final;

create table if not exists time_marks_rows (
  {time_marks}
) engine = {people}
order by mark_id
settings {settings};

create or replace view time_marks as select * from time_marks_rows final;

create table if not exists views_rows (
  {views}
) engine = {people}
order by view_id
settings {settings};

create or replace view views as select * from views_rows final;

-- What questions read by the names of the local tables. A collector publishes a session's streaks with its events, so that none is behind.
create or replace view seen as
  select project, source, service, min(first_ns) as first_ns, max(s.last_ns) as last_ns, argMax(metrics, s.last_ns) as metrics
  from senders as s where about = 'seen' group by project, source, service;

create or replace view sampled as
  select project, source, service, first_ns, last_ns, kept, signs from senders where about = 'sampled';

create or replace view switches as
  select project, source, service, name, first_ns, last_ns from senders where about = 'switches';

create or replace view unread as
  select project, source, service, name as scope, sign, records, first_ns, last_ns from senders where about = 'unread';

create or replace view changed as select project, service, session, time_ns from events where false;

create or replace view twins as select event_id as unit, event_id from events where false
