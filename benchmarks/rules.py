"""One evaluation of many alert rules over a store of many events: CPU time, whole and by measure.

    python -m benchmarks.rules --store duckdb:////tmp/10m.duckdb [--rules 500]

The rules take all measures in turn, with and without filters, by up to two dimensions, over 15 minutes and an hour.
Of three evaluations the first has nothing prepared; the later ones are what a collector does every 15 seconds.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict

from collector.alerts.rules import MEASURES
from collector.query.filters import SECOND, UNITS
from collector.query.queries import newest_ns
from collector.query.shared import Measures, Where
from collector.store.store import Store

WHERES: tuple[Where, ...] = (
    {}, {"tool": "apply_diff"}, {"service": ["shop-coder"]}, {"outcome": "error"}, {"model": ["!none"]},
    {"operation": "tool"}, {"category": "validation"},
)  # fmt: skip
BYS: tuple[list[str], ...] = ([], ["service"], ["tool"], ["service", "model"], ["agent"], ["tool", "service"])
WINDOWS = (15 * UNITS["m"], UNITS["h"])


def main() -> None:
    """Prints one line per evaluation."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--store", required=True)
    arguments.add_argument("--rules", type=int, default=500)
    given = arguments.parse_args()
    names = tuple(MEASURES)
    turns = ((names[number % len(names)], number // len(names)) for number in range(given.rules))
    rules = [
        (name, WHERES[turn % len(WHERES)], BYS[turn % len(BYS)], WINDOWS[turn // len(WHERES) % 2])
        for name, turn in turns
    ]
    store = Store.open(given.store)
    newest = newest_ns(store)
    assert newest is not None
    measures = Measures(store, ("roo-code",))
    for turn in range(3):
        end = newest + 1 + 15 * SECOND * turn
        began, wall, by_measure = time.process_time(), time.perf_counter(), defaultdict[str, float](float)
        for name, where, by, window in rules:
            before = time.process_time()
            measures(store, name, where, by, end - window, end)
            by_measure[name] += time.process_time() - before
        dearest = sorted(by_measure.items(), key=lambda one: -one[1])[:6]
        dear = ", ".join(f"{name} {seconds:.2f}" for name, seconds in dearest)
        cpu, clock = time.process_time() - began, time.perf_counter() - wall
        print(f"{len(rules)} rules: {cpu:.2f} s of CPU, {clock:.2f} s on the clock; dearest: {dear}", flush=True)
    store.close()


if __name__ == "__main__":
    main()
