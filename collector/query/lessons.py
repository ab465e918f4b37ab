"""Lessons: what a sentence, a permission or a setting would prevent, found in the calls of the range.

Two rounds of questions: the failed calls with what followed them, and, for the shapes that occur often enough, how
often they were tried. `collector/lessons/` decides; nothing here is estimated by a model.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import msgspec

from collector.engine import Reads
from collector.engine.duckdb.arrow import arrow_stream
from collector.intervals import Interval
from collector.lessons.call import Call, Failure
from collector.lessons.candidates import Candidate, candidates, filled, recurring, shape_of_command
from collector.lessons.effect import Effect
from collector.lessons.gates import Attempts, Evidence, Scope, gates, refusal
from collector.lessons.kinds import Lessons, lessons
from collector.lessons.shapes import path
from collector.query.effects import effects
from collector.query.failed_calls import failed_calls, followed
from collector.query.filters import Selection
from collector.query.hours import counted
from collector.query.lesson_marks import marks
from collector.query.retries import relation
from collector.query.statement import Row, arranged, load, order_by

MOST_CANDIDATES = 200
MOST_EXAMPLES = 3
EXAMPLE_CHARS = 200

TYPES = {
    "id": "varchar", "kind": "varchar", "state": "varchar", "text": "varchar", "firm": "varchar", "place": "varchar",
    "scope": "varchar", "shape": "varchar", "tool": "varchar", "agents": "varchar", "models": "varchar",
    "calls": "bigint", "sessions": "bigint", "scope_sessions": "bigint", "session_share": "double", "days": "bigint",
    "first_seen": "bigint", "last_seen": "bigint", "attempts": "bigint", "rate": "double", "low": "double",
    "high": "double", "strength": "varchar", "seconds": "double", "tokens": "bigint", "cost_usd": "double",
    "next": "varchar", "next_sessions": "bigint", "recovered_sessions": "bigint", "refused_by": "varchar",
    "since": "bigint", "until": "bigint", "known_by": "varchar", "verdict": "varchar", "sentence": "varchar",
    "needed": "bigint", "effect": "json", "gates": "json", "examples": "json",
}  # fmt: skip
STATES = ("proposed", "refused", "adopted", "snoozed", "dismissed")
TIMES = ("first_seen", "last_seen", "since", "until")


# Of a lesson without a mark.
NEVER_MARKED: Mapping[str, Any] = dict.fromkeys(
    ("since", "until", "known_by", "verdict", "sentence", "needed", "effect")
)


@dataclass(frozen=True, slots=True)
class Found:
    """The lessons of a selection as an answer of the query API."""

    selection: Selection
    state: Sequence[str] = ()
    id: str | None = None
    sort: Sequence[str] = ()
    limit: int = 100
    times: tuple[str, ...] = TIMES
    of_kept: bool = False
    of_clock: bool = False

    def rows(self, store: Reads, timeout_s: float = 30) -> list[Row]:
        """Up to `limit` + 1 rows: the additional one shows that there are more."""
        known = marks(store)
        found = [_row(one) for one in evidence(store, self.selection, timeout_s)]
        seen = {row["id"] for row in found}
        found += [_unseen(mark) for name, mark in known.items() if name not in seen and mark["state"] == "adopted"]
        wanted = [row for row in (_marked(row, known.get(row["id"]), self.selection.end_ns) for row in found)
                  if self._wants(row)]  # fmt: skip
        if any(row["state"] == "adopted" for row in wanted):
            became = effects(store, self.selection, known, timeout_s)
            wanted = [row | _became(became[row["id"]]) if row["id"] in became else row for row in wanted]
        return arranged(wanted, self.sort)[: self.limit + 1]

    def arrow(self, store: Reads, timeout_s: float = 30) -> bytes:
        """Up to `limit` rows as an Arrow IPC stream."""
        types = TYPES | dict.fromkeys(TIMES, "timestamp")
        return arrow_stream(self.rows(store, timeout_s)[: self.limit], types)

    def _wants(self, row: Row) -> bool:
        return (self.id is None or row["id"] == self.id) and (not self.state or row["state"] in self.state)


def find(
    selection: Selection,
    *,
    state: Sequence[str] = (),
    id: str | None = None,
    sort: Sequence[str] = (),
    limit: int = 100,
) -> Found:
    """Lessons and, with their reason, candidates that a gate refused. Raises BadParameter for an unknown column."""
    order_by(sort, TYPES)
    return Found(selection, state, id, sort, limit)


def evidence(store: Reads, selection: Selection, timeout_s: float = 30) -> list[Evidence]:
    """Each candidate that is not rare, with what the gates look at; the most failed calls first."""
    table = lessons()
    wanted = "outcome = 'denied' or error_class in (select unnest($classes))"
    failures = failed_calls(store, selection, wanted, {"classes": table.classes}, timeout_s)
    told = {one.event_id: one for one in followed(store, selection, recurring(failures, table), timeout_s)}
    failures = [told.get(one.event_id, one) for one in failures]
    found = [one for one in candidates(failures, table) if len(one.sessions) > 1][:MOST_CANDIDATES]
    if not found:
        return []
    attempts = _attempts(store, selection, found, table, timeout_s)
    scopes, oldest = _scopes(store, selection, timeout_s)
    return [Evidence(one, scopes[one.scope], attempts[one.id], oldest, selection.end_ns) for one in found]


def _attempts(
    store: Reads, selection: Selection, found: Sequence[Candidate], table: Lessons, timeout_s: float
) -> Mapping[str, Attempts]:
    """How often each candidate's shape was tried in its scope."""
    shapes = [one for one in found if one.kind.of == "command"]
    programs = sorted({one.shape.split()[-1] for one in shapes} | {one.shape.split()[0] for one in shapes})
    asked = {
        "tools": sorted({one.tool for one in found if one.kind.of in ("tool", "parameter")}),
        "servers": sorted({one.shape for one in found if one.kind.of == "server"}),
        "targets": sorted({each.call.target for one in found for each in one.failures if each.call.target}),
        "programs": "|".join(re.escape(program) for program in programs) or "^$",
    }
    tried = selection.about_call()
    sql = load("attempts").format(source=relation(tried), where=tried.where())
    rows = store.rows(sql, selection.params() | asked, timeout_s=timeout_s)
    found_by = _by_shape(rows, table)
    failure_only = frozenset(selection.failure_only)
    return {one.id: _tried(one, found_by, failure_only) for one in found}


def _by_shape(rows: Iterable[Row], table: Lessons) -> Mapping[tuple[str, str, str], list[Row]]:
    """Rows of attempts by scope, what their shape is made of, and shape; one row has several."""
    found: defaultdict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        for of, shape in _shapes(row, table).items():
            if shape:
                found[row["scope"], of, shape].append(row)
    return found


def _shapes(row: Row, table: Lessons) -> Mapping[str, str | None]:
    call = Call(row["tool"] or "", "", row["tool_kind"], row["target"])
    return {
        "command": shape_of_command(call, table), "path": path(call.target, row["scope"]) if call.target else None,
        "server": row["mcp_server"], "host": call.target, "tool": call.tool, "parameter": call.tool,
    }  # fmt: skip


def _tried(
    one: Candidate, found_by: Mapping[tuple[str, str, str], Sequence[Row]], failure_only: frozenset[str]
) -> Attempts:
    same = [row for shape in _asked_for(one) for row in found_by.get((one.scope, one.kind.of, shape), ())]
    rated = any(row["source"] not in failure_only for row in same)
    return Attempts(max(sum(row["calls"] for row in same), len(one.failures)), rated)


def _asked_for(one: Candidate) -> Iterable[str]:
    """The shapes of attempts at what a candidate is about: of a host, the targets that named it."""
    match one.kind.of:
        case "host":
            return {each.call.target for each in one.failures if each.call.target}
        case "tool" | "parameter":
            return (one.tool,)
    return (one.shape,)


def _scopes(store: Reads, selection: Selection, timeout_s: float) -> tuple[Mapping[str, Scope], int]:
    """Every scope, and the time of the oldest call: thirds are of the time from that to the end."""
    called = selection.about_call()
    by_model = _sessions(store, called, timeout_s, ", model")
    oldest = min((row["oldest"] for row in by_model), default=selection.start_ns)
    newest: defaultdict[str, list[tuple[int, str, int]]] = defaultdict(list)
    for row in by_model:
        if row["model"] is not None:
            newest[row["scope"]].append((row["newest"], row["model"], row["sessions"]))
    sessions: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    third = max(1, (called.until_ns - oldest) // 3)
    edges = (oldest, oldest + third, oldest + 2 * third, called.until_ns)
    for number, (low, high) in enumerate(pairwise(edges)):
        for row in _sessions(store, replace(called, start_ns=low, end_ns=high, to_now=False), timeout_s):
            sessions[row["scope"]][number] = row["sessions"]
    return {
        name: Scope((one[0], one[1], one[2]),
                    tuple((model, count) for _, model, count in sorted(newest[name], reverse=True)))
        for name, one in sessions.items()
    }, oldest  # fmt: skip


def _sessions(store: Reads, called: Selection, timeout_s: float, model: str = "") -> list[Row]:
    """One row of `lesson_scopes.sql` for each scope, or for each scope and model."""
    counts = counted(called, ("operation", "repository", "service", "session", *(["model"] if model else [])))
    sql = load("lesson_scopes").format(
        source=counts.source,
        where=called.where(),
        first=counts.first(),
        last=counts.last(),
        model=model,
        and_model=" and model" if model else "",
    )
    return store.rows(sql, called.params(), timeout_s=timeout_s)


def _row(found: Evidence) -> Row:
    one, tried = found.candidate, gates(found)
    refused = refusal(tried)
    low, high = found.interval or (None, None)
    money = [each.cost_usd for each in one.failures if each.cost_usd is not None]
    return {
        "id": one.id, "kind": one.kind.kind, "state": "refused" if refused else "proposed", "text": one.text,
        "firm": one.firm or None, "place": one.kind.place, "scope": one.scope, "shape": one.shape,
        "tool": one.tool, "agents": _listed(each.source for each in one.failures),
        "models": _listed(each.model for each in one.failures), "calls": len(one.failures),
        "sessions": len(one.sessions), "scope_sessions": sum(found.scope.sessions), "session_share": found.share,
        "days": one.days, "first_seen": min(each.time_ns for each in one.failures),
        "last_seen": max(each.time_ns for each in one.failures), "attempts": found.attempts.calls, "rate": found.rate,
        "low": low, "high": high, "strength": found.strength, "seconds": found.seconds, "tokens": found.tokens,
        "cost_usd": sum(money) if money else None, "next": one.next[0] if one.next else None,
        "next_sessions": one.next[1] if one.next else 0, "recovered_sessions": len(one.recovered),
        "refused_by": refused.gate if refused else None, **NEVER_MARKED,
        "gates": _json([asdict(gate) for gate in tried]), "examples": _json([_example(each) for each in _spread(one)]),
    }  # fmt: skip


def _marked(row: Row, mark: Row | None, now_ns: int) -> Row:
    """The row with what people decided; a lesson that is snoozed no longer is as if it never was."""
    if mark is None or (mark["state"] == "snoozed" and mark["until_ns"] <= now_ns):
        return row
    said = {"state": mark["state"], "since": mark["since_ns"], "until": mark["until_ns"] or None}
    return row | said | {"known_by": mark["known_by"] or None, "text": mark["text"], "next": mark["next"]}


def _unseen(mark: Row) -> Row:
    """An adopted lesson of which nothing failed in the range."""
    kind = next((kind for kind in lessons().kinds if kind.kind == mark["kind"]), None)
    row: Row = dict.fromkeys(TYPES)
    row |= {name: mark[name] for name in ("kind", "text", "scope", "shape", "tool", "agents", "next")}
    firm = filled(kind.firm, mark["shape"], mark["tool"]) if kind else ""
    row |= {"id": mark["lesson"], "place": kind.place if kind else "project", "firm": firm or None}
    row |= dict.fromkeys(("calls", "sessions", "scope_sessions", "days", "attempts"), 0)
    row |= dict.fromkeys(("next_sessions", "recovered_sessions"), 0)
    return row | {"session_share": 0.0, "seconds": 0.0, "strength": "few", "gates": "[]", "examples": "[]"}


def _became(effect: Effect) -> Row:
    told = {
        "before": effect.before.told(), "after": effect.after.told(), "difference": _interval(effect.difference),
        "control": _interval(effect.control), "controls": effect.controls, "sessions_after": effect.seen_after,
        "by_record": effect.by_record,
    }  # fmt: skip
    return {
        "verdict": effect.verdict, "sentence": effect.sentence, "needed": effect.needed,
        "effect": msgspec.json.encode(told).decode(),
    }  # fmt: skip


def _interval(found: Interval | None) -> Mapping[str, float] | None:
    return None if found is None else dict(zip(("value", "low", "high"), found, strict=True))


def _spread(one: Candidate) -> list[Failure]:
    """The newest failed call of each of a few sessions."""
    newest = {each.session: each for each in sorted(one.failures, key=lambda each: each.time_ns)}
    return sorted(newest.values(), key=lambda each: -each.time_ns)[:MOST_EXAMPLES]


def _example(one: Failure) -> Mapping[str, Any]:
    return {
        "event_id": str(one.event_id), "session": one.session, "service": one.service, "project": one.project,
        "tool": one.call.tool,
        "target": (one.call.target or "")[:EXAMPLE_CHARS] or None,
        "message": (one.message or "")[:EXAMPLE_CHARS] or None,
    }  # fmt: skip


def _listed(names: Iterable[str | None]) -> str | None:
    """The names with the most frequent first, None if there is none."""
    return ", ".join(name for name, _ in Counter(name for name in names if name).most_common()) or None


def _json(value: Sequence[Mapping[str, Any]]) -> str:
    return msgspec.json.encode(value).decode()
