-- What people noted about groups. Never pruned, so that a group that comes back after months is known to have been resolved.
create table if not exists group_marks (
  fingerprint ubigint primary key,
  resolved_ns bigint not null,    -- 0: not resolved, or reopened
  note        varchar not null,   -- sanitised
  changed_ns  bigint not null
);
