"""Before a call is made: has its like failed here, how often, and what worked next?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from collector.engine import Reads
from collector.engine.duckdb.arrow import arrow_stream
from collector.lessons.call import Call, Failure
from collector.lessons.kinds import lessons
from collector.lessons.next import worked_next
from collector.query.failed_calls import failed_calls, followed
from collector.query.filters import BadParameter, Selection
from collector.query.retries import relation
from collector.query.statement import Row, load

TYPES = {
    "shape": "varchar", "calls": "bigint", "ok": "bigint", "failed": "bigint", "denied": "bigint",
    "sessions": "bigint", "error_class": "varchar", "last_seen": "bigint", "next": "varchar",
    "next_sessions": "bigint", "sentence": "varchar",
}  # fmt: skip
UNQUOTED = re.compile(r"[`\s]+")
RULES = {"command": "command", "path": "path", "tool": "parameters"}


@dataclass(frozen=True, slots=True)
class Like:
    """Calls that count as like one: `wanted` is a condition over events, which `rule` and `shape` narrow further."""

    of: str
    shape: str
    wanted: str
    bound: Mapping[str, object]

    def has(self, call: Call) -> bool:
        """Whether a call that meets the condition has the shape too."""
        if self.of != "command":
            return True
        return call.tool_kind == "command" and lessons().commands.shape(call.target or "") == self.shape


def like(command: str, target: str, tool: str) -> Like:
    """Calls of the same program and sub-command, else on the same target, else of the same tool. Raises BadParameter
    where none of the three is given, or the command has no program.
    """
    if command:
        shape = lessons().commands.shape(command)
        if shape is None:
            raise BadParameter("command", command, "command has no program to look up, such as pytest -q")
        wanted = "tool_kind = 'command' and contains(target, $program)"
        return Like("command", shape, wanted, {"program": shape.split()[-1]})
    if target:
        ends = "target = $on or (tool_kind is distinct from 'command' and ends_with(target, $below))"
        return Like("path", target, ends, {"on": target, "below": "/" + target.lstrip("/")})
    if tool:
        return Like("tool", tool, "tool = $called", {"called": tool})
    raise BadParameter("command", "", "say what is to be checked: command, target or tool")


@dataclass(frozen=True, slots=True)
class Check:
    """The answer: one row."""

    selection: Selection
    like: Like
    limit: int = 1
    times: tuple[str, ...] = ("last_seen",)
    of_kept: bool = False
    of_clock: bool = False

    def rows(self, store: Reads, timeout_s: float = 30) -> list[Row]:
        """How often such calls were made and failed, and what worked next in most sessions."""
        sql = load("tried").format(
            source=relation(self.selection), where=self.selection.where(), wanted=self.like.wanted
        )
        tried = store.rows(sql, {**self.selection.params(), **self.like.bound}, timeout_s=timeout_s)
        found = failed_calls(store, self.selection, self.like.wanted, self.like.bound, timeout_s)
        same = followed(store, self.selection, [one for one in found if self.like.has(one.call)], timeout_s)
        return [_row(self.like, _counts(self.like, tried), same)]

    def arrow(self, store: Reads, timeout_s: float = 30) -> bytes:
        """The row as an Arrow IPC stream."""
        return arrow_stream(self.rows(store, timeout_s), TYPES | {"last_seen": "timestamp"})


def check(selection: Selection, command: str, target: str, tool: str) -> Check:
    """What is known of calls like one. Raises BadParameter."""
    return Check(selection, like(command, target, tool))


def _counts(of: Like, tried: Iterable[Row]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for row in tried:
        if of.has(Call(row["tool"] or "", row["outcome"], row["tool_kind"], row["target"])):
            counts[row["outcome"]] += row["calls"]
    return counts


def _row(of: Like, counts: Counter[str], same: list[Failure]) -> Row:
    classes = Counter(one.error_class for one in same if one.error_class)
    worked = Counter(dict(_worked(of, same)).values())
    following, sessions = next(iter(worked.most_common(1)), (None, 0))
    row: Row = {
        "shape": of.shape, "calls": counts.total(), "ok": counts["ok"], "failed": counts["error"],
        "denied": counts["denied"], "sessions": len({one.session for one in same}),
        "error_class": classes.most_common(1)[0][0] if classes else None,
        "last_seen": max((one.time_ns for one in same), default=None), "next": following, "next_sessions": sessions,
    }  # fmt: skip
    return row | {"sentence": _sentence(row)}


def _worked(of: Like, same: Iterable[Failure]) -> Iterator[tuple[str, str]]:
    """Sessions with what worked next after the first failure that something followed."""
    seen: set[str] = set()
    for one in sorted(same, key=lambda one: one.time_ns):
        worked = worked_next(RULES[of.of], one, lessons().commands)
        if worked and one.session not in seen:
            seen.add(one.session)
            yield one.session, worked


def _sentence(row: Row) -> str:
    name = f"`{UNQUOTED.sub(' ', row['shape'])[:200]}`"
    failed = row["failed"] + row["denied"]
    if not row["calls"]:
        return f"There is no record of {name}."
    if not failed:
        return f"{name} has not failed in {row['calls']} calls."
    why = row["error_class"] or "denied"
    said = f"{name} failed in {failed} of {row['calls']} calls, in {row['sessions']} sessions ({why})."
    return f"{said} What worked next in {row['next_sessions']} of them: {row['next']}." if row["next"] else said
