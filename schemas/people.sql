-- What people add to a store: marks on groups, on lessons and on the time axis, and views that they saved. All texts are sanitised.

-- What they decided about groups. Never pruned, so that a group that comes back after months is known to have been resolved.
-- A group is either open, resolved or ignored.
create table if not exists group_marks (
  fingerprint      ubigint primary key,
  resolved_ns      bigint not null default 0, -- 0: not resolved, or reopened
  resolved_service varchar,            -- this and the next two: null if it was resolved in every version
  resolved_version varchar,            -- only events of this version, and of later ones, tell that it came back
  earlier_versions varchar[],          -- versions of the service that were known to be earlier when it was resolved
  ignored_ns       bigint not null default 0, -- 0: not ignored
  until_events     bigint,             -- it is ignored until there are so many events since then
  until_sessions   bigint,             -- or until they are of so many sessions
  issue            varchar not null default '', -- https address in the team's tracker, or empty
  note             varchar not null default '',
  changed_ns       bigint not null
);

-- Marks on the time axis, such as deploys: at most 10,000, the oldest go first.
create table if not exists time_marks (
  project          varchar,            -- of who marked it, null without one
  mark_id          varchar primary key, -- of what it says and its project: the same mark sent again is one
  time_ns          bigint not null,
  text             varchar not null,
  service          varchar,            -- null: it concerns all
  version          varchar,
  url              varchar             -- https address that says more
);

-- Views of the dashboard that people saved under a name; at most 200.
create table if not exists views (
  project          varchar,            -- of who saved it, null without one
  view_id          varchar primary key, -- of its name and project: saving another view under it replaces it
  name             varchar not null,
  page             varchar not null,
  query            varchar not null,   -- of the page's address
  saved_ns         bigint not null
);

-- What they decided about lessons: adopted, snoozed or dismissed; an open one has no row. What the lesson is about is kept, because once it
-- helps nothing fails any more that would tell. At most 1,000.
create table if not exists lesson_marks (
  project          varchar not null,   -- of who decided it, empty without one
  lesson           varchar not null,
  state            varchar not null,
  since_ns         bigint not null,    -- adopted: when the sentence was there; else when it was decided
  until_ns         bigint not null,    -- snoozed: until then; else 0
  known_by         varchar not null,   -- adopted: written, commit, file or said: how the time is known; else empty
  kind             varchar not null,   -- this and the next: as when it was decided
  scope            varchar not null,
  tool             varchar not null,
  shape            varchar not null,
  text             varchar not null,
  next             varchar,
  agents           varchar,
  changed_ns       bigint not null,
  primary key (project, lesson)
);
