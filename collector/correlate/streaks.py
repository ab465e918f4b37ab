"""Streaks of a session whose events come in order: failures without a success between them, in each scope."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any

from collector.correlate.followed import Call

SCOPES = ("", "session", "tool", "target")  # by the number of values that tell a run of one from others
Key = tuple[str | None, ...]  # sub-agent, tool, what it acted on: as many as the scope has
Totals = list[Any]  # calls, milliseconds, calls with tokens, input and output tokens, cost; None: nothing was told


class Streak:
    """One row of `kept_streaks`, without the dimensions of its first event; the attributes are its columns."""

    __slots__ = (
        "_asked", "_reported", "classes", "ended", "first_event_id", "from_sequence", "grown", "heard_ns", "kind",
        "last_event_id", "length", "only_target", "only_tool", "place", "row", "scope", "since", "spent", "started",
        "succeeded", "to_sequence", "tools", "totals", "until_ns", "was",
    )  # fmt: skip

    def __init__(self, scope: str, kind: str, call: Call, place: int, asked: int) -> None:
        self.scope, self.kind = scope, kind
        self.length = 0
        self.started = call.time_ns
        self.until_ns = 0
        self.heard_ns: int | None = None
        self.succeeded = False
        self.since: list[int] = []
        self.classes: tuple[str, ...] = ()
        self.tools: tuple[str, ...] = ()
        self.first_event_id, self.from_sequence = call.event_id, call.sequence
        self.only_tool, self.only_target = call.tool, call.target
        self.spent: Sequence[Any] = (None,) * 6  # until its last call, or the success that ended it
        self.totals: Totals | None = [0, None, 0, None, None, None] if scope == "session" else None  # until now
        self.place = place  # of its first event in the session
        self.row: int | None = call.row
        self.was: str | None = None  # the kind under which it is stored, if it is
        self.grown = True  # since it was stored
        self._asked, self._reported = asked, call.reported_streak

    def add(self, call: Call, asked: int) -> None:
        """A failure that goes on with it."""
        fell = False
        if self.totals is not None and call.reported_streak is not None:
            fell = self._reported is not None and call.reported_streak < self._reported
            self._reported = call.reported_streak
        if not self.since or fell or asked != self._asked:
            self.since.append(1)
        else:
            self.since[-1] += 1
        self._asked = asked
        self.length += 1
        self.ended, self.last_event_id, self.to_sequence = call.time_ns, call.event_id, call.sequence
        if call.error_class is not None and call.error_class not in self.classes:
            self.classes = tuple(sorted((*self.classes, call.error_class)))
        if call.tool is not None and call.tool not in self.tools:
            self.tools = tuple(sorted((*self.tools, call.tool)))
        if call.tool != self.only_tool:
            self.only_tool = None
        if call.target != self.only_target:
            self.only_target = None
        if self.totals is not None:
            self.spent = tuple(self.totals)
        self.grown = True

    def end(self, call: Call) -> None:
        """A success that ends it."""
        self.until_ns, self.succeeded, self.heard_ns = call.time_ns, True, None
        if self.totals is not None:
            self.spent = tuple(self.totals)

    def spend(self, call: Call) -> None:
        """What its sub-agent did meanwhile."""
        if self.totals is not None:
            _sum_up(self.totals, call)

    def parted(self, kind: str) -> Streak:
        """The same streak as one of another kind, which goes on by itself."""
        other = copy(self)
        other.kind, other.since = kind, list(self.since)
        other.totals = None if self.totals is None else list(self.totals)
        other.was, other.grown = None, True
        return other


def _sum_up(totals: Totals, call: Call) -> None:
    totals[0] += 1
    totals[2] += call.input_tokens is not None or call.output_tokens is not None
    for place, value in (
        (1, call.duration_ms),
        (3, call.input_tokens),
        (4, call.output_tokens),
        (5, call.cost_usd),
    ):
        if value is not None:
            totals[place] = value if totals[place] is None else totals[place] + value


class Run:
    """The streaks since the last success in one scope. Errors that are all mistakes are one streak for both kinds."""

    __slots__ = ("_denied", "_errors", "_mistakes", "_scope")

    def __init__(self, scope: str) -> None:
        self._scope = scope
        self._errors: Streak | None = None
        self._mistakes: Streak | None = None
        self._denied: Streak | None = None

    def __iter__(self) -> Iterator[Streak]:
        return (one for one in (self._errors, self._mistakes, self._denied) if one is not None)

    def add(self, call: Call, place: int, asked: int) -> None:
        """A failure, by the kinds that it is of."""
        if call.outcome == "denied":
            self._denied = self._denied or self._new("denied", call, place, asked)
            self._denied.add(call, asked)
            return
        if self._errors is None:
            self._errors = self._new("both" if call.mistake else "error", call, place, asked)
        elif self._errors.kind == "both" and not call.mistake:
            self._mistakes = self._errors.parted("mistake")
            self._errors.kind = "error"
        elif self._errors.kind == "error" and call.mistake and self._mistakes is None:
            self._mistakes = self._new("mistake", call, place, asked)
        self._errors.add(call, asked)
        if call.mistake and self._mistakes is not None:
            self._mistakes.add(call, asked)

    def ended(self, call: Call) -> list[Streak]:
        """The streaks, ended by a success."""
        streaks = list(self)
        for streak in streaks:
            streak.end(call)
        return streaks

    def _new(self, kind: str, call: Call, place: int, asked: int) -> Streak:
        streak = Streak(self._scope, kind, call, place, asked)
        streak.spend(call)
        return streak


def keys(call: Call) -> Sequence[Key]:
    """The runs that a call is part of."""
    if call.tool is None:
        return ((call.subagent,),)
    if call.acted_on is None:
        return (call.subagent,), (call.subagent, call.tool)
    return (call.subagent,), (call.subagent, call.tool), (call.subagent, call.tool, call.acted_on)
