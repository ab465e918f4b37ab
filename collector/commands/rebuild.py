"""`misstep rebuild`: recomputes everything that is derived from the events."""

from __future__ import annotations

from collector.commands.progress import progress
from collector.engine.duckdb.open import existing
from collector.engine.duckdb.store import Store


def rebuild(url: str) -> int:
    """Recomputes streaks, retry chains and counts in a store that no collector has open.

    Returns the number of sessions. Raises StoreError, and OSError if there is no store.
    """
    existing(url)
    store = Store.open(url)
    try:
        return rebuilt(store)
    finally:
        store.close()


def rebuilt(store: Store) -> int:
    """The same in an open store."""
    steps = store.rebuild()
    total = left = next(steps)
    with progress("sessions", total) as advance:
        for still in steps:
            advance(left - still)
            left = still
    return total
