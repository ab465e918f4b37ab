"""Loads `schemas/transcripts/*.toml`: where an agent keeps its sessions, and which of their records tell of a call.

A table is also the table of a source (`schemas/sources/README.md`): what a call and its result say is read, settled and
tested by the code that reads telemetry. `schemas/transcripts/README.md` describes what is added to it here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, NamedTuple

from collector.recognise.readers import Reader, is_attribute, reader
from collector.recognise.readings import Wanted, listed, words_and_globs
from collector.recognise.source_checks import EVIDENCE_PATTERNS, mistakes_in
from collector.recognise.source_tables import source_of, wanted
from collector.recognise.sources import Condition, Source, Sources
from collector.table_checks import BOOL, INT, ROWS, TABLE, TEXT, TEXTS, missing_fields, wrong_fields, wrong_words
from collector.tables import TableError, load_toml, schemas

TELLS = ("call", "result", "end", "request", "context", "copy")
# Of a file: its name, or that of its folder where the name says what all such files are.
NAMED = r"([^/]+?)(?:/(?:messages|conversation|transcript|history|session|events|wire|chat|log))?\.jsonl?$"
FORMS = ("jsonl", "json", "sqlite", "mutations", "folder", "zip", "markdown", "parquet", "csv")
CONTEXT = ("session", "parent", "subagent", "agent", "model", "provider", "turn", "version", "service", "cwd", "branch",
           "entrypoint", "time", "copied_from", "call_time", "project", "task", "success", "instructions")  # fmt: skip
OWN_FIELDS = {
    "like": TEXT,
    "any_agent": BOOL,
    "telemetry": TEXT,
    "service": TEXT,
    "keeps_days": INT,
    "patterns": TEXT,
    "unique_ids": BOOL,
    "copies": BOOL,
    "local_times": BOOL,
    "private": TEXTS,
    "quotes": TEXTS,
    "stores": ROWS,
    "kind": TEXTS,
    "ignored": TEXTS,
    "context": TABLE,
    "reads": ROWS,
}
STORE_FIELDS = {
    "form": TEXT, "folders": TEXTS, "files": TEXTS, "not": TEXTS, "records": TEXT, "query": TEXT, "tables": TEXTS,
    "session": TEXT, "root": TEXTS, "members": TEXT, "below": TEXT, "columns": TEXTS, "listed": TEXT,
}  # fmt: skip
READ_FIELDS = {
    "tells": TEXT, "kind": TEXTS, "where": TABLE, "each": TEXT, "item": TABLE, "id": TEXTS, "as": TEXT, "open": TEXTS,
    "first": BOOL, "fields": TABLE, "next": BOOL, "below": TEXT,
}  # fmt: skip
# What every table reads in the same way: the reader of files puts it there.
FIELDS = {
    "session": ["context#session"],
    "subagent": ["context#subagent"],
    "agent": ["context#agent"],
    "model": ["context#model"],
    "provider": ["context#provider"],
    "turn": ["context#turn"],
    "repository": ["context#repository"],
    "service": ["context#service"],
    "service_version": ["context#version"],
}
# A call that no result was found of: nothing is known of how it ended.
OPEN = {"signal": "event", "operation": "tool", "where": {"open": "true"}, "outcome": "unknown",
        "evidence": {"flags": [], "failed": [], "says": [], "errors": [], "exits": [], "outputs": []}}  # fmt: skip


class Store(NamedTuple):
    """Where files of one form are: folders and globs below them; what a file's records are."""

    form: str
    folders: tuple[str, ...]
    files: tuple[str, ...]
    without: tuple[str, ...]
    records: tuple[str, ...]  # the path of a document's list of records
    query: str  # of a database
    session: re.Pattern[str] | None  # its group is the session's id in the path of a file
    members: str  # of an archive: names of the documents in it, as a glob
    root: tuple[str, ...]  # files beside one, `name` or `name#key` of a JSON object, that hold the folder of its work
    below: str  # a name under which each record stands
    columns: tuple[str, ...]  # of an export that is a table
    listed: str  # a file of the agent's, `path#list.key`, that names further folders


@dataclass(frozen=True, slots=True)
class Read:
    """A row of `reads`: a kind of record, and what it tells."""

    tells: str
    kinds: Wanted | None
    where: tuple[Condition, ...]
    each: tuple[str, ...]
    item: tuple[Condition, ...]
    ids: tuple[Reader, ...]
    name: str
    open: tuple[Reader, ...]
    first: bool
    next: bool  # an item has the item after it as `next`
    below: str  # a name under which the item stands, where it is the record itself in another version
    fields: tuple[tuple[str, tuple[Reader, ...]], ...]


@dataclass(slots=True)
class Agent:
    """One table."""

    id: str
    title: str
    any_agent: bool  # of a form that agents share: read where a file is named that no other table takes
    form: str  # the table of that form, also of an agent that is like it
    like: str  # the table that this one repeats, but for what it says itself
    telemetry: str  # the source that its telemetry is recognised as
    service: str
    keeps_days: int
    unique_ids: bool
    copies: bool  # a session stands in several of its stores, with other times
    local_times: bool  # times without a zone are of the machine that wrote them
    private: Wanted
    quotes: tuple[re.Pattern[str], ...]
    stores: tuple[Store, ...]
    kind: tuple[Reader, ...]
    ignored: Wanted
    context: tuple[tuple[str, tuple[Reader, ...]], ...]
    reads: tuple[Read, ...]
    several: bool  # a call may have more than one result
    source: Source
    sources: Sources
    _by_kind: dict[str, tuple[Read, ...]] = field(default_factory=dict)

    def rows(self, kind: str) -> tuple[Read, ...]:
        """The rows for records of a kind."""
        found = self._by_kind.get(kind)
        if found is None:
            found = tuple(one for one in self.reads if one.kinds is None or one.kinds.has(kind))
            if len(self._by_kind) < 1000:
                self._by_kind[kind] = found
        return found

    def knows(self, kind: str) -> bool:
        """Whether records of this kind are known, be it as such that tell of no call."""
        return self.ignored.has(kind) or any(one.kinds is None or one.kinds.has(kind) for one in self.reads)


@cache
def load_agents(*folders: Path) -> dict[str, Agent]:
    """The built-in tables, then those in `transcripts/` of these folders; a later one replaces one of the same id.

    Raises TableError with every mistake of the first file that has any.
    """
    tables: dict[str, dict[str, Any]] = {}
    places: dict[str, str] = {}
    for folder in (schemas() / "transcripts", *(one / "transcripts" for one in folders)):
        for path in _tables(folder):
            name = path.name.removesuffix(".toml")
            tables[name], places[name] = load_toml(path), str(path)
    found = {}
    for name, table in tables.items():
        whole = _inherited(table, tables)
        if mistakes := list(_mistakes(whole, name)):
            raise TableError(places[name], mistakes)
        found[name] = _agent(whole, _form(table, tables))
    return found


def _inherited(table: dict[str, Any], tables: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """The table with what it does not say itself, also of its stores, as in the one that it is like."""
    if (other := tables.get(table.get("like", ""))) is None:
        return table
    rows = [{**row, "counter_examples": []} for row in other["records"]]
    stores = [{**other["stores"][0], **store} for store in table.get("stores", other["stores"])]
    return {**other, "any_agent": False, "records": rows, **table, "stores": stores}


def _form(table: Mapping[str, Any], tables: Mapping[str, dict[str, Any]]) -> str:
    """The id of the form that agents share, if the table is that of one or like it."""
    other = tables.get(table.get("like", ""), table)
    return str(other["id"]) if other.get("any_agent") else ""


def _tables(folder: Traversable | Path) -> list[Any]:
    if not folder.is_dir():
        return []
    return sorted((one for one in folder.iterdir() if one.name.endswith(".toml")), key=lambda one: one.name)


def _mistakes(table: Mapping[str, Any], name: str) -> Iterator[str]:
    own = {key: value for key, value in table.items() if key in OWN_FIELDS}
    wrong = list(wrong_fields(own, OWN_FIELDS, ""))
    yield from wrong
    yield from mistakes_in({key: value for key, value in table.items() if key not in OWN_FIELDS}, name)
    yield from missing_fields(table, ("service", "stores", "reads", "records"), "")
    if wrong:
        return
    yield from wrong_words(table.get("context", {}), CONTEXT, "context")
    for number, store in enumerate(table.get("stores", ()), 1):
        place = f"stores {number}: "
        yield from wrong_fields(store, STORE_FIELDS, place)
        yield from wrong_words([store.get("form", "jsonl")], FORMS, f"{place}form")
        if re.search(r"select\s+(distinct\s+)?(\w+\.)?\*", store.get("query", ""), re.IGNORECASE):
            yield f"{place}query: must name its columns: other people's tables hold what must not be read"
    for number, row in enumerate(table.get("reads", ()), 1):
        place = f"reads {number}: "
        yield from wrong_fields(row, READ_FIELDS, place)
        yield from wrong_words([row.get("tells")], TELLS, f"{place}tells")
        yield from wrong_words(row.get("fields", {}), CONTEXT, f"{place}fields")


def _agent(table: dict[str, Any], form: str) -> Agent:
    source = _source(table)
    reads = tuple(map(_read, table["reads"]))
    names = {one.name for one in reads if one.tells == "result"}
    return Agent(
        id=table["id"],
        title=table["title"],
        any_agent=table.get("any_agent", False),
        form=form,
        like=table.get("like", ""),
        telemetry=table.get("telemetry", table["id"]),
        service=table["service"],
        keeps_days=table.get("keeps_days", 0),
        unique_ids=table.get("unique_ids", False),
        copies=table.get("copies", False),
        local_times=table.get("local_times", False),
        private=words_and_globs(tuple(table.get("private", ()))),
        quotes=tuple(re.compile(one) for one in table.get("quotes", ())),
        stores=tuple(map(_store, table["stores"])),
        kind=_readers(table.get("kind", ["type"])),
        ignored=words_and_globs(tuple(table.get("ignored", ()))),
        context=_fields(table.get("context", {})),
        reads=reads,
        several=len(names) > 1 or any(one.open for one in reads),
        source=source,
        sources=Sources((source,)),
    )


def _source(table: dict[str, Any]) -> Source:
    """The table as that of a source, which claims the scope of its name."""
    outcome = dict(table.get("outcome", {}))
    if patterns := table.get("patterns"):
        other = load_toml(schemas() / "sources" / f"{patterns}.toml").get("outcome", {})
        for name in EVIDENCE_PATTERNS:
            if name in other:
                outcome[name] = [*outcome.get(name, ()), *other[name]]
    whole = {key: value for key, value in table.items() if key not in OWN_FIELDS}
    whole["match"] = {"routes": [table["id"]]}
    whole["outcome"] = outcome
    whole["fields"] = {**FIELDS, **table.get("fields", {})}
    whole["records"] = [OPEN, *table["records"]]
    return source_of(whole)


def _store(row: Mapping[str, Any]) -> Store:
    return Store(
        row.get("form", "jsonl"),
        tuple(row.get("folders", ())),
        tuple(row.get("files", ())),
        tuple(row.get("not", ())),
        tuple(filter(None, row.get("records", "").split("."))),
        row.get("query", ""),
        re.compile(NAMED if row["session"] == "name" else row["session"]) if "session" in row else None,
        row.get("members", ""),
        tuple(row.get("root", ())),
        row.get("below", ""),
        tuple(row.get("columns", ())),
        row.get("listed", ""),
    )


def _read(row: Mapping[str, Any]) -> Read:
    return Read(
        tells=row["tells"],
        kinds=words_and_globs(tuple(row["kind"])) if "kind" in row else None,
        where=_conditions(row.get("where", {})),
        each=tuple(filter(None, row.get("each", "").split("."))),
        item=_conditions(row.get("item", {})),
        ids=_readers(row.get("id", ())),
        name=row.get("as", "result" if row["tells"] == "result" else row["tells"]),
        open=_readers(row.get("open", ())),
        first=row.get("first", False),
        next=row.get("next", False),
        below=row.get("below", ""),
        fields=_fields(row.get("fields", {})),
    )


def _conditions(rows: Mapping[str, Any]) -> tuple[Condition, ...]:
    return tuple(Condition(key, reader(key), wanted(value)) for key, value in rows.items())


def _fields(fields: Mapping[str, str | list[str]]) -> tuple[tuple[str, tuple[Reader, ...]], ...]:
    return tuple((name, _readers(listed(keys))) for name, keys in fields.items())


def _readers(keys: Iterable[str] | Sequence[str]) -> tuple[Reader, ...]:
    return tuple(map(_reader, keys))


def _reader(key: str) -> Reader:
    """A reader; that of a plain attribute is called millions of times."""
    return (lambda record, around: record.attributes.get(key)) if is_attribute(key) else reader(key)
