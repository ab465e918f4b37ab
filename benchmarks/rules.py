"""Times an evaluation of many alert rules over a large store: CPU time and wall time, by measure.

    python -m benchmarks.rules --store duckdb:////tmp/10m.duckdb [--rules 500]

The rules take all measures in turn, with and without filters, by up to two dimensions, over 15 minutes and an hour.
The first of three evaluations also reads the file; the others are like those of a collector every 15 seconds.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict

from collector.alerts.rules import MEASURES
from collector.engine.duckdb.store import Store
from collector.measures.all import measure_all
from collector.measures.families import MeasureQuery
from collector.query.filters import terms_of_rule
from collector.query.queries import newest_ns
from collector.times import SECOND, UNITS

WHERES: tuple[dict[str, list[str] | str], ...] = (
    {}, {"tool": "apply_diff"}, {"service": ["shop-coder"]}, {"outcome": "error"}, {"model": ["!none"]},
    {"operation": "tool"}, {"category": "validation"},
)  # fmt: skip
BYS: tuple[tuple[str, ...], ...] = ((), ("service",), ("tool",), ("service", "model"), ("agent",), ("tool", "service"))
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
    for turn in range(3):
        end = newest + 1 + 15 * SECOND * turn
        questions = [
            MeasureQuery(name, terms_of_rule(where), by, end - window, end) for name, where, by, window in rules
        ]
        began, wall = time.process_time(), time.perf_counter()
        answers = measure_all(store, questions, ("roo-code",))
        cpu, clock = time.process_time() - began, time.perf_counter() - wall
        by_measure = defaultdict[str, float](float)
        for question in questions:
            assert not answers[question].error
            by_measure[question.measure] += answers[question].took_ms
        dearest = sorted(by_measure.items(), key=lambda one: -one[1])[:6]
        dear = ", ".join(f"{name} {ms:.0f}" for name, ms in dearest)
        print(
            f"{len(rules)} rules: {cpu:.2f} s of CPU, {clock:.2f} s on the clock; ms of the clock: {dear}", flush=True
        )
    store.close()


if __name__ == "__main__":
    main()
