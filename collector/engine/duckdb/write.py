"""Writes the changes of one transaction into the tables of `schemas/`."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import duckdb
import msgspec

from collector.batch import Sender
from collector.columns import TABLES, Row
from collector.correlate.changes import Changes
from collector.correlate.fold import began_ns, orphan
from collector.engine.duckdb.arrow import ArrowColumns, Columns, columns_of
from collector.engine.duckdb.schema import POSITION
from collector.report import Report, as_report
from collector.times import HOUR, MAX_NS

NOTED = ("service", "session", "time_ns", "operation", "duration_ms")  # columns of an event

NOTE_SENDERS = """
  insert into seen
  select unnest($sources::varchar[]), unnest($services::varchar[]), $now, $now, unnest($metrics::varchar[])
  on conflict (source, service) do update set last_ns = excluded.last_ns, metrics = excluded.metrics
"""

NOTE_SAMPLED = """
  insert into sampled
  select unnest($sources::varchar[]), unnest($services::varchar[]), $now, $now, unnest($kept::double[]),
    unnest($signs::varchar[])
  on conflict (source, service) do update
    set last_ns = excluded.last_ns, kept = excluded.kept, signs = excluded.signs
"""

NOTE_SWITCHES = """
  insert into switches
  select unnest($sources::varchar[]), unnest($services::varchar[]), unnest($names::varchar[]), $now, $now
  on conflict (source, service, name) do update set last_ns = excluded.last_ns
"""

COUNT_UNREAD = """
  insert into unread
  select unnest($sources::varchar[]), unnest($services::varchar[]), unnest($scopes::varchar[]),
    unnest($signs::varchar[]), unnest($records::bigint[]), $now, $now
  on conflict (source, service, scope, sign) do update
    set records = records + excluded.records, last_ns = excluded.last_ns
"""


def put(cursor: duckdb.DuckDBPyConnection, changes: Changes) -> set[int]:
    """Writes all changes, in the caller's transaction; returns the events that were stored before, also under other
    ids.
    """
    before: set[int] = set()
    now = changes.received_ns
    changed = list(noted(changes.events))
    if changes.identities:
        cursor.execute(
            "insert into requests select unnest($ids::uuid[]), $now",
            {"ids": [str(uuid.UUID(bytes=identity)) for identity in changes.identities], "now": now},
        )
    if changes.replaced:
        old = _remove(cursor, changes.replaced)
        before = {changes.redirects.get(event_id, event_id) for event_id in (one["event_id"] for one in old)}
        changed += noted(old)
    insert(cursor, "events", changes.events)
    insert(cursor, "changed", earliest(changed))
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
    counted = {"accepted": changes.accepted, **changes.accounting}
    _insert_pairs(cursor, "accounting", ("reason", "records"), counted, now)
    if changes.senders:
        metrics = {"metrics": list(changes.senders.values())}
        cursor.execute(NOTE_SENDERS, {**_senders(changes.senders), **metrics, "now": now})
    if changes.sampled:
        kept, signs = zip(*changes.sampled.values(), strict=True)
        told = {"kept": list(kept), "signs": list(signs)}
        cursor.execute(NOTE_SAMPLED, {**_senders(changes.sampled), **told, "now": now})
    if changes.switches:
        sources, services, names = map(list, zip(*changes.switches, strict=True))
        cursor.execute(NOTE_SWITCHES, {"sources": sources, "services": services, "names": names, "now": now})
    if changes.unread:
        by_column = [list(column) for column in zip(*changes.unread, strict=True)]
        columns = dict(zip(("sources", "services", "scopes", "signs"), by_column, strict=True))
        cursor.execute(COUNT_UNREAD, {**columns, "records": list(changes.unread.values()), "now": now})
    if changes.position:
        cursor.execute(
            "update meta set value = $position where name = $name",
            {"position": str(changes.position), "name": POSITION},
        )
    if changes.redirects:
        cursor.execute(
            "update redirects set event_id = n.event_id from redirects n where redirects.event_id = n.old_id"
        )
    return before


def _remove(cursor: duckdb.DuckDBPyConnection, replaced: Mapping[int, int]) -> list[Report]:
    """Deletes these events, none received before the earliest of their times, with what was kept of them; returns what
    `noted` asks of each that was stored, and its id.
    """
    gone = {"ids": list(replaced)}
    # By row: where the engine compares ids it reads all columns of all rows.
    old = cursor.execute(
        "delete from events where rowid in (select rowid from events where received_ns >= $since"
        f" and event_id in (select unnest($ids::ubigint[]))) returning event_id, {', '.join(NOTED)}",
        gone | {"since": min(replaced.values())},
    ).fetchall()
    cursor.execute(
        "delete from reports where rowid in"
        " (select rowid from reports where event_id in (select unnest($ids::ubigint[])))",
        gone,
    )
    cursor.execute("delete from twins where unit in (select unnest($ids::ubigint[]))", gone)
    return [as_report(dict(zip(("event_id", *NOTED), row, strict=True))) for row in old]


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


def noted(events: Iterable[Report]) -> Iterator[tuple[str | None, str | None, int]]:
    """Service, session and time of each event, and when it began of a model request: calls that began meanwhile may
    have its model.
    """
    for event in events:
        service, session, time_ns = event.get("service"), event.get("session"), event["time_ns"]
        yield service, session, time_ns
        if event.get("operation") == "model" and event.get("duration_ms"):
            yield service, session, began_ns(event) - 1


def earliest(changed: Iterable[tuple[str | None, str | None, int]]) -> list[Row]:
    """The earliest time of each session in each hour, as rows of `changed`."""
    earliest: dict[tuple[str | None, str | None, int], int] = {}
    for service, session, time_ns in changed:
        key = (service, session, time_ns // HOUR)
        if time_ns < earliest.get(key, MAX_NS):
            earliest[key] = time_ns
    return [{"service": key[0], "session": key[1], "time_ns": time_ns} for key, time_ns in earliest.items()]


def _senders(told: Iterable[Sender]) -> dict[str, list[str]]:
    sources, services = zip(*told, strict=True)
    return {"sources": list(sources), "services": list(services)}


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
