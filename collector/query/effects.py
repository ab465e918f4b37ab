"""Which sessions could make the mistake of a lesson, and what each did: what its effect is measured on."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from collector.engine import Reads
from collector.lessons.call import Call, Failure
from collector.lessons.candidates import filled, of_kind, shape_of, shape_of_command
from collector.lessons.effect import Effect, Measured, effect
from collector.lessons.groups import Seen
from collector.lessons.kinds import Kind, Lessons, lessons
from collector.lessons.shapes import path
from collector.query.filters import Selection
from collector.query.noted import Row
from collector.query.retries import relation
from collector.query.statement import load
from collector.times import DAY

BEFORE = 60 * DAY
REPLACES = ("command", "path", "tool")  # rules of what worked next that name another call
NOTHING = r"[^\x00-\x{10FFFF}]"  # matches no text


def effects(store: Reads, selection: Selection, marks: Mapping[str, Row], timeout_s: float) -> dict[str, Effect]:
    """What became of each adopted lesson, by id; of the selection, its filters and its end count."""
    table = lessons()
    kinds = {kind.kind: kind for kind in table.kinds}
    known = {name: mark for name, mark in marks.items() if mark["kind"] in kinds}
    adopted = {name: mark for name, mark in known.items() if mark["state"] == "adopted"}
    if not adopted:
        return {}
    since = min(mark["since_ns"] for mark in adopted.values()) - BEFORE
    asked = replace(selection.about_call(), start_ns=max(0, since))
    seen = _Seen(store, asked, [*known.values()], table, timeout_s)
    return {name: _effect(seen, kinds[mark["kind"]], mark, known, selection.end_ns) for name, mark in adopted.items()}


def _effect(seen: _Seen, kind: Kind, mark: Row, marks: Mapping[str, Row], now_ns: int) -> Effect:
    alike = [one for one in marks.values() if one["kind"] == mark["kind"] and one["state"] == "snoozed"]
    controls = [seen.sessions(kind, one, one["scope"]) for one in alike]
    taken = {one["scope"] for one in marks.values() if one["shape"] == mark["shape"] and one["kind"] == mark["kind"]}
    others = [seen.sessions(kind, mark, scope) for scope in seen.scopes if scope not in taken | {mark["scope"]}]
    others = [sessions for sessions in others if any(one.failed for one in sessions)]
    firm = filled(kind.firm, mark["shape"], mark["tool"])
    one = Measured(
        kind.kind, mark["shape"], mark["scope"], mark["since_ns"], kind.sessions, _next(kind, mark), firm
    )  # fmt: skip
    return effect(one, seen.sessions(kind, mark, mark["scope"]), controls + others, bool(others), now_ns)


def _next(kind: Kind, mark: Row) -> str:
    return (mark["next"] or "") if kind.next in REPLACES else ""


class _Seen:
    """The sessions and calls that marks may be about."""

    def __init__(
        self, store: Reads, selection: Selection, marks: Sequence[Row], table: Lessons, timeout_s: float
    ) -> None:
        params = selection.params()
        of = {"source": relation(selection), "where": selection.where()}
        sql = load("lesson_sessions").format(**of)
        rows = store.rows(sql, params, timeout_s=timeout_s)
        self._table = table
        self._sessions: dict[str, list[Row]] = {}
        for row in rows:
            self._sessions.setdefault(row["scope"], []).append(row)
        sql = load("lesson_calls").format(**of)
        self._calls: dict[tuple[str, str | None, str], list[Row]] = {}
        for row in store.rows(sql, params | _lists(marks, table), timeout_s=timeout_s):
            self._calls.setdefault((row["scope"], row["service"], row["session"]), []).append(row)

    @property
    def scopes(self) -> list[str]:
        return sorted(self._sessions)

    def sessions(self, kind: Kind, mark: Row, scope: str) -> list[Seen]:
        """Those of a scope in which the mistake could be made, by agents that made it."""
        about = _About(kind, mark, scope, self._table)
        told = [(row, about.read(self._of(row))) for row in self._sessions.get(scope, ())]
        agents = {row["source"] for row, read in told if read.failed}
        return [
            _seen(row, read, mark["lesson"])
            for row, read in told
            if (not agents or row["source"] in agents) and about.could(row, read)
        ]

    def _of(self, row: Row) -> list[Row]:
        return self._calls.get((row["scope"], row["service"], row["session"]), [])


class _Read:
    """What a session did about a lesson. Times are of the first call, 0 if there was none."""

    failed = tried = near = tried_ns = advised_ns = 0


class _About:
    """Tells the calls that a lesson is about."""

    def __init__(self, kind: Kind, mark: Row, scope: str, table: Lessons) -> None:
        self._kind, self._scope, self._table = kind, scope, table
        self._shape: str = mark["shape"]
        self._tool: str = mark["tool"]
        self._next = _next(kind, mark)
        self._program = _program(self._shape, table)

    def read(self, calls: Iterable[Row]) -> _Read:
        """Of the calls of one session."""
        found = _Read()
        for row in calls:
            call = Call(row["tool"] or "", row["outcome"], row["tool_kind"], row["target"])
            if self._failed(row, call):
                found.failed += row["calls"]
            if tried := self._failed(row, call) or self._is(call, row, self._shape):
                found.tried += row["calls"]
                found.tried_ns = min(found.tried_ns or row["first_ns"], row["first_ns"])
            advised = bool(self._next) and self._is(call, row, self._next)
            if advised and row["outcome"] == "ok":
                found.advised_ns = min(found.advised_ns or row["first_ns"], row["first_ns"])
            if tried or advised or self._near(call):
                found.near += row["calls"]
        return found

    def could(self, row: Row, read: _Read) -> bool:
        """Whether a session had the opportunity: it used what the lesson names, or, where that is not known, anything
        of its kind.
        """
        match self._kind.of:
            case "command":
                named = self._next or len(self._shape.split()) > 1
                return read.near > 0 if named else row["commands"] > 0
            case "path":
                return read.near > 0 if self._next or self._kind.next != "path" else row["calls"] > 0
            case "host":
                return read.failed > 0 or row["commands"] > 0
            case "server":
                return True
        return read.near > 0

    def _failed(self, row: Row, call: Call) -> bool:
        one = Failure(
            0, row["first_ns"], self._scope, row["session"], call, row["error_class"],
            message=row["message"], mcp_server=row["mcp_server"],
        )  # fmt: skip
        if not of_kind(self._kind, one) or (self._kind.by_tool and call.tool != self._tool):
            return False
        return shape_of(self._kind, one, self._table) == self._shape

    def _is(self, call: Call, row: Row, shape: str) -> bool:
        """Whether a call, however it ended, is of a shape."""
        match self._kind.of:
            case "command":
                return shape_of_command(call, self._table) == shape
            case "path":
                return call.tool_kind != "command" and path(call.target or "", self._scope) == shape
            case "server":
                return bool(row["mcp_server"] == shape)
            case "parameter":
                return call.tool == self._tool
            case "host":
                return False
        return call.tool == shape

    def _near(self, call: Call) -> bool:
        """Whether a command has the same goal or program."""
        if self._kind.of != "command" or not (shape := shape_of_command(call, self._table)):
            return False
        table = self._table
        return table.commands.same_goal(shape, self._shape) or _program(shape, table) == self._program


def _program(shape: str, table: Lessons) -> str:
    """The program of a command with sub-commands; of others, the command."""
    first = shape.split()[0] if shape else ""
    return first if first in table.commands.with_sub_command else shape


def _seen(row: Row, read: _Read, lesson: str) -> Seen:
    followed = bool(read.advised_ns) and (not read.tried_ns or read.advised_ns < read.tried_ns)
    return Seen(
        row["first_ns"], row["last_ns"], read.failed, read.tried, followed, row["model"], row["version"],
        row["imported"], None if row["loaded"] is None else lesson in row["loaded"].split(), row["calls"],
        row["errors"], row["tokens"], row["cost_usd"],
    )  # fmt: skip


def _lists(marks: Sequence[Row], table: Lessons) -> dict[str, object]:
    """By what calls are chosen: names of tools and servers, and patterns."""
    kinds = {kind.kind: kind for kind in table.kinds}
    chosen: defaultdict[str, set[str]] = defaultdict(set)
    for mark in marks:
        kind = kinds[mark["kind"]]
        chosen["tool" if kind.of == "parameter" else kind.of].update(filter(None, _names(kind, mark)))
    paths = chosen["path"]
    return {
        "tools": sorted(chosen["tool"]),
        "servers": sorted(chosen["server"]),
        "paths": f"(?:^|/)(?:{_either(paths)})$" if paths else NOTHING,
        "hosts": _either(chosen["host"]) or NOTHING,
        "programs": _either(_programs(chosen["command"], table)) or NOTHING,
    }


def _names(kind: Kind, mark: Row) -> tuple[str | None, ...]:
    """What calls name that a mark may be about."""
    match kind.of:
        case "tool" | "parameter":
            return mark["tool"], mark["shape"], mark["next"]
        case "command":
            return mark["shape"], mark["next"]
        case "path":
            return mark["shape"], _next(kind, mark)
    return (mark["shape"],)


def _programs(commands: Iterable[str], table: Lessons) -> set[str]:
    """The first and the last word of each command, and the words that mean the same."""
    words = {word for shape in commands for word in (shape.split()[0], shape.split()[-1])}
    return words.union(*(alike for alike in table.commands.alike if alike & words))


def _either(words: Iterable[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words))
