"""Writes the changes of one transaction into the tables of `schemas/`."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import duckdb
import msgspec

from collector.columns import TABLES, Row
from collector.correlate.changes import Changes, Owned
from collector.correlate.fold import orphan
from collector.engine.duckdb.arrow import ArrowColumns, Columns, columns_of
from collector.engine.duckdb.schema import POSITION
from collector.projects import untraced
from collector.report import Report, as_row

SENDER = ("source", "service", "project")
SWITCH = ("source", "service", "name", "project")
UNREAD = ("source", "service", "scope", "sign", "project")

NOTE_SENDERS = """
  insert into seen
  select unnest($source::varchar[]), unnest($service::varchar[]), unnest($project::varchar[]), $now, $now,
    unnest($metrics::varchar[])
  on conflict (source, service, project) do update set last_ns = excluded.last_ns, metrics = excluded.metrics
"""

NOTE_SAMPLED = """
  insert into sampled
  select unnest($source::varchar[]), unnest($service::varchar[]), unnest($project::varchar[]), $now, $now,
    unnest($kept::double[]), unnest($signs::varchar[])
  on conflict (source, service, project) do update
    set last_ns = excluded.last_ns, kept = excluded.kept, signs = excluded.signs
"""

NOTE_SWITCHES = """
  insert into switches
  select unnest($source::varchar[]), unnest($service::varchar[]), unnest($name::varchar[]),
    unnest($project::varchar[]), $now, $now
  on conflict (source, service, name, project) do update set last_ns = excluded.last_ns
"""

COUNT_UNREAD = """
  insert into unread
  select unnest($source::varchar[]), unnest($service::varchar[]), unnest($scope::varchar[]),
    unnest($sign::varchar[]), unnest($project::varchar[]), unnest($records::bigint[]), $now, $now
  on conflict (source, service, scope, sign, project) do update
    set records = records + excluded.records, last_ns = excluded.last_ns
"""


def put(cursor: duckdb.DuckDBPyConnection, changes: Changes) -> None:
    """Writes all changes, in the caller's transaction."""
    now = changes.received_ns
    if changes.identities:
        cursor.execute(
            "insert into requests select unnest($ids::uuid[]), $now",
            {"ids": [str(uuid.UUID(bytes=identity)) for identity in changes.identities], "now": now},
        )
    if changes.replaced:
        _remove(cursor, changes.replaced)
    insert(cursor, "events", [_as_sent(event) for event in changes.events])
    insert(cursor, "changed", changes.changed)
    insert(cursor, "reports", _report_rows(changes))
    _insert_pairs(cursor, "keys", ("key", "event_id"), changes.keys, now)
    rows = [
        {"trace_id": trace, "named_ns": named_ns, "session": session, "received_ns": now}
        for trace, (named_ns, session) in changes.sessions.items()
    ]
    insert(cursor, "trace_session", rows)
    named = [
        {"trace_id": trace, "named_ns": named_ns, "session": session, "received_ns": now}
        for trace, (named_ns, session) in changes.conversations.items()
    ]
    insert(cursor, "conversations", named)
    _insert_pairs(cursor, "conversation_keys", ("key", "trace_id"), changes.retold, now)
    _insert_pairs(cursor, "redirects", ("old_id", "event_id"), changes.redirects, now)
    insert(cursor, "waiting", [{"key": k, "event_id": e, "received_ns": now} for k, e in changes.waiting])
    insert(cursor, "twins", changes.twins)
    fates = [
        {"project": project, "reason": reason, "records": records, "received_ns": now}
        for (reason, project), records in changes.accounting.items()
    ]
    insert(cursor, "accounting", fates)
    if changes.senders:
        metrics = {"metrics": list(changes.senders.values())}
        cursor.execute(NOTE_SENDERS, {**_by_name(changes.senders, SENDER), **metrics, "now": now})
    if changes.sampled:
        kept, signs = zip(*changes.sampled.values(), strict=True)
        told = {"kept": list(kept), "signs": list(signs)}
        cursor.execute(NOTE_SAMPLED, {**_by_name(changes.sampled, SENDER), **told, "now": now})
    if changes.switches:
        cursor.execute(NOTE_SWITCHES, {**_by_name(changes.switches, SWITCH), "now": now})
    if changes.unread:
        counted = {"records": [*changes.unread.values()]}
        cursor.execute(COUNT_UNREAD, _by_name(changes.unread, UNREAD) | counted | {"now": now})
    if changes.position:
        cursor.execute(
            "update meta set value = $position where name = $name",
            {"position": str(changes.position), "name": POSITION},
        )
    if changes.redirects:
        cursor.execute(
            "update redirects set event_id = n.event_id from redirects n where redirects.event_id = n.old_id"
        )


def _remove(cursor: duckdb.DuckDBPyConnection, replaced: Mapping[int, int]) -> None:
    """Deletes these events, none received before the earliest of their times, with what was kept of them."""
    gone = {"ids": list(replaced)}
    # By row: where the engine compares ids it reads all columns of all rows.
    cursor.execute(
        "delete from events where rowid in (select rowid from events where received_ns >= $since"
        " and event_id in (select unnest($ids::ubigint[])))",
        gone | {"since": min(replaced.values())},
    )
    cursor.execute(
        "delete from reports where rowid in"
        " (select rowid from reports where event_id in (select unnest($ids::ubigint[])))",
        gone,
    )
    cursor.execute("delete from twins where unit in (select unnest($ids::ubigint[]))", gone)


def insert(cursor: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Mapping[str, Any]], like: str = "") -> None:
    """Adds rows to a table that has the columns of `like`; missing values are null."""
    if rows:
        types = TABLES[like or table]
        _insert(cursor, table, columns_of(rows, types), types)


def _insert_pairs(
    cursor: duckdb.DuckDBPyConnection, table: str, names: tuple[str, str], values: Mapping[Any, Any], now: int
) -> None:
    if values:
        key, value = names
        columns = {key: list(values), value: list(values.values()), "received_ns": [now] * len(values)}
        _insert(cursor, table, columns, TABLES[table])


def _insert(cursor: duckdb.DuckDBPyConnection, table: str, columns: Columns, types: Mapping[str, str]) -> None:
    incoming = ArrowColumns(columns, types)  # noqa: F841 -- DuckDB finds it by its name
    names = ", ".join(f'"{name}"' for name in columns)
    cursor.execute(f"insert into {table} ({names}) select {names} from incoming")


def _by_name(told: Iterable[Owned], names: Sequence[str]) -> dict[str, Any]:
    return {name: list(column) for name, column in zip(names, zip(*told, strict=True), strict=True)}


def _as_sent(event: Report) -> Row:
    """The event with the trace id that its sender knows."""
    row = as_row(event)
    return row | {"trace_id": untraced(row["trace_id"])} if row.get("project") and row.get("trace_id") else row


def _report_rows(changes: Changes) -> list[Row]:
    return [
        {
            "event_id": event_id,
            "received_ns": report["received_ns"],
            "report": msgspec.json.encode(report).decode(),
            "orphan": orphan(report),
        }
        for event_id, report in changes.reports
    ]
