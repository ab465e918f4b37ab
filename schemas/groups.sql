-- What people said of groups: kept as long as the store, so that a group that comes back after months is known as one that was resolved.
create table if not exists group_marks (
  fingerprint ubigint primary key,
  resolved_ns bigint not null,    -- 0: nobody said so, or it was opened again
  note        varchar not null,   -- sanitised
  changed_ns  bigint not null
);
