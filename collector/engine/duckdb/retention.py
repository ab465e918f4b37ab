"""Retention: removes events that are too old, or the oldest if the file is too large, with all that belongs to them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import duckdb

from collector.engine.duckdb.open import DATABASE
from collector.times import DAY, HOUR, MINUTE

FULL = 0.9  # of the allowed size: from here on the oldest hours are removed
ROOM = 0.8  # of the allowed size: down to here

IDENTITIES = ("keys", "waiting", "twins", "trace_session", "conversation_keys", "conversations")
MOST_IDENTITIES = 20_000_000  # rows of one table: without an index, looking one up takes time in proportion to all
BEGAN_NS = "time_ns - (coalesce(duration_ms, 0) * 1e6)::bigint"  # when an event began, as far as it says
LEAST_REWRITTEN = 256 << 20  # smaller files are not worth shrinking
SIZE = """
  select block_size * total_blocks as file, block_size * used_blocks as used
  from pragma_database_size() where database_name = $database
"""
LEAST_NS = HOUR // 6  # for this long identities are kept, however many there are


class Retention(NamedTuple):
    """How long events are kept, how many bytes they may take (0: any), and the folder for those that go."""

    age_ns: int
    most_bytes: int = 0
    export: Path | None = None


class Space(NamedTuple):
    """Bytes of the file, and bytes in use."""

    file: int
    used: int

    def is_wasted(self, most_bytes: int) -> bool:
        """Whether most of the file is empty, or what is used would fit into so many bytes and the file does not."""
        empty = self.file > max(LEAST_REWRITTEN, 2 * self.used)
        fits = self.used <= FULL * most_bytes
        return empty or (fits and 0 < most_bytes < self.file)


# What a cluster has of sessions that ended: removed as a whole, so that what is left is computed as there. A session of
# which anything is not published or not computed yet stays.
PUBLISHED = """
  create or replace temporary table leaving as
  with busy as (select service, session from unpublished union select service, session from changed),
  over as (
    select service, session from events where session is not null group by all having max(received_ns) < $before
  )
  select e.rowid as row from {database}.main.events e
  where e.received_ns < $before
    and not exists (select 1 from busy b where b.service is not distinct from e.service
      and b.session is not distinct from e.session)
    and (e.session is null or exists (select 1 from over o where o.service is not distinct from e.service
      and o.session = e.session))
"""


def drop(cursor: duckdb.DuckDBPyConnection, now_ns: int, before_ns: int, *, published: bool = False) -> int:
    """Removes events received before a time and old identities; returns the number of events removed. `published`: only
    what a cluster has, and whole sessions.

    Identities of requests are kept for a day; those of calls too, but at most MOST_IDENTITIES in each table. In the
    caller's transaction.
    """
    day = now_ns - DAY
    old = f"received_ns < {before_ns}"
    if published:
        cursor.execute(PUBLISHED.format(database=DATABASE), {"before": before_ns})
        old = "rowid in (select row from leaving)"
    forget_events(cursor, f"(from {DATABASE}.main.events where {old})")
    gone = cursor.execute(f"delete from {DATABASE}.main.events where {old}").fetchone()
    cursor.execute("delete from requests where received_ns < ?", [day])
    for table in IDENTITIES:
        cursor.execute(
            f"delete from {table} where received_ns < ?", [max(day, before_ns, _newest(cursor, table, now_ns))]
        )
    cursor.execute(  # of an event all or none: its row is found by the time of the first
        "delete from reports where event_id in (select event_id from reports group by all having max(received_ns) < ?)",
        [max(day, before_ns, _newest(cursor, "reports", now_ns))],
    )
    cursor.execute("delete from redirects where received_ns < ?", [before_ns])
    for table in ("seen", "sampled", "switches", "unread"):
        cursor.execute(f"delete from {table} where last_ns < ?", [before_ns])
    sums = cursor.execute("select project, reason, sum(records)::bigint from accounting group by all").fetchall()
    cursor.execute("delete from accounting")
    if sums:
        cursor.executemany("insert into accounting values (?, ?, ?, ?)", [(*row, now_ns) for row in sums])
    return int(gone[0]) if gone else 0


def _newest(cursor: duckdb.DuckDBPyConnection, table: str, now_ns: int) -> int:
    """The minute since which a table has at most MOST_IDENTITIES rows, but at least LEAST_NS ago; 0 if all may stay."""
    found = cursor.execute(
        "select max(minute) + 1 from (select minute, sum(n) over (order by minute desc) as since"
        f" from (select received_ns // $width as minute, count(*) as n from {table} group by all))"
        " where since > $most",
        {"width": MINUTE, "most": MOST_IDENTITIES},
    ).fetchone()
    minute = found[0] if found and found[0] is not None else 0
    return int(min(minute * MINUTE, now_ns - LEAST_NS))


def forget_events(cursor: duckdb.DuckDBPyConnection, events: str) -> None:
    """Removes what is derived from these events, and notes their sessions as changed; in the caller's transaction."""
    cursor.execute(
        "insert into changed (project, service, session, time_ns)"
        " select project, service, session, min(ns) from"
        " (select project, service, session,"
        f" unnest([time_ns, case when operation = 'model' then {BEGAN_NS} end]) as ns"
        f" from {events}) where ns is not null group by project, service, session, ns // {HOUR}"
    )
    cursor.execute(  # of a streak, the events before these may stay
        "insert into changed (project, service, session, time_ns)"
        " select distinct project, service, session, started from kept_streaks"
        f" where last_event_id in (select event_id from {events})"
    )
    for table, event_id in (("kept_chains", "event_id"), ("kept_streaks", "last_event_id")):
        cursor.execute(f"delete from {table} where {event_id} in (select event_id from {events})")


def oldest_hours(cursor: duckdb.DuckDBPyConnection, share: float, now_ns: int) -> int:
    """The end of the oldest whole hours that have at least this share of all events; never beyond the present hour's
    start.
    """
    found = cursor.execute(
        "select min(hour) from (select hour, sum(n) over (order by hour) as so_far, sum(n) over () as every"
        " from (select received_ns // $width as hour, count(*) as n from events group by all))"
        " where so_far >= $share * every",
        {"width": HOUR, "share": share},
    ).fetchone()
    hour = found[0] + 1 if found and found[0] is not None else 0
    return int(min(hour, now_ns // HOUR)) * HOUR
