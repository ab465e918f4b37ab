"""`misstep replay --refused`: stores what a collector accepted but could not store, with a version that can."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from collector import columns
from collector.commands.progress import progress
from collector.correlate.correlate import Correlator
from collector.engine.duckdb.lookup import Lookup
from collector.engine.duckdb.open import existing
from collector.engine.duckdb.store import Store
from collector.errors import Unavailable, where
from collector.journal.dead_letters import Aside, restored
from collector.plural import plural
from collector.settings import Settings


@dataclass(slots=True)
class Stored:
    """The result, with one sentence for each request that still cannot be stored."""

    requests: int = 0
    records: int = 0
    failed: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        counted = f"{plural(self.requests, 'request')}, {plural(self.records, 'record')} stored"
        lines = [f"{counted}, {len(self.failed):,} still refused"]
        return "\n".join([*lines, *(f"  refused: {reason}" for reason in self.failed)])


def store_refused(settings: Settings) -> Stored:
    """Stores what is set aside beside a store that no collector has open, and removes it from there.

    However often it is called, and wherever it is interrupted, each request is stored once. Raises StoreError, and
    OSError if there is no store or it cannot be written.
    """
    path = existing(settings.store)
    store = Store.open(settings.store, dimensions=settings.dimensions)
    columns.add_dimensions(store.dimensions)
    aside = Aside(path)
    left, kept, stored = aside.batches(), [], Stored()
    try:
        with progress("refused", len(left)) as advance:
            while left:
                try:
                    stored.records += _store(store, left[0].packed)
                    stored.requests += 1
                except Unavailable as error:
                    raise OSError(f"the store accepts no writes: {error}; stored before: {stored}") from None
                except Exception as error:  # of any kind: the others may be storable
                    stored.failed.append(f"{type(error).__name__} at {where(error)}")
                    kept.append(left[0])
                del left[0]
                advance()
    finally:
        if stored.requests:
            aside.leave([*kept, *left])
        store.close()
    return stored


def _store(store: Store, packed: bytes) -> int:
    """Stores a batch; returns the number of its records."""
    found = restored(packed, time.time_ns())
    changes = Correlator(Lookup(store), fresh=False).plan([found])
    store.write(changes)
    return -found.dropped["unstorable"]
