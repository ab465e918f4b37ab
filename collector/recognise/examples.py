"""Runs the examples of source tables, as `schemas/sources/README.md` describes them.

Tests do this for the built-in tables; a user's own tables are checked whenever they are loaded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from collector.decode.record import Record, Scope, SpanEvent
from collector.recognise.match import fitting
from collector.recognise.readers import Around
from collector.recognise.recognise import recognise
from collector.recognise.sources import Plan, Row, Source, Sources
from collector.report import Report
from collector.tables import TableError

AROUND = ("resource", "scope", "scope_version", "events")  # of an example; the rest is the record's
SHOWN = 200  # characters of an example in a message


def check_examples(sources: Sources, folders: Iterable[Path]) -> None:
    """Raises TableError with every example of the first table in these folders that does not give what it should."""
    for path in sorted(path for folder in folders for path in folder.glob("*.toml")):
        source = sources.named(path.stem)
        if source is not None and (mistakes := list(wrong_examples(source))):
            raise TableError(path, mistakes)


def wrong_examples(source: Source) -> Iterator[str]:
    """One message for each example that the table does not recognise as it says, and each counter-example that it
    takes.
    """
    for number, row in enumerate(source.rows, 1):
        for text in row.examples:
            if wrong := _wrong(source, row, text):
                yield f"records {number}: examples: {text[:SHOWN]} {wrong}"
        for text in row.counter_examples:
            if _taken(source, row, text):
                yield f"records {number}: counter_examples: {text[:SHOWN]} must not be taken by this row, but is"


def _wrong(source: Source, row: Row, text: str) -> str:
    """What is wrong with the report of an example; "" if nothing is."""
    given, expected = _parts(text)
    reports = _reports(source, row, given)
    if len(reports) != 1:
        return f"must make one report, but makes {len(reports)}"
    wanted = {"operation": row.operation, **expected}
    got = {name: reports[0].get(name) for name in wanted}
    return "" if got == wanted else f"must give {json.dumps(wanted)}, but gives {json.dumps(got, default=str)}"


def _taken(source: Source, row: Row, text: str) -> bool:
    """Whether the row takes a counter-example; if that says what must not come of it, whether that comes of it."""
    given, wrong = _parts(text)
    if wrong:
        return any({name: one.get(name) for name in wrong} == wrong for one in _reports(source, row, given))
    scope = given.get("scope", "")
    around = Around(given.get("resource", {}), scope, version=given.get("scope_version", ""))
    found = fitting(Plan(True, (source,), scope), _record(given, row), around)
    return found is not None and found.row is row


def _parts(text: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The record of an example, and the columns after ` => `."""
    record, _, expected = text.partition(" => ")
    return json.loads(record), json.loads(expected or "{}")


def _reports(source: Source, row: Row, given: Mapping[str, Any]) -> list[Report]:
    """What the table alone makes of the record, in a scope that it claims."""
    resource, scope = given.get("resource", {}), given.get("scope", "")
    version = given.get("scope_version", "")
    sender = resource.get("service.name", ""), scope, version or resource.get("service.version", "")
    alone = Sources((source,), {sender: Plan(True, (source,), scope)})
    return recognise([Scope(resource, scope, version, [_record(given, row)])], alone).reports


def _record(given: Mapping[str, Any], row: Row) -> Record:
    own = {name: value for name, value in given.items() if name not in (*AROUND, "name", "attributes")}
    events = [SpanEvent(one["name"], 0, one.get("attributes", {})) for one in given.get("events", ())]
    signal = sorted(row.signals)[0]
    return Record(signal, given.get("name", ""), dict(given.get("attributes", {})), events=events, **own)
