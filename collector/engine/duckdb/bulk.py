"""Fills a store with made-up events, many millions in minutes: DuckDB computes them, no row passes through Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources

from collector.columns import Row
from collector.engine.duckdb.store import Store
from collector.times import DAY, MINUTE

DAYS = 30
CHUNK = 250_000  # events per transaction: fits into `memory_limit`, and gives about one line of progress per second
PARTY = 160  # events of five sessions that begin together
LATEST_NS = 30 * MINUTE  # the last session begins half an hour before the end and is over by then


@dataclass(frozen=True, slots=True)
class Cast:
    """Who does what and how it fails; `bulk.sql` says how often. Weights are repeated rows, or `low` to `high`."""

    patterns: list[Row]
    agents: list[Row]
    tools: list[Row]
    failures: list[Row]


TYPES = {
    "patterns": {"place": "bigint", "outcomes": "varchar", "calls": "varchar"},
    "agents": {
        "low": "bigint", "high": "bigint", "service": "varchar", "version": "varchar", "later_version": "varchar",
        "deployed": "double", "worse": "varchar", "agent": "varchar", "model": "varchar", "provider": "varchar",
        "source": "varchar", "environment": "varchar",
    },
    "tools": {
        "place": "bigint", "tool": "varchar", "tool_kind": "varchar", "mcp_server": "varchar", "targets": "varchar",
        "milliseconds": "double",
    },
    "failures": {
        "tool": "varchar", "low": "bigint", "high": "bigint", "domain": "varchar", "category": "varchar",
        "error_class": "varchar", "reported_class": "varchar", "classified_by": "varchar", "severity": "varchar",
        "attribution": "varchar", "recovery": "varchar", "mistake": "boolean", "retryable": "boolean",
        "fatal": "boolean", "status_code": "integer", "message": "varchar", "suggestion": "varchar",
        "template": "varchar", "fingerprint": "ubigint",
    },
}  # fmt: skip


def fill(store: Store, events: int, seed: int, now_ns: int, cast: Cast) -> Iterator[int]:
    """Adds `events` events of the 30 days before `now_ns`; yields how many were added, chunk by chunk."""
    sql = resources.files("collector.engine.duckdb").joinpath("sql", "bulk.sql").read_text(encoding="utf-8")
    rows = {"patterns": cast.patterns, "agents": cast.agents, "tools": cast.tools, "failures": cast.failures}
    for name in ("patterns", "tools"):
        rows[name] = [{"place": place, **row} for place, row in enumerate(rows[name])]
    given = {
        "seed": seed, "start_ns": now_ns - DAYS * DAY, "span_ns": DAYS * DAY - LATEST_NS, "days": DAYS,
        "parties": -(-events // PARTY), "patterns": len(cast.patterns), "tools": len(cast.tools),
        "shares": cast.agents[-1]["high"],
    }  # fmt: skip
    with store.temporary({name: (rows[name], kinds) for name, kinds in TYPES.items()}) as execute:
        for low in range(0, events, CHUNK):
            high = min(low + CHUNK, events)
            execute(sql, {**given, "low": low, "high": high})
            yield high - low
