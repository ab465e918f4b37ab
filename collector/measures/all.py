"""Answers the queries of many rules: one statement per family, and shared inputs computed once.

Retry chains, streaks and new groups cost a hundred times as much as counting. Those that several statements need are
saved as tables in memory until all are answered.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from collector.engine import Reads
from collector.errors import Unavailable
from collector.measures.families import RELATIONS, MeasureQuery, measure_family, relations
from collector.measures.measure import Sample
from collector.query.filters import Selection
from collector.times import HOUR

TOGETHER = 16  # queries per statement; each adds three columns
SHORT = 6 * HOUR  # windows up to this length share the input of the longest of them


class Measured(NamedTuple):
    """The answer to a query: a sample per label set, or an error. `took_ms` is its share of the time."""

    samples: Sequence[Sample] = ()
    took_ms: float = 0.0
    error: Exception | None = None


class Keeps(Reads, Protocol):
    """The part of the store that this needs: tables that live in memory, outside of the file."""

    rebuilding: bool

    def keep(self, name: str, sql: str, params: Mapping[str, object]) -> str: ...

    def drop_kept(self) -> None: ...


def measure_all(
    store: Keeps, queries: Iterable[MeasureQuery], failure_only: Sequence[str] = ()
) -> dict[MeasureQuery, Measured]:
    """The answer to each query. One that fails does not affect the others. For one thread at a time."""
    families: defaultdict[tuple[object, ...], list[MeasureQuery]] = defaultdict(list)
    answers: dict[MeasureQuery, Measured] = {}
    recomputing = Measured(error=Unavailable("streaks and retry chains are being recomputed", 5))
    for query in dict.fromkeys(queries):
        if store.rebuilding and (query.chains or query.kind == "streaks"):
            answers[query] = recomputing
        else:
            families[query.family].append(query)
    parts = [every[at : at + TOGETHER] for every in families.values() for at in range(0, len(every), TOGETHER)]
    shared = _Shared(store, parts)
    try:
        for part in parts:
            answers |= _answered(store, part, failure_only, shared)
    finally:
        shared.drop()
    return answers


def _answered(
    store: Keeps, family: Sequence[MeasureQuery], failure_only: Sequence[str], shared: _Shared
) -> dict[MeasureQuery, Measured]:
    began = time.perf_counter()
    try:
        found = measure_family(store, family, failure_only, shared)
    except Exception as error:
        if len(family) == 1:
            return {family[0]: Measured(error=error)}
        return {
            query: answer for one in family for query, answer in _answered(store, [one], failure_only, shared).items()
        }
    took_ms = (time.perf_counter() - began) * 1000 / len(family)
    return {query: Measured(samples, took_ms) for query, samples in zip(family, found, strict=True)}


class _Shared:
    """Provides relations: a table if several statements need it and it fits into memory, else SQL."""

    def __init__(self, store: Keeps, families: Iterable[Sequence[MeasureQuery]]) -> None:
        self._store = store
        self._needed: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
        for family in families:
            for name in relations(family):
                self._needed[_key(name, family[0].window)].append(family[0].start_ns)
        self._kept: dict[tuple[object, ...], str] = {}

    def __call__(self, name: str, window: Selection) -> str:
        key = _key(name, window)
        if len(self._needed[key]) < 2:
            return f"({RELATIONS[name](window)})"
        if key not in self._kept:
            longest = replace(window, start_ns=min(self._needed[key]))
            sql = RELATIONS[name](longest)
            try:
                self._kept[key] = self._store.keep(f"{name}_{len(self._kept)}", sql, longest.params())
            except Unavailable:  # such as too little memory: each statement computes it
                self._needed[key].clear()
                return self(name, window)
        return self._kept[key]

    def drop(self) -> None:
        """Drops the tables."""
        if self._kept:
            self._store.drop_kept()


def _key(name: str, window: Selection) -> tuple[object, ...]:
    """Windows with the same key share a relation."""
    short = window.end_ns - window.start_ns <= SHORT
    return (name, window.end_ns, short or window.start_ns)
