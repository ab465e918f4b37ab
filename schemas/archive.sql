-- Events that were moved out of `events` into Parquet files (MISSTEP_ARCHIVE), one file for the events received on a day. A file without
-- a row here is not part of the store: its events are still in `events`, or gone.
create table if not exists archived (
  file        varchar not null,  -- absolute path
  received_ns bigint not null,   -- of the newest event in it; retention goes by it
  events      bigint not null,
  bytes       bigint not null
);
