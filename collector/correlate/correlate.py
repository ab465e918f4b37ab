"""Folds reports into events: one event per call, whichever of its reports comes first.

Agents report a call two to four times: a log, a span, its child, MCP spans, the tool result in a later model request.
Reports that share a key become one event, or one for each attempt (attempts.py). The fold is commutative and
idempotent, so the order, batching and repetition of reports do not change what is stored. `Correlator.plan` decides,
the store writes, `Correlator.learn` remembers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from functools import lru_cache

from collector.batch import Batch
from collector.correlate.changes import Changes, Named
from collector.correlate.conversations import Conversations
from collector.correlate.fold import as_bytes, events_of, fold, orphan
from collector.correlate.join import Entry, Joiner
from collector.correlate.lookup import Lookup
from collector.correlate.nested import REMEMBERED, Below, around_of, below_key, is_call_span
from collector.correlate.old_calls import OldCalls
from collector.correlate.pacing import Later
from collector.correlate.senders import Senders, counted
from collector.correlate.sessions import adopt_session, is_sought
from collector.correlate.sites import site_keys
from collector.correlate.twins import pair
from collector.correlate.write import insert, new_id, write
from collector.recent import Recent
from collector.recognise.identify import bare_tool, key64
from collector.report import Report
from collector.times import MAX_NS, MINUTE

KEYS_REMEMBERED = 100_000  # about 15 MB in two generations; older keys are looked up in the store
TRACES_REMEMBERED = 50_000
REQUESTS_REMEMBERED = 50_000


_bare = lru_cache(maxsize=1_000)(bare_tool)


def keys_of(report: Report) -> list[int]:
    """Every key by which the call of this report can be recognised; the first becomes the id of a new event.

    It is the most reliable one that is known whether or not a parent span has told the session: calls of one instant
    are ordered by their ids.
    """
    found: list[int] = []
    operation, call, trace = report.get("operation") or "", report.get("call_id"), report.get("trace_id")
    if call:
        if (session := report.get("session")) and report.get("session_source") != "trace_id":
            found.append(key64(operation, "call", report.get("service") or "", session, call))
        if trace:
            found.append(key64(operation, "trace call", trace, call))
        if report.get("session_source") == "trace":
            found.reverse()
    if trace and (span := report.get("span_id")) and report.get("source_signal") == "span":
        if operation == "model":  # child spans refer to it by this
            found.append(key64("call of", trace, span, operation))
        else:
            found.append(key64("span", trace, span))
        if operation == "tool" and (tool := report.get("tool")):  # to this too
            found.append(key64("call of", trace, span, _bare(tool)))
    if more := report.get("_keys"):
        found.extend(more)
    return found


class Correlator:
    """Decides which reports are new events, which correct a stored one, and which are repetitions."""

    def __init__(self, lookup: Lookup, *, fresh: bool, later: Later | None = None) -> None:
        """`fresh`: the store is empty, so that nothing needs to be looked up until something was forgotten."""
        self._lookup = lookup
        self._later = later or Later()
        if not fresh:  # an earlier run may have stored them without looking
            self._later.postpone(lookup.newest_ns() - MINUTE)
        self._keys: Recent[int] = Recent(KEYS_REMEMBERED, whole=fresh)
        self._sessions: Recent[Named] = Recent(TRACES_REMEMBERED, whole=fresh)
        orphans = set() if fresh else lookup.orphans(TRACES_REMEMBERED + 1)
        self._orphans: Recent[bool] = Recent(TRACES_REMEMBERED, whole=len(orphans) <= TRACES_REMEMBERED)
        self._orphans.update(dict.fromkeys(orphans, True))
        waiting = [] if fresh else lookup.waiting(TRACES_REMEMBERED + 1)
        self._waiting: Recent[tuple[int, ...]] = Recent(TRACES_REMEMBERED, whole=len(waiting) <= TRACES_REMEMBERED)
        self._wait(waiting)
        self._old = OldCalls(lookup)
        self._below = Below(() if fresh else lookup.newest_below(REMEMBERED))
        self._conversations = Conversations(lookup, self._later, fresh=fresh)
        self._merged: Recent[int] = Recent(TRACES_REMEMBERED, whole=fresh)
        self._requests: Recent[bool] = Recent(REQUESTS_REMEMBERED, whole=fresh)
        self._senders = Senders({} if fresh else lookup.known_senders("seen"))
        self._sampled = Senders({} if fresh else lookup.known_senders("sampled"))
        self._switches = Senders({} if fresh else lookup.known_switches())
        self._unread = set() if fresh else lookup.known_unread()

    def plan(self, batches: Sequence[Batch]) -> Changes:
        """What must be written so that the store holds these batches, each request and each call once."""
        changes = Changes(max(batch.received_ns for batch in batches))
        changes.accepted = sum(batch.records for batch in batches)
        new = self._new_batches(batches, changes)
        since_ns = self._later.begin()
        sessions = self._sessions_of(new, changes)
        self._misplaced(since_ns, changes)
        self._conversations.plan(new, sessions, since_ns, changes)
        self._moved(sessions, since_ns, changes)
        conversations = self._conversations_of(new, sessions, changes)
        changes.senders = self._senders.due((batch.senders for batch in new), changes.received_ns)
        changes.sampled = self._sampled.due((batch.sampled for batch in new), changes.received_ns)
        changes.switches = self._switches.due((dict.fromkeys(batch.switches) for batch in new), changes.received_ns)
        changes.unread = counted(self._unread, (batch.unread for batch in new))
        entries = [entry for batch in new for entry in self._told(batch, sessions, conversations)]
        self._below.note(report for batch in new for report in batch.reports)
        entries += self._unchecked(since_ns)
        entries += self._orphaned(conversations, changes)
        entries += self._awaited(entries, changes.received_ns)
        self._place(entries, changes.received_ns)
        old = self._resolve(self._joined(entries, changes), changes)
        old = pair(changes, self._lookup, old)
        changes.old = events_of(old)
        self._later.end()
        return changes

    def learn(self, changes: Changes) -> None:
        """Remembers what was written. To be called after the commit, so that a failed one is not remembered."""
        self._senders.learn(changes.senders, changes.received_ns)
        self._sampled.learn(changes.sampled, changes.received_ns)
        self._switches.learn(changes.switches, changes.received_ns)
        self._unread.update(changes.unread)
        self._requests.update(dict.fromkeys(changes.identities, True))
        self._keys.update(changes.keys)
        self._sessions.update(changes.sessions)
        self._conversations.learn(changes)
        self._wait(changes.waiting)
        self._below.learn(changes.below)
        self._merged.update(changes.redirects)
        for told in (*changes.events, *(report for _, report in changes.reports)):
            if told.get("session_source") in ("trace_id", "instance") and told.get("trace_id"):
                self._orphans.put(told["trace_id"], True)

    def _wait(self, waiting: Sequence[tuple[int, int]]) -> None:
        for ref, event_id in waiting:
            self._waiting.put(ref, (*(self._waiting.get(ref) or ()), event_id))

    def _new_batches(self, batches: Sequence[Batch], changes: Changes) -> list[Batch]:
        asked = [] if self._requests.whole else [b.identity for b in batches if not self._requests.get(b.identity)]
        stored = self._lookup.known_requests(asked) if asked else set()
        seen: set[bytes] = set()
        new = []
        for position, batch in enumerate(batches):
            identity = batch.identity
            if identity in seen or identity in stored or self._requests.get(identity):
                changes.duplicates.add(position)
                changes.accounting["duplicate"] += batch.records
                continue
            seen.add(identity)
            new.append(batch)
            changes.accounting.update(batch.dropped)
            changes.accounting["stored"] += batch.kept
        changes.identities = list(seen)
        return new

    def _sessions_of(self, batches: Sequence[Batch], changes: Changes) -> dict[str, Named]:
        """The session of each trace of these batches that has one; adds those that they tell to the changes."""
        told: dict[str, Named] = {}
        for batch in batches:
            for trace, session in batch.sessions.items():
                named = (batch.named_ns.get(trace, MAX_NS), session)
                told[trace] = min(named, told.get(trace, named))
        reports = (report for batch in batches for report in batch.reports if is_sought(report))
        asked = told.keys() | {report["trace_id"] for report in reports if report.get("trace_id")}
        known = dict(self._sessions.known(asked))
        unknown = set() if self._sessions.whole else asked - known.keys()
        if unknown and self._later.looking:
            with self._later.timed():
                known |= self._lookup.known_sessions(list(unknown))
        elif unknown:
            self._later.postpone(changes.received_ns)
        for trace, named in told.items():
            before = known.get(trace)
            if before is None or named < before:
                changes.sessions[trace] = named
                if before[1] != named[1] if before else trace in self._orphans or not self._orphans.whole:
                    changes.renamed.add(trace)
        return known | changes.sessions

    def _misplaced(self, since_ns: int | None, changes: Changes) -> None:
        """Adds the traces whose session was not looked for when their events were stored."""
        if since_ns is None:
            return
        with self._later.timed():
            found = self._lookup.misplaced(since_ns)
        for trace, named in found.items():
            changes.sessions[trace] = min(named, changes.sessions.get(trace, named))
        changes.renamed.update(found)

    def _moved(self, sessions: Mapping[str, Named], since_ns: int | None, changes: Changes) -> None:
        """Adds the traces whose stored events get the session of their conversation, or another one."""
        moved = [
            trace for trace, before in changes.moved.items()
            if trace not in sessions and (before or trace in self._orphans or not self._orphans.whole)
        ]  # fmt: skip
        if since_ns is not None:
            with self._later.timed():
                moved += self._lookup.strayed(since_ns)
        if moved and not self._sessions.whole:
            told = self._lookup.known_sessions(moved)
            moved = [trace for trace in moved if trace not in told]
        changes.renamed.update(trace for trace in moved if self._sessions.get(trace) is None)

    def _conversations_of(
        self, batches: Sequence[Batch], sessions: Mapping[str, Named], changes: Changes
    ) -> Mapping[str, Named]:
        sought = (report.get("trace_id") for batch in batches for report in batch.reports if is_sought(report))
        asked = {trace for trace in sought if trace and trace not in sessions}
        return self._conversations.names(asked | changes.renamed - changes.sessions.keys(), changes)

    def _told(self, batch: Batch, sessions: Mapping[str, Named], conversations: Mapping[str, Named]) -> Iterator[Entry]:
        for place, report in enumerate(batch.reports):
            if is_sought(report):
                adopt_session(report, sessions, conversations)
            # A report without any key is identified by its place in its request.
            keys = keys_of(report) or [key64("alone", batch.identity.hex(), str(place))]
            yield Entry([report], keys, refs=report.get("_refs") or (), around=around_of(report))

    def _known(self, keys: set[int]) -> dict[int, int]:
        known = {key: self._now(event_id) for key, event_id in self._keys.known(keys)}
        unknown = set() if self._keys.whole else keys - known.keys()
        if unknown:
            with self._later.timed():
                known |= self._lookup.known_keys(list(unknown))
        return known

    def _known_now(self, keys: set[int], needed: set[int], changes: Changes) -> dict[int, int]:
        """The same, but later for those that are not needed now, where looking takes long."""
        if self._later.looking or self._keys.whole:
            return self._known(keys)
        remembered = {key for key, _ in self._keys.known(keys)}
        changes.unchecked = keys - remembered - needed
        if changes.unchecked:
            self._later.postpone(changes.received_ns)
        return self._known(keys - changes.unchecked)

    def _unchecked(self, since_ns: int | None) -> Iterator[Entry]:
        """Stored events that share a key with others, which was not looked for when they were stored."""
        if since_ns is None:
            return
        with self._later.timed():
            shared = self._lookup.sharing(since_ns)
            nested = self._lookup.nested(since_ns)
        if shared or nested:
            for event_id, reports in self._lookup.reports_of(sorted(shared.keys() | nested), 0).items():
                entry = _reloaded(event_id, reports)
                entry.keys += shared.get(event_id, ())
                yield entry

    def _now(self, event_id: int) -> int:
        """The id of the event into which this one was merged, or its own."""
        while (merged := self._merged.get(event_id)) is not None:
            event_id = merged
        return event_id

    def _orphaned(self, conversations: Mapping[str, Named], changes: Changes) -> Iterator[Entry]:
        """Stored events of traces whose session has only now become known: they are folded again with it."""
        orphaned = self._lookup.orphaned(sorted(changes.renamed), changes.received_ns) if changes.renamed else ()
        if not orphaned:
            return
        for event_id, stored in self._lookup.reports_of(sorted(orphaned), changes.received_ns).items():
            reports = [report.copy() for report in stored]
            for report in reports:
                trace = orphan(report)
                if trace in changes.renamed and (trace in changes.sessions or report["session_source"] != "instance"):
                    report["session"] = None
                    adopt_session(report, changes.sessions, conversations)
            yield _reloaded(event_id, reports, stored)

    def _awaited(self, entries: Sequence[Entry], now_ns: int) -> Iterator[Entry]:
        """Stored events that refer to a call whose report has only now arrived."""
        told = {key for entry in entries for key in entry.keys}
        waiting = {self._now(one) for _, event_ids in self._waiting.known(told) for one in event_ids}
        if not self._waiting.whole:
            waiting |= self._lookup.awaiting(sorted(told))
        waiting |= {
            self._now(one) for entry in entries for report in entry.reports for one in self._below.events_below(report)
        }
        waiting.difference_update(entry.event_id for entry in entries if entry.event_id is not None)
        if waiting:
            for event_id, reports in self._lookup.reports_of(sorted(waiting), now_ns).items():
                yield _reloaded(event_id, reports)

    def _place(self, entries: Sequence[Entry], now_ns: int) -> None:
        """Adds the keys made of a call's site and arguments, from all of its reports, new and stored (sites.py)."""
        if placed := [entry for entry in entries if "_site" in entry.reports[0]]:
            known = self._known({key for entry in placed for key in entry.keys})
            told = [(entry.keys, entry.reports) for entry in placed]
            stored = self._lookup.reports_of(sorted(set(known.values())), now_ns) if known else {}
            told += [([key], stored.get(event_id, [])) for key, event_id in known.items()]
            for entry, more in zip(placed, site_keys(told), strict=False):
                entry.keys += more

    def _joined(self, entries: Sequence[Entry], changes: Changes) -> Joiner:
        """Joins entries that share a key with each other or a stored event; the others become events at once."""
        told: set[int] = set()
        shared: set[int] = set()
        for entry in entries:
            shared.update(told.intersection(entry.keys))
            told.update(entry.keys)
        refs = {ref for entry in entries for ref in entry.refs}
        refs.update(key for entry in entries if entry.refs for key, _ in entry.around)
        around = {key for entry in entries for key, _ in entry.around}
        stored = {key for entry in entries if entry.event_id is not None for key in entry.keys}
        known = self._known_now(told | refs | around, refs | stored, changes)
        if not self._keys.whole:
            known |= self._old.known(entries, known, changes.received_ns)
        shared.update(known)
        shared.update((refs | around) & told)
        outer = self._spans_around(entries, around & (told | known.keys()), known, changes.received_ns)
        joiner = Joiner()
        for entry in entries:
            own = entry.keys[0] if entry.event_id is None else entry.event_id  # a stored event need not have a key
            entry.keys += [ref for ref in entry.refs if ref in shared]
            entry.keys += [key for key, inner in entry.around if key in outer and self._is_inside(outer[key], inner)]
            alone = entry.event_id is None and shared.isdisjoint(entry.keys)
            if alone:
                own = new_id(own, changes)
            changes.waiting += [(ref, own) for ref in entry.refs if ref not in shared]
            changes.waiting += [(key, own) for key, inner in entry.around if key not in shared and "_refs" in inner]
            changes.below += [
                (below_key(inner["trace_id"], inner["parent_span_id"], inner["tool"]), own) for _, inner in entry.around
            ]
            if alone:
                insert(fold(entry.reports), own, changes, entry.reports)
                changes.keys.update(dict.fromkeys(entry.keys, own))
            else:
                joiner.add(entry, known)
                changes.keys.update(dict.fromkeys((key for key in entry.keys if key not in known), 0))
        return joiner

    def _spans_around(
        self, entries: Sequence[Entry], wanted: Set[int], known: Mapping[int, int], now_ns: int
    ) -> dict[int, Report]:
        """The spans, new or stored, that are around those of calls."""
        if not wanted:
            return {}
        reports = [one for entry in entries if not wanted.isdisjoint(entry.keys) for one in entry.reports]
        if stored := {known[key] for key in wanted if key in known}:
            reports += [one for some in self._lookup.reports_of(sorted(stored), now_ns).values() for one in some]
        spans = {key64("span", one["trace_id"], one["span_id"]): one for one in sorted(reports, key=as_bytes)
                 if is_call_span(one)}  # fmt: skip
        return {key: spans[key] for key in wanted & spans.keys()}

    def _is_inside(self, outer: Report, inner: Report) -> bool:
        prefixed = outer["tool"].endswith((f"_{inner['tool']}", f"-{inner['tool']}"))
        return ("_refs" in inner and prefixed) or self._below.is_one_call(outer, inner)

    def _resolve(self, joiner: Joiner, changes: Changes) -> dict[int, list[Report]]:
        """Writes what is joined into the changes; returns the stored reports of each event that is replaced."""
        wanted = [event_id for joined in joiner for event_id in joined.event_ids if event_id not in joiner.loaded]
        stored = self._lookup.reports_of(wanted, changes.received_ns) if wanted else {}
        return write(joiner, stored, changes)


def _reloaded(event_id: int, reports: list[Report], stored: list[Report] | None = None) -> Entry:
    """The entry of a stored event; `stored` are its reports before they were given another session."""
    keys = [key for report in reports for key in keys_of(report)]
    refs = [ref for report in reports for ref in report.get("_refs") or ()]
    around = [one for report in reports for one in around_of(report)]
    return Entry(reports, keys, event_id, stored or reports, refs, around)
