"""Loads `schemas/sources/*.toml`: which records are reports, which fields they have, where the outcome can be read.

Tables are compiled once into `Row`s. `Sources.plan` selects the rows for a scope, so that most spans are dropped by
their name alone. `schemas/sources/README.md` describes the format; `collector/recognise/source_checks.py` reports every
mistake in a table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from collector.recognise.readers import Reader, glob, is_attribute, present, reader
from collector.recognise.readings import (
    SPOKEN,
    Reading,
    Wanted,
    before,
    is_standard,
    listed,
    reading,
    same,
    words_and_globs,
)
from collector.recognise.source_checks import EVIDENCE_LISTS, mistakes_in
from collector.tables import TableError, load_toml, schemas

T = TypeVar("T")

SHAPE_KEYS, SHAPE_CHARS = 64, 4096  # limits of a set of names that is cached: number and total length
PLANS = 2000  # scopes and names cached, limited because senders may use random names
FRAMEWORK = 40  # the least `order` of a table of frameworks and conventions, whose spans may speak several vocabularies
STANDARD_COLUMNS = tuple(dict.fromkeys(column for columns in SPOKEN.values() for column in columns))
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

    def known(self, scope: str, attributes: Container[str]) -> bool | None:
        """Whether it holds for every record of this scope with these attributes; None if that depends on the record."""
        if self.key == "@scope":
            return holds(self.wanted, scope)
        return None if not is_attribute(self.key) or self.key in attributes else self.wanted is False


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
    markers: frozenset[str]
    routes: frozenset[str]
    rows: tuple[Row, ...]
    moments: bool  # some row is of events of spans

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

    markers: frozenset[str] | None  # a record must have one of these attributes; None: no condition
    rows: tuple[tuple[Row, str], ...]


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
        for markers, rows in self.rows(signal, name):
            if markers is not None and markers.isdisjoint(attributes):
                continue
            for row, captured in rows:
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
            elif source.markers:
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
        free = tuple(source for source in self.sources if source.events or source.markers or source is named)
        return Plan(False, free, scope, named)

    def _beside(self, claimant: Source, scope: str) -> Plan | None:
        if not claimant.ai_sdk:
            return None
        others = [source for source in self.sources if AI_OPERATION in source.markers and source is not claimant]
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


def load_sources(*folders: str | Path | Traversable) -> Sources:
    """The built-in tables, then every *.toml of the folders; a later table replaces an earlier one of the same id.

    Raises TableError with every mistake of the first file that has any.
    """
    tables: dict[str, dict[str, Any]] = {}
    places: dict[str, str] = {}
    for folder in (schemas() / "sources", *folders):
        place = Path(folder) if isinstance(folder, str) else folder
        for path in sorted((one for one in place.iterdir() if one.name.endswith(".toml")), key=lambda one: one.name):
            table = load_toml(path)
            if mistakes := mistakes_in(table, path.name.removesuffix(".toml")):
                raise TableError(str(path), mistakes)
            tables[table["id"]], places[table["id"]] = table, str(path)
    for name, table in tables.items():
        if unknown := [one for one in table.get("extends", ()) if one not in tables]:
            raise TableError(
                places[name], [f"extends: {unknown[0]!r} is not a table; there are {', '.join(sorted(tables))}"]
            )
    standard = _vocabulary(tables)
    found = [source_of(_whole(table, tables), standard) for table in tables.values()]
    return Sources(tuple(sorted(found, key=lambda source: (source.order, source.id))))


def _whole(table: dict[str, Any], tables: dict[str, dict[str, Any]], below: tuple[str, ...] = ()) -> dict[str, Any]:
    """The table with everything inherited from those it extends; its own rows and keys come first."""
    whole = dict(table)
    for name in table.get("extends", ()):
        if name in below:
            raise TableError(table["id"], [f"extends: {name!r} extends itself"])
        other = _whole(tables[name], tables, (*below, table["id"]))
        for part in ("prefixes", "content", "noise", "asks"):
            whole[part] = [*whole.get(part, ()), *other.get(part, ())]
        # examples are tested with the table that defines the row
        inherited = [{**row, "examples": [], "counter_examples": []} for row in other.get("records", ())]
        whole["records"] = [*whole.get("records", ()), *inherited]
        whole["fields"] = before(whole.get("fields", {}), other.get("fields", {}))
        whole["outcome"] = before(whole.get("outcome", {}), other.get("outcome", {}))
        whole["coverage"] = {**other.get("coverage", {}), **whole.get("coverage", {})}
        whole.setdefault("told", other.get("told", "amend"))
    return whole


def _vocabulary(tables: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """What the conventions' tables say of attributes that they alone define, in their order: columns and evidence by
    their keys, and the globs of content and noise.
    """
    words: dict[str, Any] = {"fields": {}, "outcome": {}, "content": [], "noise": []}
    for table in sorted(tables.values(), key=lambda one: -one.get("order", 50)):
        if not table.get("vocabulary"):
            continue
        for part, names in (("fields", STANDARD_COLUMNS), ("outcome", EVIDENCE_LISTS)):
            for name in names:
                keys = filter(is_standard, listed(table.get(part, {}).get(name) or []))
                words[part][name] = list(dict.fromkeys([*words[part].get(name, ()), *keys]))
        words["content"] += table.get("content", ())
        words["noise"] += table.get("noise", ())
    return words


def source_of(table: dict[str, Any], standard: dict[str, Any] | None = None) -> Source:
    """A table compiled; `standard` is what the conventions' tables say."""
    match = table.get("match", {})
    records = table.get("records", ())
    sole = any("only call" in row.get("keys", ()) for row in records)
    spoken = standard or {} if table.get("order", 50) >= FRAMEWORK else {}
    rows = tuple(_row(table, row, spoken, sole=sole) for row in records)
    return Source(
        id=table["id"],
        title=table["title"],
        order=table.get("order", 50),
        reports_ok=table.get("reports_ok", True),
        counter=tuple(table.get("counter", ())),
        coverage=table.get("coverage", {}),
        extends=frozenset(table.get("extends", ())),
        prefixes=tuple(table.get("prefixes", ())),
        ai_sdk=table.get("ai_sdk", True),
        services=glob(match.get("service", ())),
        within=glob(match.get("within", ())),
        scopes=glob(match.get("scope", ())),
        versions=glob(match.get("version", ())),
        events=glob(match.get("events", ())),
        markers=frozenset(match.get("attributes", ())),
        routes=frozenset(match.get("routes", ())),
        rows=rows,
        moments=any("moment" in row.signals for row in rows),
    )


def _row(table: dict[str, Any], row: dict[str, Any], standard: dict[str, Any], *, sole: bool) -> Row:
    return Row(
        source=table["id"],
        related=same(frozenset((table["id"], *table.get("extends", ())))),
        signals=same(frozenset(listed(row["signal"]))),
        names=same(tuple(_name_pattern(name) for name in listed(row.get("name", [])))),
        where=same(tuple(Condition(key, reader(key), wanted(value)) for key, value in row.get("where", {}).items())),
        operation=row.get("operation", ""),
        drop=row.get("drop", "noise"),
        rank=row.get("rank"),
        outcome=row.get("outcome", ""),
        lends=row.get("lends", False),
        sure=row.get("sure", True),
        told=tuple(row.get("told", ())),
        asked=tuple(row.get("asked", ())),
        switch=tuple((name, reader(key)) for name, key in row.get("switch", {}).items()),
        asks=tuple(row.get("asked", table.get("asks", ()))) if row.get("operation") == "model" else (),
        sole=sole,
        told_policy=row.get("told_policy", table.get("told", "amend")),
        disguised=row.get("as") == "log",
        keys=same(frozenset(row.get("keys", ()))),
        twin=tuple(row.get("twin", ())),
        reading=cache(partial(reading, table, row, standard)),
        examples=tuple(row.get("examples", ())),
        counter_examples=tuple(row.get("counter_examples", ())),
    )


def _name_pattern(name: str) -> re.Pattern[str]:
    return re.compile("(.*)".join(re.escape(part) for part in name.split("*")), re.DOTALL)


def wanted(value: Any) -> bool | Wanted:
    """What a condition of a table asks for: presence, or texts and globs of which one must match."""
    if isinstance(value, bool):
        return value
    return words_and_globs(tuple(listed(value)))
