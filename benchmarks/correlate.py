"""What it costs to correlate and to commit: CPU per report, and how often the store is asked in a transaction.

    python -m benchmarks.correlate [--requests 16] [--events 500] [--group 8]

*Remembering*: a collector that runs on. *Started anew*: each transaction is the first of a collector, which looks for
everything in the store, and for what an earlier run may not have looked for.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from benchmarks.ingest import fresh_store, pipeline, request
from collector.correlate.correlate import Correlator
from collector.engine.duckdb.lookup import Lookup
from collector.engine.duckdb.store import Store
from collector.journal.journal import pack, unpack

PROTOBUF = "application/x-protobuf"


class Counting:
    """A look-up that counts what it is asked."""

    def __init__(self, store: Store) -> None:
        self._lookup = Lookup(store)
        self.asked: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        self.asked[name] += 1
        question: Callable[..., Any] = getattr(self._lookup, name)
        return question


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--requests", type=int, default=16)
    arguments.add_argument("--events", type=int, default=500)
    arguments.add_argument("--group", type=int, default=8, help="requests in one transaction")
    given = arguments.parse_args()
    ready, dice, now_ns = pipeline(), Random(1), time.time_ns()
    bodies = [request(dice, given.events, now_ns).SerializeToString() for _ in range(given.requests)]
    packed = [pack(ready.process(body, PROTOBUF, "traces", now_ns)) for body in bodies]
    groups = [packed[at : at + given.group] for at in range(0, len(packed), given.group)]
    total = given.requests * given.events
    print(f"{total} reports; µs of CPU time each")
    for name, anew in (("remembering", False), ("started anew", True)):
        with fresh_store(total) as store:
            planning, writing, asked = measured(store, groups, anew=anew)
        often = ", ".join(f"{question} {count}" for question, count in sorted(asked.items()))
        print(
            f"{name:14} {planning / total:6.1f} to plan, {writing / total:6.1f} to write; asked: {often or 'nothing'}"
        )


def measured(store: Store, groups: Sequence[Sequence[bytes]], *, anew: bool) -> tuple[float, float, Counter[str]]:
    """µs to plan and to write these groups of packed batches, and what was asked for plans."""
    lookup: Any = Counting(store)
    asked: Counter[str] = Counter()
    planning = writing = 0.0
    correlator = Correlator(lookup, fresh=True)
    for group in groups:
        if anew:
            correlator = Correlator(lookup, fresh=False)
        batches = [unpack(batch) for batch in group]
        lookup.asked.clear()
        began = time.process_time()
        changes = correlator.plan(batches)
        planned = time.process_time()
        store.write(changes)
        written = time.process_time()
        correlator.learn(changes)
        planning += planned - began
        writing += written - planned
        asked += lookup.asked
    return planning * 1e6, writing * 1e6, asked


if __name__ == "__main__":
    main()
