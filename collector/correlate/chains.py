"""Retry chains of a session whose events come in order: what became of each error within its half hour."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from collector.correlate.followed import Call, Heard
from collector.streak_rules import PATIENCE, WINDOW_NS

Key = tuple[str | None, ...]  # sub-agent, operation, tool, what it acted on


class Error:
    """What of a row of `kept_chains` is not of the error itself; the attributes are its columns."""

    __slots__ = (
        "attempts", "event_id", "followed", "heard_ns", "honoured", "identical_retry", "key", "next_duration_ms",
        "next_id", "next_request", "params_hash", "place", "repaired", "retried", "retry_after_ms", "row", "same",
        "seconds", "step", "stored", "time_ns", "tried",
    )  # fmt: skip

    def __init__(self, call: Call, key: Key, place: int, step: int) -> None:
        self.event_id, self.time_ns = call.event_id, call.time_ns
        self.params_hash, self.retry_after_ms = call.params_hash, call.retry_after_ms
        self.key, self.place, self.step = key, place, step  # `place`: of the first event at its time
        self.row: int | None = call.row
        self.followed = self.stored = self.tried = False  # `tried`: since it was stored
        self.retried = self.repaired = self.identical_retry = False
        self.next_id: int | None = None
        self.next_duration_ms: float | None = None
        self.next_request: int | None = None
        self.honoured: bool | None = None
        self.same: bool | None = None
        self.attempts: int | None = None
        self.seconds: float | None = None
        self.heard_ns: int | None = None

    def follow(self, call: Call) -> None:
        """The next attempt."""
        self.followed = True
        if call.time_ns - self.time_ns > WINDOW_NS:
            return
        self.retried = self.tried = True
        self.next_id, self.next_duration_ms = call.event_id, call.duration_ms
        self.next_request = call.event_id if call.asked_by is None else call.asked_by
        self.identical_retry = self._same(call) is True
        if self.retry_after_ms is not None and self.retry_after_ms > 0:
            waited_ns = call.time_ns - (call.duration_ms or 0) * 1e6 - self.time_ns
            self.honoured = waited_ns >= PATIENCE * self.retry_after_ms * 1e6

    def mend(self, call: Call, step: int) -> None:
        """The first attempt that succeeded."""
        if call.time_ns - self.time_ns <= WINDOW_NS:
            self.repaired = self.tried = True
            self.same = self._same(call)
            self.attempts = step - self.step
            self.seconds = (call.time_ns - self.time_ns) / 1e9
            self.heard_ns = None

    def differs(self, heard: Heard) -> bool:
        """Whether the row is not as it is stored; notes when its session was last heard."""
        before = self.heard_ns
        if not self.repaired:
            self.heard_ns = heard.since(self.place)
        return self.tried or not self.stored or self.heard_ns != before

    def _same(self, call: Call) -> bool | None:
        if self.params_hash is None or call.params_hash is None:
            return None
        return self.params_hash == call.params_hash


class Chain:
    """Errors that no attempt repaired yet, in their order, and how many attempts there were."""

    __slots__ = ("errors", "steps")

    def __init__(self) -> None:
        self.errors: deque[Error] = deque()
        self.steps = 0


class Chains:
    """The chains of a session that later events can change."""

    def __init__(self) -> None:
        self._chains: dict[Key, Chain] = {}
        self._open: deque[Error] = deque()  # in their order; some may be repaired
        self._over: list[Error] = []  # since the last `settled`

    def __len__(self) -> int:
        """How many errors are open."""
        return len(self._open)

    def add(self, call: Call, place: int) -> None:
        """The next event; `place` is that of the first one at its time."""
        key = (call.subagent, call.operation, call.tool, call.acted_on)
        chain = self._chains.get(key)
        if chain is not None:
            chain.steps += 1
            if not chain.errors[-1].followed:
                chain.errors[-1].follow(call)
            if call.outcome == "ok":
                for error in chain.errors:
                    error.mend(call, chain.steps)
                del self._chains[key]
        if call.outcome == "error":
            if chain is None:
                chain = self._chains[key] = Chain()
            error = Error(call, key, place, chain.steps)
            chain.errors.append(error)
            self._open.append(error)

    def expire(self, now_ns: int, heard: Heard) -> None:
        """Ends the half hour of errors for which it is over at the time of the next event, which is not heard yet."""
        while self._open and now_ns - self._open[0].time_ns > WINDOW_NS:
            error = self._open.popleft()
            if error.differs(heard):
                self._over.append(error)
            if not error.repaired:
                chain = self._chains.get(error.key)
                if chain is not None and chain.errors[0] is error:
                    chain.errors.popleft()
                    if not chain.errors:
                        del self._chains[error.key]

    def settled(self, heard: Heard) -> Iterator[Error]:
        """The errors that are not as they are stored."""
        yield from self._over
        self._over = []
        for error in self._open:
            if error.differs(heard):
                yield error
        self._open = deque(error for error in self._open if not error.repaired)
