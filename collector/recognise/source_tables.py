"""Loads `schemas/sources/*.toml`: which records are reports, which fields they have, where the outcome can be read.

Tables are compiled once into `Row`s. `schemas/sources/README.md` describes the format;
`collector/recognise/source_checks.py` reports every mistake in a table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, partial
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from collector.recognise.readers import glob, reader
from collector.recognise.readings import (
    SPOKEN,
    Wanted,
    before,
    is_standard,
    listed,
    reading,
    same,
    words_and_globs,
)
from collector.recognise.source_checks import EVIDENCE_LISTS, mistakes_in
from collector.recognise.sources import Condition, Row, Source, Sources
from collector.tables import TableError, load_toml, schemas

FRAMEWORK = 40  # the least `order` of a table of frameworks and conventions, whose spans may speak several vocabularies
STANDARD_COLUMNS = tuple(dict.fromkeys(column for columns in SPOKEN.values() for column in columns))


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
    their keys, what frameworks return for failures, and the globs of content and noise.
    """
    words: dict[str, Any] = {"fields": {}, "outcome": {"error_output": []}, "content": [], "noise": []}
    for table in sorted(tables.values(), key=lambda one: -one.get("order", 50)):
        if not table.get("vocabulary"):
            continue
        for part, names in (("fields", STANDARD_COLUMNS), ("outcome", EVIDENCE_LISTS)):
            for name in names:
                keys = filter(is_standard, listed(table.get(part, {}).get(name) or []))
                words[part][name] = list(dict.fromkeys([*words[part].get(name, ()), *keys]))
        words["outcome"]["error_output"] += table.get("outcome", {}).get("error_output", ())
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
        markers=words_and_globs(tuple(match.get("attributes", ()))),
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
