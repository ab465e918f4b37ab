"""The tables of sources as rows: which records are reports, and which columns are where.

`Sources.plan` selects the rows for a scope, so that most spans are dropped by their name alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from collector.recognise.readers import ANY, Reader, any_named, needs, present
from collector.recognise.readings import (
    Reading,
    Wanted,
)

T = TypeVar("T")

SHAPE_KEYS, SHAPE_CHARS = 64, 4096  # limits of a set of names that is cached: number and total length
PLANS = 2000  # scopes and names cached, limited because senders may use random names
# The AI SDK's own name of a span: it makes spans with whatever tracer it is given, and span processors rename them.
AI_OPERATION = "ai.operationId"


def cached(results: dict[tuple[str, ...], T], names: tuple[str, ...], result: T) -> T:
    """Adds the result for these names, if they are few and short: senders must not fill the memory. A full cache is
    cleared first.
    """
    if len(names) <= SHAPE_KEYS and sum(map(len, names)) <= SHAPE_CHARS:
        if len(results) >= PLANS:
            results.clear()
        results[names] = result
    return result


class Condition(NamedTuple):
    """What the value at a key must be: present or absent (True, False), or one that matches."""

    key: str
    read: Reader
    wanted: bool | Wanted

    def known(self, scope: str, attributes: Collection[str]) -> bool | None:
        """Whether it holds for every record of this scope with these attributes; None if that depends on the record."""
        if self.key == "@scope":
            return holds(self.wanted, scope)
        if self.key.startswith(ANY):
            return None if any(map(any_named(self.key).fullmatch, attributes)) else self.wanted is False
        needed = needs(self.key)
        return None if not needed or any(key in attributes for key in needed) else self.wanted is False


@dataclass(slots=True)
class Fitting:
    """A row for records of one scope with one set of attribute names: what its `*` matched in their name, the
    conditions that depend on the record, and what `fields` reads from it.
    """

    row: Row
    captured: str
    where: tuple[Condition, ...]
    shape: Any = None

    def fits(self, record: Any, around: Any) -> bool:
        """Whether these conditions hold."""
        for _, read, wanted in self.where:  # noqa: SIM110 -- `all` over a generator costs twice as much here
            if not holds(wanted, read(record, around)):
                return False
        return True


@dataclass(frozen=True, slots=True)
class Row:
    """One `[[records]]` row, compiled."""

    source: str
    related: frozenset[str]  # its source, and those that it extends
    signals: frozenset[str]
    names: tuple[re.Pattern[str], ...]
    where: tuple[Condition, ...]
    operation: str
    drop: str
    rank: int | None
    outcome: str
    lends: bool
    sure: bool
    told: tuple[str, ...]
    asked: tuple[str, ...]
    switch: tuple[tuple[str, Reader], ...]
    asks: tuple[str, ...]
    sole: bool  # some row of its table has the key "only call"
    told_policy: str
    disguised: bool
    keys: frozenset[str]
    twin: tuple[str | list[str], ...]
    reading: Callable[[], Reading]  # made when first called: an installation meets few of all rows
    examples: tuple[str, ...]
    counter_examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """One table."""

    id: str
    title: str
    order: int
    reports_ok: bool
    counter: tuple[str, ...]
    coverage: Mapping[str, bool | str]
    extends: frozenset[str]
    prefixes: tuple[str, ...]
    ai_sdk: bool
    services: re.Pattern[str] | None
    within: re.Pattern[str] | None
    scopes: re.Pattern[str] | None
    versions: re.Pattern[str] | None
    events: re.Pattern[str] | None
    markers: Wanted
    routes: frozenset[str]
    rows: tuple[Row, ...]
    moments: bool  # some row is of events of spans

    @property
    def marked(self) -> bool:
        """Whether attributes alone can show that a record is of this table."""
        return bool(self.markers.words)

    def made(self, scope: str, version: str) -> bool:
        """Whether a scope of this name and version is this agent's."""
        if not self.scopes or not self.scopes.fullmatch(scope):
            return False
        return self.versions is None or self.versions.fullmatch(version) is not None

    def bare(self, name: str) -> str:
        """The event name without the vendor's prefix."""
        for prefix in self.prefixes:
            if name.startswith(prefix):
                return name[len(prefix) :]
        return name


class Candidates(NamedTuple):
    """Rows of one table to try in order, each with what its `*` matched in the name."""

    markers: Wanted | None  # a record must have one of these attributes; None: no condition
    rows: tuple[tuple[Row, str], ...]

    def may_take(self, attributes: Iterable[str]) -> bool:
        """Whether records with these attributes may be of the table."""
        if self.markers is None or not self.markers.words.isdisjoint(attributes):
            return True
        return self.markers.globs is not None and any(map(self.markers.globs.fullmatch, attributes))


@dataclass(slots=True)
class Plan:
    """The rows that may match records of one scope, by signal and name."""

    claimed: bool
    sources: tuple[Source, ...]
    scope: str
    named: Source | None = None  # the table of the service's name: its rows need no marker where no scope is named
    beside: Plan | None = None  # of the tables that a span with AI_OPERATION may be of, whatever scope it is in
    _names: dict[tuple[str, ...], tuple[Candidates, ...]] = field(default_factory=dict)
    _fitting: dict[tuple[str, ...], tuple[Fitting, ...]] = field(default_factory=dict)

    def rows(self, signal: str, name: str) -> tuple[Candidates, ...]:
        """Tables whose rows may match; if there are none, no record of that name is a report."""
        found = self._names.get((signal, name))
        if found is None:
            found = cached(self._names, (signal, name), tuple(self._candidates(signal, name)))
        return found

    def fitting(self, signal: str, name: str, attributes: Mapping[str, Any]) -> tuple[Fitting, ...]:
        """The rows to try for a record with these attributes, in order. They depend only on the attributes' names."""
        key = (signal, name, *attributes)
        found = self._fitting.get(key)
        if found is None:
            found = cached(self._fitting, key, tuple(self._fitted(signal, name, attributes)))
        return found

    def _fitted(self, signal: str, name: str, attributes: Mapping[str, Any]) -> Iterator[Fitting]:
        for candidates in self.rows(signal, name):
            if not candidates.may_take(attributes):
                continue
            for row, captured in candidates.rows:
                known = [(one, one.known(self.scope, attributes)) for one in row.where]
                if all(holds is not False for _, holds in known):
                    yield Fitting(row, captured, tuple(one for one, holds in known if holds is None))

    def _candidates(self, signal: str, name: str) -> Iterable[Candidates]:
        for source in self.sources:
            bare = name if signal == "span" else source.bare(name)
            captures = [(row, _captured(row, bare)) for row in source.rows if signal in row.signals]
            rows = tuple((row, captured) for row, captured in captures if captured is not None)
            if not rows:
                continue
            if self.claimed or self._is_named(source, signal, name):
                yield Candidates(None, rows)
            elif source.marked:
                yield Candidates(source.markers, rows)

    def _is_named(self, source: Source, signal: str, name: str) -> bool:
        """Whether the names of service and record alone show that the table's rows may match."""
        if source is self.named and (signal == "event" or not self.scope):
            return True
        return signal != "span" and bool(source.events and source.events.fullmatch(name))


@dataclass(slots=True)
class Sources:
    """All tables, in order."""

    sources: tuple[Source, ...]
    _plans: dict[tuple[str, ...], Plan] = field(default_factory=dict)

    def plan(self, service: str, scope: str, version: str = "") -> Plan:
        """The plan for a scope: the rows of the first table that claims it, otherwise of all that match by content.
        The version, of the scope or the service, matters only where a fork has the original's scopes.

        A service may have any name. It only decides in the scopes that its table names as shared; where no scope is
        named, and for plain JSON, its table is tried before those behind it.
        """
        found = self._plans.get((service, scope, version))
        if found is None:
            found = cached(self._plans, (service, scope, version), self._made(service, scope, version))
        return found

    def _made(self, service: str, scope: str, version: str) -> Plan:
        named = next((source for source in self.sources if _has_service(source, service)), None)
        if claimant := self._claimant(named, scope, version):
            return Plan(True, (claimant,), scope, beside=self._beside(claimant, scope))
        free = tuple(source for source in self.sources if source.events or source.marked or source is named)
        return Plan(False, free, scope, named)

    def _beside(self, claimant: Source, scope: str) -> Plan | None:
        if not claimant.ai_sdk:
            return None
        others = [source for source in self.sources if source.markers.has(AI_OPERATION) and source is not claimant]
        return Plan(False, tuple(others), scope) if others else None

    def _claimant(self, named: Source | None, scope: str, version: str) -> Source | None:
        if named and named.within and named.within.fullmatch(scope):
            return named
        return next((one for one in self.sources if scope in one.routes or one.made(scope, version)), None)

    @property
    def failure_only(self) -> list[str]:
        """Ids of the tables whose agents report only failures: they have no rates."""
        return [source.id for source in self.sources if not source.reports_ok]

    def named(self, source: str) -> Source | None:
        """The table with this id."""
        return next((one for one in self.sources if one.id == source), None)


def _has_service(source: Source, service: str) -> bool:
    return source.services is not None and source.services.fullmatch(service) is not None


def _captured(row: Row, name: str) -> str | None:
    if not row.names:
        return ""
    for pattern in row.names:
        if found := pattern.fullmatch(name):
            return "".join(found.groups())
    return None


def holds(wanted: bool | Wanted, value: Any) -> bool:
    if isinstance(wanted, bool):
        return present(value) == wanted
    if isinstance(value, str):
        return wanted.has(value)
    if value is None or isinstance(value, dict):
        return False
    if isinstance(value, list):
        return any(holds(wanted, one) for one in value[:16])
    return holds(wanted, str(value).lower() if isinstance(value, bool) else str(value))
