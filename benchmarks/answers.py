"""What the pages ask of a large store: how long each answer takes, and whether it is the same as before a change.

    python -m benchmarks.answers --store duckdb:////tmp/10m.duckdb [--ranges 24h,7d,30d] [--only lessons] [--times 3]
    python -m benchmarks.answers --store … --write /tmp/before.json    # before a change
    python -m benchmarks.answers --store … --against /tmp/before.json  # after it: exits with 1 if an answer differs

The questions are in `asked.txt`; each is asked over every range, unless it names one. A word in braces stands for the
largest of its kind in the store. CPU and wall time in milliseconds, medians. The clock stands at the newest event, so
that the same store gives the same answers.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from collector.api.endpoints import ENDPOINTS, Endpoint
from collector.api.parameters import read
from collector.engine.duckdb.store import Store
from collector.query.queries import newest_ns
from collector.query.statement import presented
from collector.times import SECOND

SILENT = ("roo-code",)
TIMEOUT_S = 120

ASKED = Path(__file__).with_name("asked.txt")


def main() -> None:
    """Prints one line per question and range."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--store", required=True)
    arguments.add_argument("--ranges", default="24h,7d,30d")
    arguments.add_argument("--only", default="")
    arguments.add_argument("--times", type=int, default=1)
    arguments.add_argument("--write", type=Path)
    arguments.add_argument("--against", type=Path)
    given = arguments.parse_args()
    store = Store.open(given.store)
    before = json.loads(given.against.read_text()) if given.against else {}
    answers: dict[str, Any] = {}
    differ = []
    for asked in _questions(store, given.ranges.split(","), given.only):
        walls, cpus, answers[asked] = _measured(store, asked, given.times)
        if asked in before and answers[asked] != before[asked]:
            differ.append(asked)
        mark = " DIFFERS" if asked in differ else ""
        print(f"{median(cpus):9.0f} {median(walls):9.0f}  {asked}{mark}", flush=True)
    store.close()
    if given.write:
        given.write.write_text(json.dumps(answers))
    for asked in differ:
        print(f"differs: {asked}\n  before {_short(before[asked])}\n  after  {_short(answers[asked])}")
    sys.exit(bool(differ))


def _questions(store: Store, ranges: list[str], only: str) -> Iterator[str]:
    subjects = _subjects(store)
    for template in ASKED.read_text().splitlines():
        question = template.format(**subjects)
        if only not in question:
            continue
        if "from=" in question or question.startswith("search"):
            yield question
            continue
        yield from (f"{question}{'&' if '?' in question else '?'}from=-{length}" for length in ranges)


def _subjects(store: Store) -> Mapping[str, str]:
    """What the words in braces stand for."""
    found = store.rows(
        "select tool, error_class, fingerprint::varchar as fingerprint from events where fingerprint is not null and "
        "operation = 'tool' group by all order by count(*) desc, fingerprint limit 1"
    )[0]
    found |= store.rows(
        "select session, service, call_id as call, left(event_id::varchar, 8) as digits from events "
        "order by time_ns desc, event_id limit 1"
    )[0]
    versions = store.rows(
        "select service_version from events where service = $service group by all order by min(time_ns)", found
    )
    return found | {"older": versions[0]["service_version"], "newer": versions[-1]["service_version"]}


def _measured(store: Store, asked: str, times: int) -> tuple[list[float], list[float], Any]:
    address, _, query = asked.partition("?")
    endpoint, path = _endpoint(address)
    now_ns = (newest_ns(store) or 0) + SECOND
    takes = read(query.encode(), endpoint.takes, path, now_ns, filters=endpoint.filters, since=endpoint.since,
                 failure_only=SILENT)  # fmt: skip
    walls: list[float] = []
    cpus: list[float] = []
    answer: Any = None
    for _ in range(times):
        began, cpu = time.perf_counter(), time.process_time()
        try:
            statement = endpoint.ask(takes.selection, takes.options)
            rows = statement.rows(store, TIMEOUT_S)
            answer = [presented(row, statement.times) for row in rows]
        except Exception as error:  # the next one may still be answered
            answer = f"{type(error).__name__}: {str(error)[:200]}"
        walls.append((time.perf_counter() - began) * 1e3)
        cpus.append((time.process_time() - cpu) * 1e3)
    return walls, cpus, _rounded(json.loads(json.dumps(answer, default=str)))


def _rounded(value: Any) -> Any:
    """Without the last digits of sums, which depend on the order in which threads add."""
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def _endpoint(address: str) -> tuple[Endpoint, Mapping[str, str]]:
    """The endpoint of an address, and what stands in the address for its parameter."""
    for endpoint in ENDPOINTS:
        before, parameter, _ = endpoint.path.strip("/").partition("{")
        if not parameter and address == before:
            return endpoint, {}
    for endpoint in ENDPOINTS:
        before, parameter, rest = endpoint.path.strip("/").partition("{")
        if parameter and address.startswith(before):
            return endpoint, {rest.partition(":")[0]: address.removeprefix(before)}
    raise LookupError(address)


def _short(answer: Any) -> str:
    return json.dumps(answer)[:600]


if __name__ == "__main__":
    main()
