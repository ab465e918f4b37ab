"""Reads files of transcripts one after the other: each call once, bounded memory, a count of what could not be read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from collector.recognise.identify import key64
from collector.times import EARLIEST_NS, HOUR, MILLISECOND, time_of
from collector.transcripts.files import records
from collector.transcripts.find import Found
from collector.transcripts.join import Joined, Joiner, Told
from collector.transcripts.positions import Positions
from collector.transcripts.repository import beside, tidy
from collector.transcripts.settled import settled

LOT = 256  # calls settled together
TAIL_BYTES = 64 << 10
TIME = re.compile(rb'"(?:timestamp|time|ts)": ?"?([0-9T:.Z+-]{10,40})')


@dataclass(slots=True)
class Count:
    """What was found of one agent. Times are nanoseconds, 0 if unknown."""

    files: int = 0
    bytes: int = 0
    unchanged: int = 0
    failed: int = 0  # files that could not be read at all
    calls: int = 0
    requests: int = 0
    repeated: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)  # of calls
    sessions: set[int] = field(default_factory=set)
    oldest_ns: int = 0
    newest_ns: int = 0
    told: Told = field(default_factory=Told)

    def add(self, sent: dict[str, Any]) -> None:
        if sent["operation"] == "tool":
            self.calls += 1
            self.outcomes[sent["outcome"]] += 1
        else:
            self.requests += 1
        if session := sent.get("session"):
            self.sessions.add(key64(session))
        if time_ns := sent["time"]:
            self.oldest_ns = min(self.oldest_ns or time_ns, time_ns)
            self.newest_ns = max(self.newest_ns, time_ns)


@dataclass(slots=True)
class Readings:
    """The calls in files, each once."""

    files: Sequence[Found]
    positions: Positions
    since_ns: int = 0
    older_files: int = 0  # not changed since
    older_calls: int = 0  # in the others
    counts: dict[str, Count] = field(default_factory=dict)
    _changed: list[Found] | None = None
    _seen: set[int] = field(default_factory=set)
    _open: set[int] = field(default_factory=set)  # of these, those of which nothing is known of how they ended
    _turns: dict[str, frozenset[str]] = field(default_factory=dict)

    def changed(self) -> list[Found]:
        """The files to read, oldest sessions first; the others are counted as unchanged."""
        if self._changed is None:
            self._changed = sorted(self._look(), key=lambda one: (one.agent.id, _ended_ns(one), str(one.path)))
        return self._changed

    def _look(self) -> Iterator[Found]:
        for found in self.files:
            if found.changed_ns < self.since_ns:
                self.older_files += 1
                continue
            count = self.counts.setdefault(found.agent.id, Count())
            count.files += 1
            count.bytes += found.size
            if self.positions.unchanged(found):
                count.unchanged += 1
            else:
                yield found

    def calls(self, found: Found) -> Iterator[dict[str, Any]]:
        """What is to be sent of one file. Remembers the file as read once all of it was taken."""
        count = self.counts.setdefault(found.agent.id, Count())
        spread = _Spread(found.changed_ns)
        try:
            for one in self._calls(found, count):
                _mend_time(one, found.changed_ns)
                spread.take(one)
                if one["time"] < self.since_ns:
                    self.older_calls += one["operation"] == "tool"
                    continue
                if self._is_new(one, found.agent.id, count):
                    count.add(one)
                    yield one
        except Exception:  # a broken file, whatever it is, costs no other; the error may quote it, and is not told
            count.failed += 1

    def _is_new(self, sent: dict[str, Any], agent: str, count: Count) -> bool:
        """Whether nothing was sent of this call yet, or only that it began."""
        key, is_open = key64(agent, sent["operation"], *sent["same"]), sent["outcome"] == "unknown"
        if key not in self._seen:
            self._seen.add(key)
            if is_open:
                self._open.add(key)
            return True
        if is_open or key not in self._open:
            count.repeated += 1
            return False
        self._open.discard(key)
        count.calls -= 1
        count.outcomes["unknown"] -= 1
        return True

    def _calls(self, found: Found, count: Count) -> Iterator[dict[str, Any]]:
        start, context = self.positions.start(found)
        if found.store.session and (named := found.store.session.search(found.path.as_posix())):
            context = {"session": named[1], **context}
        context = {"time": found.changed_ns, **context}  # until a record tells its own
        if "repository" not in context and (root := beside(found.path, found.store.root)):
            context["repository"] = root
        joiner = Joiner(found.agent, count.told, self._turns_of, context)
        file = tidy(str(found.path))
        reached, known, lot = start, dict(joiner.context), list[Joined]()

        def unreadable() -> None:
            count.told.broken[str(joiner.context.get("version") or "")[:40]] += 1

        for place, size, record in records(found, start, unreadable):
            lot += joiner.take(place, size, record)
            if joiner.is_settled:
                reached, known = place + size, joiner.context
            if len(lot) >= LOT:
                yield from settled(found.agent, lot, file)
                lot = []
        if joiner.is_settled:
            known = dict(joiner.context)
        lot += joiner.end()
        yield from settled(found.agent, lot, file)
        if session := joiner.context.get("session"):
            self._turns[str(session)] = frozenset(joiner.turns - {""})
        self.positions.note(found, reached, known)

    def _turns_of(self, session: str) -> frozenset[str]:
        """The turns of another session, whose file has its id in the name."""
        if (known := self._turns.get(session)) is None and session:
            self._turns[session] = frozenset()
            for found in self.files:
                if session in found.path.name:
                    known = self._turns[session] = _turns_in(found, self._turns_of)
                    break
        return known or frozenset()


def _turns_in(found: Found, turns_of: Callable[[str], frozenset[str]]) -> frozenset[str]:
    joiner = Joiner(found.agent, Told(), turns_of)
    for place, size, record in records(found, 0, lambda: None):
        for _ in joiner.take(place, size, record):
            pass
    return frozenset(joiner.turns - {""})


@dataclass(slots=True)
class _Spread:
    """Puts calls that have one time, of their record or of the file, a millisecond apart in the file's order: streaks
    are read by time.
    """

    changed_ns: int
    last: tuple[int, int] = (0, 0)
    calls: int = 0

    def take(self, sent: dict[str, Any]) -> None:
        if sent["operation"] != "tool":
            return
        time_ns = sent["time"]
        of = time_ns, -1 if time_ns == self.changed_ns else sent["more"]["transcript.offset"]
        self.calls = self.calls + 1 if of == self.last else 0
        self.last = of
        if self.calls:
            sent["time"] += self.calls * MILLISECOND
            sent["more"]["time.exact"] = False


def _mend_time(sent: dict[str, Any], changed_ns: int) -> None:
    """A call without a plausible time was made before its file was changed last."""
    if not EARLIEST_NS <= sent["time"] <= changed_ns + HOUR:
        sent["time"] = changed_ns
        sent["more"]["time.exact"] = False


def _ended_ns(found: Found) -> int:
    """The last time in a file of lines, as copied files have the time of the copy; else when the file was changed."""
    if found.store.form != "jsonl" or found.path.suffix == ".zst":
        return found.changed_ns
    try:
        with found.path.open("rb") as file:
            file.seek(max(0, found.size - TAIL_BYTES))
            times = TIME.findall(file.read(TAIL_BYTES))
    except OSError:
        return found.changed_ns
    return (times and time_of(times[-1].decode("ascii", "replace"))) or found.changed_ns
