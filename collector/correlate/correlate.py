"""Folds reports into events: one event per call, whichever of its reports comes first.

Agents report a call two to four times: a log, a span, its child, MCP spans, the tool result in a later model request.
Reports that share a key become one event, or one for each attempt (attempts.py). The fold is commutative and
idempotent, so the order, batching and repetition of reports do not change what is stored. `Correlator.plan` decides,
the store writes, `Correlator.learn` remembers.

What is not remembered is asked in rounds, as each depends on the one before: requests, traces and what was postponed;
then keys, because a call's key has its session; then the reports of the events that have these keys. Only what these
bring is asked for keys and reports again: stored events that waited for a call, and calls that are found by their site
(sites.py). Twins are asked for last: which reports look for one shows when they are folded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from collector.batch import Batch
from collector.correlate.changes import ACCEPTED, Changes, Named
from collector.correlate.fold import events_of
from collector.correlate.gather import entries_of, renamed, stored_entry, told_sessions
from collector.correlate.join import Entry, Known, join
from collector.correlate.lookup import Lookup
from collector.correlate.memory import Memory, Postponed
from collector.correlate.pacing import Later
from collector.correlate.senders import counted, owned
from collector.correlate.sessions import adopt_session, seeking
from collector.correlate.sites import site_keys
from collector.correlate.twins import pair
from collector.correlate.write import write


class Correlator:
    """Decides which reports are new events, which correct a stored one, and which are repetitions."""

    def __init__(self, lookup: Lookup, *, fresh: bool, later: Later | None = None) -> None:
        """`fresh`: the store is empty, so that nothing needs to be looked up until something was forgotten."""
        self._memory = Memory(lookup, later or Later(), fresh=fresh)

    def plan(self, batches: Sequence[Batch]) -> Changes:
        """What must be written so that the store holds these batches, each request and each call once."""
        memory = self._memory
        changes = Changes(max(batch.received_ns for batch in batches))
        new = self._new_batches(batches, changes)
        postponed = memory.begin()
        self._note_senders(new, changes)
        seekers = seeking(report for batch in new for report in batch.reports)
        sought = {trace for report in seekers if (trace := report.get("trace_id"))}
        sessions = self._sessions_of(new, sought, postponed, changes)
        conversations = self._conversations_of(new, sessions, sought - sessions.keys(), postponed, changes)
        for report in seekers:
            adopt_session(report, sessions, conversations)
        entries = [*entries_of(new)]
        memory.below.note(report for batch in new for report in batch.reports)
        entries += self._changed(postponed, conversations, changes)
        known = self._ask(entries, changes)
        old = write(join(entries, known, memory.below, changes), known.reports, changes)
        changes.old = events_of(pair(changes, memory, old))
        memory.later.end()
        return changes

    def learn(self, changes: Changes) -> None:
        """Remembers what was written. To be called after the commit, so that a failed one is not remembered."""
        self._memory.learn(changes)

    def _new_batches(self, batches: Sequence[Batch], changes: Changes) -> list[Batch]:
        stored = self._memory.requests(batch.identity for batch in batches)
        seen: set[bytes] = set()
        new = []
        for position, batch in enumerate(batches):
            changes.accounting[ACCEPTED, batch.project] += batch.records
            if batch.identity in seen or batch.identity in stored:
                changes.duplicates.add(position)
                changes.accounting["duplicate", batch.project] += batch.records
                continue
            seen.add(batch.identity)
            new.append(batch)
            changes.accounting.update({(reason, batch.project): records for reason, records in batch.dropped.items()})
            changes.accounting["stored", batch.project] += batch.kept
        changes.identities = list(seen)
        return new

    def _note_senders(self, batches: Sequence[Batch], changes: Changes) -> None:
        memory, now_ns = self._memory, changes.received_ns
        changes.senders = memory.senders.due((owned(batch, batch.senders) for batch in batches), now_ns)
        changes.sampled = memory.sampled.due((owned(batch, batch.sampled) for batch in batches), now_ns)
        switches = (owned(batch, dict.fromkeys(batch.switches)) for batch in batches)
        changes.switches = memory.switches.due(switches, now_ns)
        changes.unread = counted(memory.unread, (owned(batch, dict(batch.unread)).items() for batch in batches))

    def _sessions_of(
        self, batches: Sequence[Batch], sought: Set[str], postponed: Postponed, changes: Changes
    ) -> dict[str, Named]:
        """The session of each trace that is told or sought, if it has one; adds those that these batches tell, and
        those that were not looked for when events were stored, to the changes.
        """
        told = told_sessions(batches)
        known = self._memory.sessions(told.keys() | sought, changes.received_ns)
        for trace, named in told.items():
            before = known.get(trace)
            if before is None or named < before:
                changes.sessions[trace] = named
                if before[1] != named[1] if before else self._memory.may_be_orphan(trace):
                    changes.renamed.add(trace)
        sessions = known | changes.sessions
        for trace, named in postponed.misplaced.items():
            changes.sessions[trace] = min(named, changes.sessions.get(trace, named))
        changes.renamed.update(postponed.misplaced)
        return sessions

    def _conversations_of(
        self,
        batches: Sequence[Batch],
        sessions: Mapping[str, Named],
        sought: Set[str],
        postponed: Postponed,
        changes: Changes,
    ) -> Mapping[str, Named]:
        """The conversation of each trace that is sought and has no session; adds to the changes the traces whose stored
        events get the session of their conversation, or another one.
        """
        memory = self._memory
        memory.conversations.plan(batches, sessions, postponed.alike, changes)
        moved = [
            trace
            for trace, before in changes.moved.items()
            if trace not in sessions and (before or memory.may_be_orphan(trace))
        ]
        changes.renamed |= memory.without_session([*moved, *postponed.strayed])
        return memory.conversations.names(sought | changes.renamed - changes.sessions.keys(), changes)

    def _changed(self, postponed: Postponed, conversations: Mapping[str, Named], changes: Changes) -> list[Entry]:
        """The stored events that are folded again: with a session that has only now become known, or because they share
        a key with others, which was not looked for when they were stored.
        """
        orphaned = self._memory.orphaned(changes.renamed, changes.received_ns)
        again = orphaned | postponed.sharing.keys() | postponed.nested
        entries = []
        for event_id, stored in self._memory.reports(again, changes.received_ns).items():
            reports = renamed(stored, changes.renamed, changes.sessions, conversations)
            entry = stored_entry(event_id, stored, reports if event_id in orphaned else None)
            entry.keys += postponed.sharing.get(event_id, ())
            entries.append(entry)
        return entries

    def _ask(self, entries: list[Entry], changes: Changes) -> Known:
        """What is stored of the calls of these entries; adds an entry for each event that waited for one of them, and
        the keys made of a call's site and arguments, from all of its reports, new and stored.
        """
        known = Known()
        waiting = self._memory.waiting(entries)
        self._look_up(entries, known, changes, waiting)
        waited = [stored_entry(one, known.reports[one]) for one in sorted(waiting) if one in known.reports]
        self._look_up(waited, known, changes)
        entries += waited
        placed = [entry for entry in entries if "_site" in entry.reports[0]]
        if placed:
            told = [(entry.keys, entry.reports) for entry in placed]
            keys = {key for entry in placed for key in entry.keys} & known.events.keys()
            told += [([key], known.reports.get(known.events[key], [])) for key in keys]
            for entry, more in zip(placed, site_keys(told), strict=False):
                entry.keys += more
            self._look_up(placed, known, changes)
        old = self._memory.old_events(entries, known.events, changes.received_ns)
        known.events |= old
        known.reports |= self._memory.reports(set(old.values()), changes.received_ns)
        return known

    def _look_up(self, entries: Sequence[Entry], known: Known, changes: Changes, more: Set[int] = frozenset()) -> None:
        """Asks for the events of the keys of these entries that were not asked for, and for the reports of these and of
        some more events.
        """
        keys, needed = known.unasked(entries)
        found = self._memory.events(keys, needed, changes)
        known.asked |= keys - changes.unchecked
        known.events |= found
        known.reports |= self._memory.reports(more | set(found.values()), changes.received_ns)
