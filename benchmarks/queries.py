"""Times the dashboard's queries over a large store: wall and CPU time, cold and warm, and memory.

    python -m benchmarks.queries [--events 1000000] [--store duckdb:////tmp/b.duckdb] [--only streaks] [--projects 10]

Creates the store if there is none (`misstep demo --bulk`). Cold: after the file was dropped from the system's cache and
the store reopened; warm: the median of three more runs. Times are in milliseconds; the budget is for warm wall time.
With `--projects`, the sessions of a new store are spread over so many, and the questions are those of one.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import duckdb

from collector.commands.bulk import bulk
from collector.commands.rebuild import rebuilt
from collector.engine.duckdb.open import path_of
from collector.engine.duckdb.store import Store
from collector.projects import only
from collector.query.breakdowns import breakdown, bucket_of, timeseries, values
from collector.query.changes import changes
from collector.query.compare import compare
from collector.query.costs import costs
from collector.query.filters import Selection, terms_of
from collector.query.groups import groups
from collector.query.queries import events, newest_ns, sources
from collector.query.retries import curve, retries, storms
from collector.query.sessions import sessions
from collector.query.statement import Answer
from collector.query.streaks import Scope, limits, streaks, summary
from collector.times import SECOND, UNITS

ALL = ("sessions", "p50_ms", "p95_ms", "recovery_rate")
SILENT = ("roo-code",)

Ask = Callable[[Selection], Answer]

# Name, budget in milliseconds, range, query.
QUESTIONS: tuple[tuple[str, int, str, Ask], ...] = (
    ("breakdown, all measures", 200, "1d", lambda s: breakdown(s, ["tool", "error_class"], ALL)),
    ("breakdown, all measures, previous", 200, "1d", lambda s: breakdown(s, ["tool"], ALL, previous=True)),
    ("timeseries by category", 200, "1d", lambda s: timeseries(s, bucket_of(s, None), ["category"])),
    ("breakdown by tool, class", 200, "30d", lambda s: breakdown(s, ["tool", "error_class"])),
    ("breakdown by model of one tool", 200, "30d", lambda s: breakdown(_of(s, "tool", "apply_diff"), ["model"])),
    ("totals", 200, "30d", lambda s: breakdown(s, [])),
    ("timeseries by category", 200, "30d", lambda s: timeseries(s, bucket_of(s, None), ["category"])),
    ("values of tool", 200, "30d", lambda s: values(s, "tool", "", [], 100)),
    ("values of session", 1500, "30d", lambda s: values(s, "session", "", [], 100)),
    ("sessions per tool", 1500, "30d", lambda s: breakdown(s, ["tool"], ["sessions"])),
    ("p95 per tool", 1500, "30d", lambda s: breakdown(s, ["tool"], ["p50_ms", "p95_ms"])),
    ("recovery rate per tool", 1500, "30d", lambda s: breakdown(s, ["tool"], ["recovery_rate"])),
    ("streaks", 200, "1d", lambda s: streaks(s, Scope(), min_length=2)),
    ("streaks", 200, "30d", lambda s: streaks(s, Scope(), min_length=2)),
    ("streaks of a tool", 200, "30d", lambda s: streaks(_of(s, "tool", "apply_diff"), Scope("tool"), min_length=2)),
    ("streaks, summary", 200, "30d", lambda s: summary(s, Scope())),
    ("streaks, limits by model", 200, "30d", lambda s: limits(s, Scope(), ["model"])),
    ("retries by class", 200, "30d", lambda s: retries(s, ["error_class"])),
    ("retries, curve", 200, "30d", lambda s: curve(s, [])),
    ("groups", 200, "1d", lambda s: groups(s)),
    ("groups", 1500, "30d", lambda s: groups(s)),
    ("sessions", 200, "1d", lambda s: sessions(s)),
    ("sessions", 1500, "30d", lambda s: sessions(s)),
    ("sessions that ended in an error", 200, "1d", lambda s: sessions(s, state="error")),
    ("sessions that ended in an error", 1500, "30d", lambda s: sessions(s, state="error")),
    ("one session", 200, "30d", lambda s: sessions(_of(s, "session", "bulk-1"))),
    ("costs by class", 200, "1d", lambda s: costs(s, ["error_class"])),
    ("costs by class", 1500, "30d", lambda s: costs(s, ["error_class"])),
    ("storms", 200, "1d", lambda s: storms(s, 60 * SECOND, 10)),
    ("storms", 1500, "30d", lambda s: storms(s, 60 * SECOND, 10)),
    ("compare error rate", 200, "1d", lambda s: compare(s, ["error_rate"])),
    ("compare error rate", 1500, "15d", lambda s: compare(s, ["error_rate"])),
    ("compare p95 by tool", 1500, "15d", lambda s: compare(s, ["p95_ms"], ["tool"])),
    ("changes", 1500, "1d", lambda s: changes(s, "errors")),
    ("changes", 5000, "15d", lambda s: changes(s, "errors")),
    ("events, newest errors", 200, "30d", lambda s: events(_of(s, "outcome", "error"), 100)),
    ("sources", 200, "30d", lambda s: sources(s)),
)


def main() -> None:
    """Prints one line per query."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--events", type=int, default=1_000_000)
    arguments.add_argument("--store", default="")
    arguments.add_argument("--only", default="")
    arguments.add_argument("--projects", type=int, default=0)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = given.store or f"duckdb:///{folder}/queries.duckdb"
        path = path_of(url)
        assert path is not None
        if not path.exists():
            began, cpu = time.perf_counter(), time.process_time()
            bulk(url, given.events, 0)
            if given.projects:
                _spread(url, path, given.projects)
            print(f"made in {time.perf_counter() - began:.0f} s, {time.process_time() - cpu:.0f} s of CPU")
        store = Store.open(url)
        stored, newest = store.rows("select count(*) as n from events")[0]["n"], newest_ns(store)
        store.close()
        assert newest is not None
        size = path.stat().st_size
        print(f"{stored:,} events, {size / stored:.0f} bytes each\n")
        print("| question | range | cold, wall | warm, wall | warm, CPU | budget |")
        print("| --- | --- | --- | --- | --- | --- |")
        for name, budget, length, ask in QUESTIONS:
            if given.only in name:
                selection = Selection(newest - int(length[:-1]) * UNITS[length[-1]], newest + 1, (), "", SILENT)
                project = "0" if given.projects else None
                _measure(url, path, f"| {name} | {length} ", budget, ask(selection), project)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\nlargest resident memory of this process: {peak:.0f} MiB")


def _spread(url: str, path: Path, projects: int) -> None:
    with duckdb.connect(path) as connection:
        connection.execute("update events set project = (hash(coalesce(session, service)) % ?)::varchar", [projects])
    store = Store.open(url)
    rebuilt(store)
    store.close()


def _of(selection: Selection, name: str, value: str) -> Selection:
    terms = (*selection.terms, *terms_of(name, value))
    return Selection(selection.start_ns, selection.end_ns, terms, "", selection.failure_only)


def _measure(url: str, path: Path, name: str, budget: int, statement: Answer, project: str | None) -> None:
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    store = Store.open(url)
    try:
        with only(project):
            cold, _ = _timed(store, statement)
            walls, cpus = zip(*(_timed(store, statement) for _ in range(3)), strict=True)
        over = " ✗" if median(walls) > budget else ""
        print(f"{name}| {cold:.0f} | {median(walls):.0f} | {median(cpus):.0f} | {budget}{over} |", flush=True)
    except Exception as error:  # the next query may still be answered
        print(f"{name}| {type(error).__name__}: {str(error).splitlines()[0][:80]} | | | {budget} ✗ |", flush=True)
    finally:
        store.close()


def _timed(store: Store, statement: Answer) -> tuple[float, float]:
    began, cpu = time.perf_counter(), time.process_time()
    statement.rows(store, 120)
    return (time.perf_counter() - began) * 1e3, (time.process_time() - cpu) * 1e3


if __name__ == "__main__":
    main()
