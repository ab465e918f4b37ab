"""Joins the reports of one call by the keys that they share, with each other and with stored events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

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
    stored: list[Report] = field(default_factory=list)  # the reports of a stored event, before they were given more
    refs: Sequence[int] = ()
    around: Sequence[tuple[int, Report]] = ()


@dataclass(slots=True)
class JoinedReports:
    """New reports of one call, and the stored events that they belong to."""

    reports: list[Report] = field(default_factory=list)
    event_ids: set[int] = field(default_factory=set)
    keys: list[int] = field(default_factory=list)


class Joiner:
    """Entries joined by shared keys, transitively. `loaded` has the reports of stored events among them,
    `old` these as they are stored.
    """

    def __init__(self) -> None:
        self._by_key: dict[int, JoinedReports] = {}
        self._by_event: dict[int, JoinedReports] = {}
        self._all: dict[int, JoinedReports] = {}
        self.loaded: dict[int, list[Report]] = {}
        self.old: dict[int, list[Report]] = {}

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
