"""Joins the reports of one call by the keys that they share, with each other and with stored events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain

from collector.correlate.changes import Changes
from collector.correlate.fold import as_bytes, fold
from collector.correlate.nested import Below, below_key, is_call_span
from collector.recognise.identify import key64
from collector.report import Report


@dataclass(slots=True)
class Entry:
    """A new report, or the reports of a stored event (`event_id`) of which more is known now.

    `refs` are keys of another call's report: if that report arrives, these reports belong to its call. `around` are the
    keys of spans around those of calls, each with the inner span: these reports belong to that call if it is one
    (nested.py), or if the span of MCP names its tool behind a prefix.
    """

    reports: list[Report]
    keys: list[int]
    event_id: int | None = None
    stored: Sequence[Report] = ()  # the reports of a stored event, before they were given more
    refs: Sequence[int] = ()
    around: Sequence[tuple[int, Report]] = ()


@dataclass(slots=True)
class JoinedReports:
    """New reports of one call, and the stored events that they belong to."""

    reports: list[Report] = field(default_factory=list)
    event_ids: set[int] = field(default_factory=set)
    keys: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Known:
    """What is stored of the calls of some entries: the event of each key, and the reports of these events."""

    events: dict[int, int] = field(default_factory=dict)
    reports: dict[int, list[Report]] = field(default_factory=dict)
    asked: set[int] = field(default_factory=set)  # keys that were looked for

    def unasked(self, entries: Sequence[Entry]) -> tuple[set[int], set[int]]:
        """The keys of these entries that were not looked for, and those of them that are needed at once."""
        keys = set(chain.from_iterable(entry.keys for entry in entries))
        needed: set[int] = set()
        for entry in entries:
            if entry.refs or entry.around:
                around = [key for key, _ in entry.around]
                keys.update(entry.refs, around)
                needed.update(entry.refs, around if entry.refs else ())
            if entry.event_id is not None or "_site" in entry.reports[0]:
                needed.update(entry.keys)
        return keys - self.asked, needed


class Joiner:
    """Entries joined by shared keys, transitively. `loaded` has the reports of stored events among them,
    `old` these as they are stored.
    """

    def __init__(self) -> None:
        self._by_key: dict[int, JoinedReports] = {}
        self._by_event: dict[int, JoinedReports] = {}
        self._all: dict[int, JoinedReports] = {}
        self.loaded: dict[int, list[Report]] = {}
        self.old: dict[int, Sequence[Report]] = {}

    def __iter__(self) -> Iterator[JoinedReports]:
        return iter(list(self._all.values()))

    def add(self, entry: Entry, known: dict[int, int]) -> None:
        """Joins the entry to everything that it shares a key with; `known` has the event of each stored key."""
        joined = self._join(entry.keys, known, entry.event_id)
        if entry.event_id is None:
            joined.reports += entry.reports
        else:
            self.loaded[entry.event_id] = entry.reports
            self.old[entry.event_id] = entry.stored

    def _join(self, keys: list[int], known: dict[int, int], stored: int | None) -> JoinedReports:
        found = {id(one): one for key in keys if (one := self._by_key.get(key)) is not None}
        events = {known[key] for key in keys if key in known}
        if stored is not None:
            events.add(stored)
        found.update({id(one): one for event_id in events if (one := self._by_event.get(event_id)) is not None})
        into = next(iter(found.values()), None) or JoinedReports()
        self._all[id(into)] = into
        for other in found.values():
            if other is not into:
                self._merge(other, into)
        for key in keys:
            self._by_key[key] = into
        into.keys.extend(keys)
        for event_id in events:
            self._by_event[event_id] = into
        into.event_ids |= events
        return into

    def _merge(self, other: JoinedReports, into: JoinedReports) -> None:
        into.reports.extend(other.reports)
        into.event_ids |= other.event_ids
        into.keys.extend(other.keys)
        for key in other.keys:
            self._by_key[key] = into
        for event_id in other.event_ids:
            self._by_event[event_id] = into
        del self._all[id(other)]


def join(entries: Sequence[Entry], known: Known, below: Below, changes: Changes) -> Joiner:
    """Joins entries that share a key with each other or a stored event; the others become events at once."""
    own_keys, shared = _shared(entries)
    referring = [entry for entry in entries if entry.refs or entry.around]
    shared.update(known.events, own_keys.intersection(_referred(referring)))
    around = {key for entry in referring for key, _ in entry.around}
    outer = _spans_around(entries, around & (own_keys | known.events.keys()), known)
    for entry in referring:
        entry.keys += [ref for ref in entry.refs if ref in shared]
        entry.keys += [key for key, inner in entry.around if key in outer and _is_inside(outer[key], inner, below)]
    joiner = Joiner()
    for entry in entries:
        own = entry.keys[0] if entry.event_id is None else entry.event_id  # a stored event need not have a key
        alone = entry.event_id is None and shared.isdisjoint(entry.keys)
        if alone:
            own = changes.new_id(own)
            changes.add(fold(entry.reports), own, entry.reports)
            changes.keys.update(dict.fromkeys(entry.keys, own))
        else:
            joiner.add(entry, known.events)
            changes.keys.update(dict.fromkeys((key for key in entry.keys if key not in known.events), 0))
        if entry.refs or entry.around:
            _note(entry, own, shared, changes)
    return joiner


def _shared(entries: Sequence[Entry]) -> tuple[set[int], set[int]]:
    """All keys of these entries, and those that several have."""
    keys = list(chain.from_iterable(entry.keys for entry in entries))
    every = set(keys)
    if len(every) == len(keys):
        return every, set()
    told = Counter(chain.from_iterable(map(set, (entry.keys for entry in entries))))
    return every, {key for key, count in told.items() if count > 1}


def _referred(referring: Sequence[Entry]) -> Iterator[int]:
    """The keys of other calls' reports that these entries name."""
    for entry in referring:
        yield from entry.refs
        yield from (key for key, _ in entry.around)


def _note(entry: Entry, own: int, shared: Set[int], changes: Changes) -> None:
    """Notes what is to be known of this entry when what it refers to, or what is around it, arrives."""
    changes.waiting += [(ref, own) for ref in entry.refs if ref not in shared]
    for key, inner in entry.around:
        if key not in shared and "_refs" in inner:
            changes.waiting.append((key, own))
        changes.below.append((below_key(inner["trace_id"], inner["parent_span_id"], inner["tool"]), own))


def _spans_around(entries: Sequence[Entry], wanted: Set[int], known: Known) -> Mapping[int, Report]:
    """The spans, new or stored, that are around those of calls."""
    if not wanted:
        return {}
    reports = [report for entry in entries if not wanted.isdisjoint(entry.keys) for report in entry.reports]
    for event_id in {known.events[key] for key in wanted & known.events.keys()}:
        reports += known.reports.get(event_id, ())
    spans = {
        key64("span", report["trace_id"], report["span_id"]): report
        for report in sorted(reports, key=as_bytes)
        if is_call_span(report)
    }
    return {key: spans[key] for key in wanted & spans.keys()}


def _is_inside(outer: Report, inner: Report, below: Below) -> bool:
    prefixed = outer["tool"].endswith((f"_{inner['tool']}", f"-{inner['tool']}"))
    return ("_refs" in inner and prefixed) or below.is_one_call(outer, inner)
