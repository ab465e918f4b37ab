"""Removes what was imported from agents' own files."""

from __future__ import annotations

from collector.engine.duckdb.copy import owe
from collector.engine.duckdb.notes import note_all
from collector.engine.duckdb.retention import forget_events
from collector.engine.duckdb.store import Store
from collector.times import MAX_NS

OF_EVENTS = (("reports", "event_id"), ("keys", "event_id"), ("waiting", "event_id"), ("twins", "unit"))
# Of a call that telemetry told too, what only the agent's file can have told.
TELEMETRY_LEFT = """
  update events set provenance = null, repository = null, attributes = null
  where event_id in (select event_id from events where provenance = 'both' and {known})
"""
TOLD_TWICE = """
  insert into changed (project, service, session, time_ns)
  select project, service, session, min(time_ns) from events where provenance = 'both' and {known} group by all
"""


def forget_transcripts(store: Store, until_ns: int = MAX_NS) -> int:
    """Removes events that were imported until then, with all that is kept of them; returns how many there were.

    Events that telemetry told too stay, without repository and attributes. What was removed stays in the file until
    `Store.rewrite_file`, which is due from then on.
    """
    known = f"received_ns <= {until_ns}"
    here = f"provenance = 'transcript' and {known}"
    events = f"(from events where {here})"
    [imported] = store.rows(f"select count(*) as n from {events}")
    with store.transaction() as cursor:
        owe(cursor)
        counts = store.counted.without(cursor, events)
        if store.publishing:
            note_all(cursor, "events", where=f"provenance in ('transcript', 'both') and {known}")
            note_all(cursor, "kept_chains", where=f"event_id in (select event_id from {events})")
            note_all(cursor, "kept_streaks", where=f"last_event_id in (select event_id from {events})")
        forget_events(cursor, events)
        for table, event_id in OF_EVENTS:
            cursor.execute(f"delete from {table} where {event_id} in (select event_id from {events})")
        cursor.execute(f"delete from reports where report->>'provenance' = 'transcript' and {known}")
        cursor.execute("delete from requests")  # so that the same files can be imported again
        cursor.execute(f"delete from events where {here}")
        cursor.execute(TOLD_TWICE.format(known=known))  # their streaks say where they are known from
        cursor.execute(TELEMETRY_LEFT.format(known=known))
    store.counted.take(counts)
    return int(imported["n"])
