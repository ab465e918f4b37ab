"""Notes which rows the cluster lacks (`unpublished` in schemas/ingest.sql), in the transactions that change them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import duckdb

from collector.columns import Row
from collector.correlate.changes import Changes
from collector.engine.duckdb.write import insert
from collector.report import Report

ALL = {
    "events": "select 'events', project, service, session, time_ns, event_id, null, null from events",
    "kept_streaks": "select 'kept_streaks', project, service, session, started, first_event_id,"
    " scope, kind from kept_streaks",
    "kept_chains": "select 'kept_chains', project, service, session, time_ns, event_id, null, null from kept_chains",
    "redirects": "select 'redirects', null, null, null, received_ns, old_id, null, null from redirects",
}
INSERT = "insert into unpublished (about, project, service, session, time_ns, event_id, scope, kind) "
MODELLED = INSERT + f"{ALL['events']} where rowid in (select row from modelled)"


def note_changes(cursor: duckdb.DuckDBPyConnection, changes: Changes) -> None:
    """Notes the events that a transaction writes, and the places of those that it removes."""
    note_events(cursor, (*changes.events, *changes.old))
    now = changes.received_ns
    rows: list[Row] = [{"about": "redirects", "time_ns": now, "event_id": old} for old in changes.redirects]
    insert(cursor, "unpublished", rows)


def note_events(cursor: duckdb.DuckDBPyConnection, events: Iterable[Report]) -> None:
    """Notes events by their places, of which some may be taken no longer."""
    insert(
        cursor,
        "unpublished",
        [
            {
                "about": "events",
                "project": event.get("project"),
                "service": event.get("service"),
                "session": event.get("session"),
                "time_ns": event["time_ns"],
                "event_id": event["event_id"],
            }
            for event in events
        ],
    )


def note_all(
    cursor: duckdb.DuckDBPyConnection, *tables: str, where: str = "true", given: Mapping[str, object] | None = None
) -> None:
    """Notes every row of these tables, or those `where` something holds, in the caller's transaction."""
    for table in tables:
        cursor.execute(f"{INSERT}{ALL[table]} where {where}", dict(given or {}))
