"""Makes one thing of a call and its results, from the records of one file, by the agent's table.

A call comes when its result is there, or at the file's end as one that is open. At most OPEN_CALLS are held.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import msgspec

from collector.lessons.instructions import marked
from collector.recognise.readers import Around, Reader, as_text, present
from collector.recognise.sources import Condition, holds
from collector.times import local_ns, time_of
from collector.transcripts.files import parsed
from collector.transcripts.repository import repository_of, tidy
from collector.transcripts.tables import Agent, Read

OPEN_CALLS = 512
LARGE = 128 << 10  # of a record of which long texts are cut before it is held
HELD_CHARS = 48 << 10
TEXTS = (
    "session", "version", "branch", "turn", "subagent", "agent", "model", "provider", "entrypoint", "parent", "service",
    "task", "success",
)  # fmt: skip
Turns = Callable[[str], frozenset[str]]


class Plain:
    """What keys of tables are read from: a record's values by name."""

    __slots__ = ("attributes", "body", "name")

    def __init__(self, attributes: dict[str, Any]) -> None:
        self.attributes = attributes
        self.name, self.body = "", None


@dataclass(slots=True)
class Joined:
    """One call with its results, or one request: values by the names that tables use, and where it was found."""

    operation: str
    id: str
    place: int
    context: dict[str, Any]
    parts: dict[str, Any]
    began_ns: int
    time_ns: int
    number: int = 0  # of the calls in this file that have this id
    done: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it is not known how the call ended."""
        return self.operation == "tool" and not self.done


@dataclass(slots=True)
class Told:
    """What was counted while files were read."""

    records: int = 0
    repeated: int = 0
    broken: Counter[str] = field(default_factory=Counter)  # what could not be read, by the agent's version
    unknown: Counter[tuple[str, str]] = field(default_factory=Counter)  # agent's version, kind of record

    @property
    def unreadable(self) -> int:
        """Lines, documents and rows that could not be read."""
        return self.broken.total()


class Joiner:
    """Reads the records of one file, in their order."""

    def __init__(self, agent: Agent, told: Told, turns_of: Turns, context: dict[str, Any] | None = None) -> None:
        """`context` is what records before the first one said; `turns_of` gives the turns of another session."""
        self._agent = agent
        self._told = told
        self._turns_of = turns_of
        self.context: dict[str, Any] = {"service": agent.service, **(context or {})}
        self._around = Around({}, agent.id)
        self._open: dict[tuple[str, str], Joined] = {}
        self._requests: dict[str, Joined] = {}
        self._copied: frozenset[str] | None = None
        self._ids: Counter[tuple[str, str]] = Counter()  # of an agent with copies
        self.turns: set[str] = set()

    @property
    def is_settled(self) -> bool:
        """Whether nothing waits for a later record."""
        return not self._open

    def take(self, place: int, size: int, record: dict[str, Any]) -> Iterator[Joined]:
        """What is complete with this record."""
        self._told.records += 1
        at, agent = Plain(record), self._agent
        kind = "/".join(one if isinstance(one := key(at, self._around), str) else "" for key in agent.kind)
        rows = agent.rows(kind)
        if not rows:
            if not agent.knows(kind):
                self._told.unknown[str(self.context.get("version") or "")[:40], kind[:80]] += 1
            return
        general = False
        for row in rows:
            if row.where and not self._fit(row.where, at):
                continue
            if not general:
                general = True
                self._note(agent.context, at)
            if row.tells == "context":
                self._learn(row, at)
            elif not self._is_copy(record, at):
                yield from self._told_by(row, place, size, record, at)

    def end(self) -> Iterator[Joined]:
        """What is left at the file's end: requests, calls with a result, and those that are open."""
        yield from self._requests.values()
        self._requests.clear()
        yield from self._open.values()
        self._open.clear()

    def _fit(self, conditions: Iterable[Condition], at: Plain) -> bool:
        return all(holds(one.wanted, one.read(at, self._around)) for one in conditions)

    def _first(self, keys: Iterable[Reader], at: Plain) -> Any:
        for key in keys:
            if present(value := key(at, self._around)):
                return value
        return None

    def _note(self, fields: Iterable[tuple[str, tuple[Reader, ...]]], at: Plain) -> None:
        for name, keys in fields:
            if (value := self._first(keys, at)) is None:
                continue
            if name == "cwd" and isinstance(value, str):
                self.context["repository"] = repository_of(value)
            elif name == "instructions":
                self.context["lessons"] = _lessons(value, self.context.get("lessons", ""))
            elif name == "project" and isinstance(value, str):
                self.context["repository"] = tidy(value)
            elif name in TEXTS:
                self.context[name] = (as_text(value) or "")[:1000]
            else:
                self.context[name] = value

    def _learn(self, row: Read, at: Plain) -> None:
        """What a record says of the session; a row that is `first` counts once a file: later ones are replayed."""
        if row.first:
            if self.context.get("_first"):
                return
            self.context["_first"] = True
        self._note(row.fields, at)
        if row.first and (parent := self.context.get("copied_from")):
            self._copied = self._turns_of(str(parent)) or None
            self.context.pop("turn", None)

    def _is_copy(self, record: dict[str, Any], at: Plain) -> bool:
        """Whether a forked session repeats a record of the one that it came from: until its first turn of its own."""
        turn = str(self.context.get("turn") or "")
        if self._copied is None:
            self.turns.add(turn)
            return False
        if turn and turn not in self._copied:
            self._copied = None
            self.turns.add(turn)
            return False
        self._told.repeated += 1
        return True

    def _told_by(self, row: Read, place: int, size: int, record: dict[str, Any], at: Plain) -> Iterator[Joined]:
        for item in _items(row, record):
            inside = at if item is record else Plain(item)
            if row.item and not self._fit(row.item, inside):
                continue
            if row.fields:
                self._note(row.fields, inside if row.each else at)
            time_ns = self._time_ns()
            name = as_text(self._first(row.ids, inside)) or ""
            held = slim(item) if size > LARGE else item
            outer = held if item is record else slim(record) if size > LARGE else record
            if row.tells == "call":
                yield from self._call(row, name, place, held, outer, time_ns)
            elif row.tells == "result":
                yield from self._result(row, name, place, held, outer, time_ns, inside)
            elif row.tells == "request":
                yield from self._request(row, name, place, held, time_ns)
            elif row.tells == "end":
                yield from self._ended(row, held, time_ns)

    def _time_ns(self) -> int:
        told = self.context.get("time")
        return local_ns(told) if self._agent.local_times and isinstance(told, str) else time_of(told)

    def _key(self, name: str) -> tuple[str, str]:
        return str(self.context.get("session") or ""), name

    def _joined(self, operation: str, name: str, place: int, parts: dict[str, Any], time_ns: int) -> Joined:
        return Joined(operation, name, place, self.context.copy(), parts, time_ns, time_ns)

    def _call(
        self, row: Read, name: str, place: int, item: dict[str, Any], record: dict[str, Any], time_ns: int
    ) -> Iterator[Joined]:
        key = self._key(name or f"@{place}.{len(self._open)}")
        if before := self._open.pop(key, None):
            if before.parts.get(row.name, item) == item:  # written again in full, or told in another way too
                before.parts[row.name] = item
                self._open[key] = before
                return
            if not row.open:  # else it was written again with its result
                yield before
        joined = self._joined("tool", name, place, {row.name: item, "asked": record}, time_ns)
        if before and row.open:
            joined.place, joined.began_ns = before.place, before.began_ns
        if self._agent.copies:
            self._ids[key] += 1
            joined.number = self._ids[key]
        if row.open and self._first(row.open, Plain(item)) is None:  # such a record has the result too
            joined.parts["result"], joined.done = item, True
            yield joined
            return
        self._open[key] = joined
        if len(self._open) > OPEN_CALLS:
            yield self._open.pop(next(iter(self._open)))

    def _result(
        self, row: Read, name: str, place: int, item: dict[str, Any], record: dict[str, Any], time_ns: int, at: Plain
    ) -> Iterator[Joined]:
        key = self._key(name)
        joined = self._open.get(key)
        if joined is None:
            return
        if row.open and self._first(row.open, at) is not None:
            joined.parts["running"] = item
            return
        joined.parts.setdefault(row.name, item)
        joined.parts.setdefault("answered", record)
        joined.done = True
        joined.time_ns = max(joined.time_ns, time_ns)
        if not self._agent.several:
            yield self._open.pop(key)

    def _request(self, row: Read, name: str, place: int, item: dict[str, Any], time_ns: int) -> Iterator[Joined]:
        """A request's records are written with its growing counts: the last one of an id counts."""
        before = self._requests.get(name) if name else None
        if before is not None:
            before.parts[row.name] = item
            before.time_ns = max(before.time_ns, time_ns)
            return
        yield from self._requests.values()
        self._requests.clear()
        joined = self._joined("model", name, place, {row.name: item}, time_ns)
        if name:
            self._requests[name] = joined
        else:
            yield joined

    def _ended(self, row: Read, item: dict[str, Any], time_ns: int) -> Iterator[Joined]:
        """A turn that ended: its open calls ended with it."""
        for key in [key for key, one in self._open.items() if one.is_open]:
            joined = self._open.pop(key)
            joined.parts[row.name], joined.done = item, True
            joined.time_ns = max(joined.time_ns, time_ns)
            yield joined


def _lessons(value: Any, known: str) -> str:
    """The ids of lessons of Misstep in what an agent loaded as instructions; "" for instructions without any."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return " ".join(sorted({*known.split(), *marked(text)}))


def _items(row: Read, record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What a row reads of a record: the record itself, or the items of a list in it."""
    items = spread(record, row.each) if row.each else [record]
    if row.next:
        items = [{**one, "next": after} for one, after in pairwise([*items, {}]) if isinstance(one, dict)]
    for item in items:
        if isinstance(item, dict):
            yield {row.below: item} if row.below else item


def spread(value: Any, path: tuple[str, ...]) -> list[Any]:
    """The items of the list at a path, in which `*` stands for each item; of a map, its values with their `key`. Texts
    on the way are JSON.
    """
    for place, name in enumerate(path):
        if isinstance(value, str):
            value = parsed(value.encode("utf-8", "replace"))
        if name == "*":
            return [item for one in value for item in spread(one, path[place + 1 :])] if isinstance(value, list) else []
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, str):
        value = parsed(value.encode("utf-8", "replace"))
    if isinstance(value, dict):
        return [{"key": key, **one} for key, one in value.items() if isinstance(one, dict)]
    return value if isinstance(value, list) else []


def slim(value: Any, chars: int = HELD_CHARS) -> Any:
    """The value with its long texts cut in the middle."""
    if isinstance(value, str):
        if len(value) <= chars:
            return value
        return f"{value[: chars * 3 // 4]}\n[{len(value)} characters]\n{value[-chars // 4 :]}"
    if isinstance(value, dict):
        return {key: slim(one, chars) for key, one in value.items()}
    if isinstance(value, list):
        return [slim(one, chars) for one in value[:1000]]
    return value
