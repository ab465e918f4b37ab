"""Streaks and retry chains kept up event by event, for sessions whose events come in order.

The rules are those of engine/duckdb/sql/keep.sql, which computes all other sessions; tests compare both. What is open
is remembered, so that an event costs the same however long its session is.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from collector.correlate.chains import Chains, Error
from collector.correlate.changes import Whose
from collector.correlate.followed import Call, Heard
from collector.correlate.streaks import SCOPES, Key, Run, Streak, keys
from collector.streak_rules import IDLE_NS

MOST_OPEN = 100_000  # streaks and errors that are remembered, of half a kilobyte each


class Turn:
    """What becomes different of the kept rows."""

    def __init__(self) -> None:
        self.streaks: list[Streak] = []  # new, longer, or of another kind
        self.closed: list[Streak] = []  # by a success
        self.lasting: list[Streak] = []  # open for longer
        self.errors: list[Error] = []  # new
        self.tried: list[Error] = []  # whose chain went on
        self.heard: list[Error] = []  # whose session was heard in their half hour

    def streak(self, one: Streak) -> None:
        """Adds a streak."""
        if one.grown:
            self.streaks.append(one)
        else:
            (self.closed if one.succeeded else self.lasting).append(one)

    def error(self, one: Error) -> None:
        """Adds an error."""
        if not one.stored:
            self.errors.append(one)
        else:
            (self.tried if one.tried else self.heard).append(one)

    def stored(self) -> None:
        """What is different is stored."""
        for streak in self.streaks:
            streak.was, streak.grown, streak.row = streak.kind, False, None
        for error in (*self.errors, *self.tried):
            error.stored, error.tried, error.row = True, False, None


class Session:
    """What is open in a session, and may change by its next events."""

    def __init__(self) -> None:
        self.last_ns = 0
        self._place = 0  # of the last event; next, of the first one at its time
        self._peers = 0
        self._heard = Heard()
        self._runs: dict[Key, Run] = {}
        self._ended: list[Streak] = []
        self._chains = Chains()
        self._asked: dict[str | None, int] = {}  # how often each sub-agent asked its user

    def __len__(self) -> int:
        """About how much is open."""
        return 1 + len(self._runs) + len(self._chains)

    def take(self, calls: Iterable[Call], turn: Turn) -> None:
        """Adds events in their order, all later than those before, and what becomes different to the turn."""
        for call in calls:
            if call.time_ns - self.last_ns > IDLE_NS:
                self._settle(turn)
                self._runs, self._chains, self._heard = {}, Chains(), Heard()
            self._add(call)
        self._settle(turn)

    def _add(self, call: Call) -> None:
        self._place += 1
        if call.time_ns != self.last_ns:
            self._peers = self._place
            self._chains.expire(call.time_ns, self._heard)
            self.last_ns = call.time_ns
        self._heard.note(self._place, call.received_ns)
        if call.error_class == "ConsecutiveMistakeError":
            self._asked[call.subagent] = self._asked.get(call.subagent, 0) + 1
        for streak in self._runs.get((call.subagent,), ()):
            streak.spend(call)
        if call.operation == "tool":
            if call.outcome == "ok":
                self._succeed(call)
            elif call.outcome in ("error", "denied"):
                self._fail(call)
        self._chains.add(call, self._peers)

    def _succeed(self, call: Call) -> None:
        for key in keys(call):
            if run := self._runs.pop(key, None):
                self._ended += run.ended(call)

    def _fail(self, call: Call) -> None:
        asked = self._asked.get(call.subagent, 0)
        for key in keys(call):
            run = self._runs.get(key)
            if run is None:
                run = self._runs[key] = Run(SCOPES[len(key)])
            run.add(call, self._place, asked)

    def _settle(self, turn: Turn) -> None:
        for streak in self._ended:
            turn.streak(streak)
        self._ended = []
        until_ns = self.last_ns + IDLE_NS
        for run in self._runs.values():
            for streak in run:
                before = streak.until_ns, streak.heard_ns
                streak.until_ns, streak.heard_ns = until_ns, self._heard.since(streak.place)
                if streak.grown or before != (streak.until_ns, streak.heard_ns):
                    turn.streak(streak)
        for error in self._chains.settled(self._heard):
            turn.error(error)


class Sessions:
    """Recent sessions, as many as a bound of what is open in them allows."""

    def __init__(self, most: int = MOST_OPEN) -> None:
        self._most = most
        self._sessions: OrderedDict[Whose, tuple[Session, int]] = OrderedDict()
        self._open = 0

    def known(self, whose: Whose) -> Session | None:
        """A session that is remembered."""
        found = self._sessions.get(whose)
        return found[0] if found else None

    def remember(self, whose: Whose, session: Session) -> None:
        """Remembers a session as it is now, and forgets those that were not heard for longest."""
        self.forget(whose)
        size = len(session)
        self._sessions[whose] = session, size
        self._open += size
        while self._open > self._most:
            self.forget(next(iter(self._sessions)))

    def forget(self, whose: Whose) -> None:
        """Forgets a session: its events no longer came in order."""
        if found := self._sessions.pop(whose, None):
            self._open -= found[1]

    def clear(self) -> None:
        """Forgets all."""
        self._sessions.clear()
        self._open = 0
