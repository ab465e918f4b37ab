"""Removes what was imported from agents' own files."""

from __future__ import annotations

from collector.engine.duckdb.copy import owe
from collector.engine.duckdb.notes import note_all
from collector.engine.duckdb.retention import forget_events
from collector.engine.duckdb.store import Store

IMPORTED = "(from events where provenance = 'transcript')"
OF_EVENTS = (("reports", "event_id"), ("keys", "event_id"), ("waiting", "event_id"), ("twins", "unit"))
# Of a call that telemetry told too, what only the agent's file can have told.
TELEMETRY_LEFT = """
  update events set provenance = null, repository = null, attributes = null
  where event_id in (select event_id from events where provenance = 'both')
"""


def forget_transcripts(store: Store) -> int:
    """Removes imported events, with all that is kept of them; returns how many there were.

    Events that telemetry told too stay, without repository and attributes. What was removed stays in the file until
    `Store.rewrite_file`, which is due from then on.
    """
    [imported] = store.rows(f"select count(*) as n from {IMPORTED}")
    with store.transaction() as cursor:
        owe(cursor)
        counts = store.counted.without(cursor, IMPORTED)
        if store.publishing:
            note_all(cursor, "events", where="provenance in ('transcript', 'both')")
            note_all(cursor, "kept_chains", where=f"event_id in (select event_id from {IMPORTED})")
            note_all(cursor, "kept_streaks", where=f"last_event_id in (select event_id from {IMPORTED})")
        forget_events(cursor, IMPORTED)
        for table, event_id in OF_EVENTS:
            cursor.execute(f"delete from {table} where {event_id} in (select event_id from {IMPORTED})")
        cursor.execute("delete from reports where report->>'provenance' = 'transcript'")
        cursor.execute("delete from requests")  # so that the same files can be imported again
        cursor.execute("delete from events where provenance = 'transcript'")
        cursor.execute(TELEMETRY_LEFT)
    store.counted.take(counts)
    return int(imported["n"])
