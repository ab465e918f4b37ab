"""What the correlator knows of what is stored: the newest it remembers, for the rest it asks the store (lookup.py)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import chain
from typing import NamedTuple

from collector.correlate.changes import Changes, Named
from collector.correlate.conversations import Conversations
from collector.correlate.join import Entry
from collector.correlate.lookup import Lookup, Span
from collector.correlate.nested import REMEMBERED, Below
from collector.correlate.old_calls import OldCalls
from collector.correlate.pacing import Later
from collector.correlate.senders import Senders
from collector.recent import Recent
from collector.report import Report
from collector.times import MINUTE

KEYS_REMEMBERED = 100_000  # about 15 MB in two generations; older keys are looked up in the store
TRACES_REMEMBERED = 50_000
REQUESTS_REMEMBERED = 50_000


class Postponed(NamedTuple):
    """What earlier transactions did not look for; each as `Lookup` says it."""

    misplaced: Mapping[str, Named] = {}
    strayed: Set[str] = frozenset()
    alike: Sequence[Sequence[str]] = ()
    sharing: Mapping[int, Sequence[int]] = {}
    nested: Set[int] = frozenset()


class Memory:
    """`begin` each transaction, ask, and `learn` what was written once it is."""

    def __init__(self, lookup: Lookup, later: Later, *, fresh: bool) -> None:
        """`fresh`: the store is empty, so that nothing needs to be looked up until something was forgotten."""
        self._lookup = lookup
        self.later = later
        if not fresh:  # an earlier run may have stored them without looking
            later.postpone(lookup.newest_ns() - MINUTE)
        self._old_calls = OldCalls(lookup)
        self._keys: Recent[int] = Recent(KEYS_REMEMBERED, whole=fresh)
        self._sessions: Recent[Named] = Recent(TRACES_REMEMBERED, whole=fresh)
        orphans = set() if fresh else lookup.orphans(TRACES_REMEMBERED + 1)
        self._orphans: Recent[bool] = Recent(TRACES_REMEMBERED, whole=len(orphans) <= TRACES_REMEMBERED)
        self._orphans.update(dict.fromkeys(orphans, True))
        waiting = [] if fresh else lookup.waiting(TRACES_REMEMBERED + 1)
        self._waiting: Recent[tuple[int, ...]] = Recent(TRACES_REMEMBERED, whole=len(waiting) <= TRACES_REMEMBERED)
        self._wait(waiting)
        self.below = Below(() if fresh else lookup.newest_below(REMEMBERED))
        self.conversations = Conversations(lookup, later, fresh=fresh)
        self._merged: Recent[int] = Recent(TRACES_REMEMBERED, whole=fresh)
        self._requests: Recent[bool] = Recent(REQUESTS_REMEMBERED, whole=fresh)
        self.senders = Senders({} if fresh else lookup.known_senders("seen"))
        self.sampled = Senders({} if fresh else lookup.known_senders("sampled"))
        self.switches = Senders({} if fresh else lookup.known_switches())
        self.unread = set() if fresh else lookup.known_unread()
        self._loaded: dict[int, list[Report]] = {}

    def begin(self) -> Postponed:
        """Begins a transaction, with all that is to be looked for now."""
        self._loaded = {}
        since_ns = self.later.begin()
        if since_ns is None:
            return Postponed()
        with self.later.timed():
            return Postponed(
                self._lookup.misplaced(since_ns),
                self._lookup.strayed(since_ns),
                self._lookup.retelling_alike(since_ns) if self.conversations.any else (),
                self._lookup.sharing(since_ns),
                self._lookup.nested(since_ns),
            )

    def learn(self, changes: Changes) -> None:
        """Remembers what was written. To be called after the commit, so that a failed one is not remembered."""
        self.senders.learn(changes.senders, changes.received_ns)
        self.sampled.learn(changes.sampled, changes.received_ns)
        self.switches.learn(changes.switches, changes.received_ns)
        self.unread.update(changes.unread)
        self._requests.update(dict.fromkeys(changes.identities, True))
        self._keys.update(changes.keys)
        self._sessions.update(changes.sessions)
        self.conversations.learn(changes)
        self._wait(changes.waiting)
        self.below.learn(changes.below)
        self._merged.update(changes.redirects)
        for told in (*changes.events, *(report for _, report in changes.reports)):
            if told.get("session_source") in ("trace_id", "instance") and told.get("trace_id"):
                self._orphans.put(told["trace_id"], True)

    def _wait(self, waiting: Sequence[tuple[int, int]]) -> None:
        for ref, event_id in waiting:
            self._waiting.put(ref, (*(self._waiting.get(ref) or ()), event_id))

    def requests(self, identities: Iterable[bytes]) -> set[bytes]:
        """The request identities among these that are stored."""
        asked = set(identities)
        known = {identity for identity, _ in self._requests.known(asked)}
        if self._requests.whole or asked == known:
            return known
        return known | self._lookup.known_requests(sorted(asked - known))

    def sessions(self, traces: Set[str], received_ns: int) -> dict[str, Named]:
        """The session of each of these traces that has one, as far as it is looked for now."""
        known = dict(self._sessions.known(traces))
        unknown = set() if self._sessions.whole else traces - known.keys()
        if unknown and self.later.looking:
            with self.later.timed():
                known |= self._lookup.known_sessions(list(unknown))
        elif unknown:
            self.later.postpone(received_ns)
        return known

    def without_session(self, traces: Sequence[str]) -> set[str]:
        """Those of these traces that have none."""
        told = {} if self._sessions.whole or not traces else self._lookup.known_sessions(traces)
        return {trace for trace in traces if trace not in told and self._sessions.get(trace) is None}

    def may_be_orphan(self, trace: str) -> bool:
        """Whether there may be stored events of this trace whose session is a guess."""
        return trace in self._orphans or not self._orphans.whole

    def orphaned(self, traces: Set[str], now_ns: int) -> set[int]:
        """The events of these traces whose session is a guess."""
        return self._lookup.orphaned(sorted(traces), now_ns) if traces else set()

    def events(self, keys: Set[int], needed: Set[int], changes: Changes) -> dict[int, int]:
        """The event of each of these keys that has one. Where looking takes long, those that are not needed now are
        looked for later.
        """
        known = {key: self._now(event_id) for key, event_id in self._keys.known(keys)}
        unknown = set() if self._keys.whole else keys - known.keys()
        if not self.later.looking:
            unchecked = unknown - needed
            unknown -= unchecked
            changes.unchecked = (changes.unchecked | unchecked) - unknown
            if unchecked:
                self.later.postpone(changes.received_ns)
        if unknown:
            with self.later.timed():
                known |= self._lookup.known_keys(list(unknown))
        return known

    def old_events(self, entries: Iterable[Entry], known: Mapping[int, int], now_ns: int) -> dict[int, int]:
        """The event of each report of an old call whose keys are no longer stored, by the report's first key."""
        return {} if self._keys.whole else self._old_calls.known(entries, known, now_ns)

    def waiting(self, entries: Sequence[Entry]) -> set[int]:
        """The stored events that refer to a call whose report is among these, or are below a span of one."""
        keys = set(chain.from_iterable(entry.keys for entry in entries))
        found = {event_id for _, event_ids in self._waiting.known(keys) for event_id in event_ids}
        for entry in entries:
            for report in entry.reports:
                found.update(self.below.events_below(report))
        found = {self._now(event_id) for event_id in found}
        if not self._waiting.whole:
            found |= self._lookup.awaiting(sorted(keys))
        return found.difference(entry.event_id for entry in entries if entry.event_id is not None)

    def reports(self, event_ids: Set[int], now_ns: int) -> dict[int, list[Report]]:
        """The stored reports of each of these events, loaded once in each transaction. They must not be changed."""
        missing = event_ids - self._loaded.keys()
        if missing:
            found = self._lookup.reports_of(sorted(missing), now_ns)
            self._loaded |= {event_id: found.get(event_id, []) for event_id in missing}
        return {event_id: some for event_id in event_ids if (some := self._loaded[event_id])}

    def twins_near(self, spans: Mapping[int, Span], units: Sequence[int]) -> dict[int, int]:
        """The event of each unit that may be a twin, or is in one event with any of `units` (`Lookup`)."""
        return self._lookup.twins_near(spans, units) if spans or units else {}

    def _now(self, event_id: int) -> int:
        """The id of the event into which this one was merged, or its own."""
        while (merged := self._merged.get(event_id)) is not None:
            event_id = merged
        return event_id
