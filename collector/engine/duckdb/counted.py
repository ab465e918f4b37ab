"""Counts settled events by the labels of `misstep_calls_total`, kept in the store so that a restart changes nothing.

An event is counted once it was received long enough ago that its reports have come. If it changes all the same, it is
counted under its new labels at once, and one is owed to its old ones: the next event with these is not counted. So no
total ever goes down, and totals without what is owed are a count of the events. Retention owes nothing.

Senders choose the names of services and tools, and a series is never removed: so only the first few are labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import duckdb

from collector.columns import TABLES, Row
from collector.correlate.changes import Changes
from collector.engine.duckdb.arrow import ArrowColumns, columns_of
from collector.telemetry import CALL_LABELS

MOST_NAMES = {"project": 50, "service": 20, "tool": 50}
MOST_SERIES = 10_000  # beyond it, tools are `other`
OTHER = "other"
UNTIL = "counted"  # in `meta`: events received up to then are counted

Labels = tuple[str, ...]
_NAMES = ", ".join(CALL_LABELS)
_RATED = "(outcome in ('ok', 'error') and not coalesce(list_contains($silent::varchar[], source), false))::varchar"
_SUMMED = ", ".join(_RATED if name == "rated" else f"coalesce({name}, '')" for name in CALL_LABELS)
_TOOL = CALL_LABELS.index("tool")


class Count(NamedTuple):
    """Events under some labels, and how many of them are there no longer."""

    calls: int
    owed: int


class Counted:
    """What is counted. What a transaction will change is made by `advanced`, `corrected` or `without`, which write it
    too, and becomes true by `take` once it is committed.
    """

    def __init__(self) -> None:
        self.services: tuple[str, ...] = ()  # those with names, if not the first ones
        self.silent: tuple[str, ...] = ()  # sources that report failures only, and have no rate
        self.noting = False  # whether events that are corrected are noted in `corrected`
        self._counts: Mapping[Labels, Count] = {}
        self._names: dict[str, set[str]] = {}
        self.until_ns = 0

    def shown(self) -> tuple[dict[Labels, int], int]:
        """Calls by labels, and how many are owed in all. From any thread."""
        counts = self._counts
        return {labels: one.calls for labels, one in counts.items()}, sum(one.owed for one in counts.values())

    def read(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Reads everything from the store."""
        sql = f"select {_NAMES}, sum(calls)::bigint, sum(owed)::bigint from counted group by all"
        self._counts = {tuple(row[:-2]): Count(*row[-2:]) for row in cursor.execute(sql).fetchall()}
        found = cursor.execute("select value from meta where name = ?", [UNTIL]).fetchone()
        self.until_ns = int(found[0]) if found else 0
        self._names = {name: set() for name in MOST_NAMES}
        for labels in self._counts:
            self._know(labels)

    def advanced(self, cursor: duckdb.DuckDBPyConnection, until_ns: int) -> Mapping[Labels, Count]:
        """Counts events received after those that are counted and up to `until_ns`."""
        if until_ns <= self.until_ns:
            return {}
        span = {"after": self.until_ns, "until": until_ns, "silent": list(self.silent)}
        found = cursor.execute(
            f"select {_SUMMED}, count(*) from events where received_ns > $after and received_ns <= $until group by all"
            f" order by count(*) desc, {_SUMMED}",
            span,
        ).fetchall()
        if not found:
            return {}
        return self._written(cursor, self._summed((tuple(row[:-1]), row[-1]) for row in found), until_ns)

    def corrected(self, cursor: duckdb.DuckDBPyConnection, changes: Changes) -> Mapping[Labels, Count]:
        """Counts what these changes make of events that are counted, or should be."""
        until_ns = self.until_ns
        new = [event for event in changes.events if event["received_ns"] <= until_ns]
        old = [event for event in changes.old if event["received_ns"] <= until_ns]
        if not new and not old:
            return {}
        if self.noting and new:
            rows: list[Row] = [{"event_id": event["event_id"], "received_ns": changes.received_ns} for event in new]
            _insert(cursor, "corrected", rows)
        net = self._summed([(self._labels(event), 1) for event in new] + [(self._labels(event), -1) for event in old])
        return self._written(cursor, net, until_ns)

    def without(self, cursor: duckdb.DuckDBPyConnection, events: str) -> Mapping[Labels, Count]:
        """Owes what is counted of `events`, "(from events where …)", which are about to be removed."""
        found = cursor.execute(
            f"select {_SUMMED}, -count(*) from {events} where received_ns <= $until group by all",
            {"until": self.until_ns, "silent": list(self.silent)},
        ).fetchall()
        return self._written(cursor, self._summed((tuple(row[:-1]), row[-1]) for row in found), self.until_ns)

    def take(self, counts: Mapping[Labels, Count], until_ns: int = 0) -> None:
        """What a committed transaction has written is true from now on."""
        self.until_ns = max(self.until_ns, until_ns)
        if counts:
            self._counts = {**self._counts, **counts}

    def _summed(self, found: Iterable[tuple[Labels, int]]) -> Counter[Labels]:
        net: Counter[Labels] = Counter()
        for labels, number in found:
            net[self._few(labels)] += number
        return net

    def _written(
        self, cursor: duckdb.DuckDBPyConnection, net: Mapping[Labels, int], until_ns: int
    ) -> Mapping[Labels, Count]:
        """The counts that `net` changes, written together with the time up to which all events are in them."""
        counts = {}
        for labels, more in net.items():
            calls, owed = self._counts.get(labels, Count(0, 0))
            left = more - owed
            if more:
                counts[labels] = Count(calls + max(left, 0), max(-left, 0))
        if counts:
            rows = [{**dict(zip(CALL_LABELS, labels, strict=True)), **one._asdict()} for labels, one in counts.items()]
            incoming = ArrowColumns(columns_of(rows, TABLES["counted"]), TABLES["counted"])  # noqa: F841 -- by its name
            cursor.execute(
                "delete from counted where rowid in"
                f" (select counted.rowid from counted semi join incoming using ({_NAMES}))"
            )
            cursor.execute(f"insert into counted ({_NAMES}, calls, owed) select {_NAMES}, calls, owed from incoming")
            cursor.execute("delete from meta where name = ?", [UNTIL])
            cursor.execute("insert into meta values (?, ?)", [UNTIL, str(until_ns)])
        return counts

    def _labels(self, event: Mapping[str, object]) -> Labels:
        rated = event.get("outcome") in ("ok", "error") and event.get("source") not in self.silent
        told = {**event, "rated": str(rated).lower()}
        return tuple(str(told.get(name) or "") for name in CALL_LABELS)

    def _few(self, labels: Labels) -> Labels:
        """The labels with the names beyond the first few replaced."""
        if labels in self._counts:
            return labels
        named = tuple(map(self._bounded, CALL_LABELS, labels))
        if named not in self._counts and len(self._counts) >= MOST_SERIES:
            named = (*named[:_TOOL], OTHER, *named[_TOOL + 1 :])
        return named

    def _bounded(self, label: str, name: str) -> str:
        if not name or label not in MOST_NAMES:
            return name
        if label == "service" and self.services:
            return name if name in self.services else OTHER
        known = self._names.setdefault(label, set())
        if name not in known and len(known) >= MOST_NAMES[label]:
            return OTHER
        known.add(name)
        return name

    def _know(self, labels: Labels) -> None:
        for label, name in zip(CALL_LABELS, labels, strict=True):
            if label in MOST_NAMES and name not in ("", OTHER):
                self._names[label].add(name)


def _insert(cursor: duckdb.DuckDBPyConnection, table: str, rows: list[Row]) -> None:
    incoming = ArrowColumns(columns_of(rows, TABLES[table]), TABLES[table])  # noqa: F841 -- DuckDB finds it by its name
    cursor.execute(f"insert into {table} by name select * from incoming")
