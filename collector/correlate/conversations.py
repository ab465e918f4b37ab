"""Makes one session of the requests of a conversation that no id names, as each is a trace of its own.

Requests that share a key (recognise/conversation.py) are of one conversation, transitively, in whatever order they
arrive. Its name is the earliest of its traces, or the session that any of its traces is told to have: such a trace has
that in any case, the others get it. Names only become smaller, so that the result depends on no order. Requests that
go on from the same history are of one conversation, even where they go on in parallel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from collector.batch import Batch
from collector.correlate.changes import Changes, Named
from collector.correlate.lookup import Lookup
from collector.correlate.pacing import Later
from collector.recent import Recent

TOLD_NS = 1 << 62  # before all traces: a session that is told is a better name than any of them
KEYS_REMEMBERED = 50_000
TRACES_REMEMBERED = 50_000


def told_name(named: Named) -> Named:
    """The name of a conversation one of whose traces is told to have this session."""
    return named[0] - TOLD_NS, named[1]


def is_told(name: Named) -> bool:
    """Whether the name of a conversation is a session that was told, not a trace."""
    return name[0] < 0


class Conversations:
    """Which trace is of which conversation: the newest in memory, the others in the store."""

    def __init__(self, lookup: Lookup, later: Later, *, fresh: bool) -> None:
        self._lookup = lookup
        self._later = later
        self._keys: Recent[str] = Recent(KEYS_REMEMBERED, whole=fresh)
        self._names: Recent[Named] = Recent(TRACES_REMEMBERED, whole=fresh)
        self.any = not fresh and lookup.has_conversations()  # whether there is one

    def plan(
        self, batches: Sequence[Batch], sessions: Mapping[str, Named], alike: Sequence[Sequence[str]], changes: Changes
    ) -> None:
        """Adds the keys that these batches retell to the changes, and the names of conversations that follow.

        `sessions` are those that traces of these batches are told to have; `alike` are traces that share a key, which
        was not looked for when they were stored.
        """
        retold = [one for batch in batches for one in batch.retold]
        if not retold and not self.any:
            return
        for trace, _, keys in retold:
            changes.retold.update(dict.fromkeys(keys, trace))
        first = self._traces_of(changes.retold.keys(), changes.received_ns)
        groups = [[trace, *(first[key] for key in keys if key in first)] for trace, _, keys in retold]
        groups += [[trace, *(changes.retold[key] for key in keys)] for trace, _, keys in retold]
        groups += map(list, alike)
        before = self.names({trace for group in groups for trace in group} | changes.sessions.keys(), changes)
        names = _Names(before)
        for trace, began_ns, _ in retold:
            names.add(trace, (began_ns, trace))
        for trace in sessions.keys() & names.traces():
            names.add(trace, told_name(sessions[trace]))
        for group in groups:
            names.join(group)
        self._rename(names, before, changes)

    def names(self, traces: Iterable[str], changes: Changes) -> dict[str, Named]:
        """The name of the conversation of each of these traces that is of one."""
        asked = set(traces)
        if not self.any:
            return {trace: changes.conversations[trace] for trace in asked & changes.conversations.keys()}
        known = dict(self._names.known(asked))
        unknown = set() if self._names.whole else asked - known.keys()
        if unknown and self._later.looking:
            with self._later.timed():
                known |= self._lookup.conversations_of(sorted(unknown))
        elif unknown:
            self._later.postpone(changes.received_ns)
        return known | {trace: changes.conversations[trace] for trace in asked & changes.conversations.keys()}

    def learn(self, changes: Changes) -> None:
        """Remembers what was written."""
        self._keys.update(changes.retold)
        self._names.update(changes.conversations)
        self.any = self.any or bool(changes.conversations)

    def _traces_of(self, keys: Iterable[int], received_ns: int) -> dict[int, str]:
        """A trace that told each of these keys before, of those that were told."""
        asked = set(keys)
        known = dict(self._keys.known(asked))
        unknown = set() if self._keys.whole else asked - known.keys()
        if unknown and self._later.looking:
            with self._later.timed():
                known |= self._lookup.traces_retelling(sorted(unknown))
        elif unknown:
            self._later.postpone(received_ns)
        return known

    def _rename(self, names: _Names, before: Mapping[str, Named], changes: Changes) -> None:
        renamed = {name for name in before.values() if names.best(name) != name}
        others = self._lookup.in_conversations(sorted(name[1] for name in renamed)) if renamed else {}
        for trace in names.traces() | others.keys():
            old = before.get(trace) or others.get(trace)
            name = names.best(others[trace]) if trace in others else names.of(trace)
            if name != old:
                changes.conversations[trace] = name
                if old is None or name[1] != old[1]:
                    changes.moved[trace] = old is not None


class _Names:
    """The names of traces, made equal where traces are of one conversation; the smallest is that of all."""

    def __init__(self, known: Mapping[str, Named]) -> None:
        self._of = dict(known)
        self._better: dict[Named, Named] = {}

    def traces(self) -> Set[str]:
        return self._of.keys()

    def add(self, trace: str, name: Named) -> None:
        """Another name of the conversation of this trace."""
        self._same(self._of.setdefault(trace, name), name)

    def join(self, traces: Iterable[str]) -> None:
        """Makes one conversation of these traces; one whose name is not known is left for later."""
        named = [self._of[trace] for trace in traces if trace in self._of]
        for name in named[1:]:
            self._same(named[0], name)

    def of(self, trace: str) -> Named:
        return self.best(self._of[trace])

    def best(self, name: Named) -> Named:
        """The smallest name of the conversation that has this one."""
        path = []
        while (better := self._better.get(name)) is not None:
            path.append(name)
            name = better
        self._better.update(dict.fromkeys(path, name))
        return name

    def _same(self, one: Named, other: Named) -> None:
        one, other = self.best(one), self.best(other)
        if one != other:
            self._better[max(one, other)] = min(one, other)
