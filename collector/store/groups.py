"""Which reports belong together: joined by the keys that they share, with each other and with stored events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from collector.store.batch import Report


@dataclass(slots=True)
class Entry:
    """A new report, or the reports of a stored event (`event_id`) of which more is known now.

    `refs` are keys that belong to another call's report: these reports are of that call, if it is ever told of.
    """

    reports: list[Report]
    keys: list[int]
    event_id: int | None = None
    refs: Sequence[int] = ()


@dataclass(slots=True)
class Group:
    """Reports of one call, with the events in the store that they belong to."""

    reports: list[Report] = field(default_factory=list)
    event_ids: set[int] = field(default_factory=set)
    keys: list[int] = field(default_factory=list)


class Groups:
    """Reports joined by shared keys, transitively."""

    def __init__(self) -> None:
        self._by_key: dict[int, Group] = {}
        self._by_event: dict[int, Group] = {}
        self._all: dict[int, Group] = {}
        self.loaded: dict[int, list[Report]] = {}

    def __iter__(self) -> Iterator[Group]:
        return iter(list(self._all.values()))

    def add(self, entry: Entry, known: dict[int, int]) -> None:
        """Joins the entry to all that it shares a key with."""
        group = self._join(entry.keys, known, entry.event_id)
        if entry.event_id is None:
            group.reports += entry.reports
        else:
            self.loaded[entry.event_id] = entry.reports

    def _join(self, keys: list[int], known: dict[int, int], stored: int | None) -> Group:
        found = {id(group): group for key in keys if (group := self._by_key.get(key)) is not None}
        events = {known[key] for key in keys if key in known}
        if stored is not None:
            events.add(stored)
        found.update({id(group): group for one in events if (group := self._by_event.get(one)) is not None})
        into = next(iter(found.values()), None) or Group()
        self._all[id(into)] = into
        for group in found.values():
            if group is not into:
                self._merge(group, into)
        for key in keys:
            self._by_key[key] = into
        into.keys.extend(keys)
        for one in events:
            self._by_event[one] = into
        into.event_ids |= events
        return into

    def _merge(self, group: Group, into: Group) -> None:
        into.reports.extend(group.reports)
        into.event_ids |= group.event_ids
        into.keys.extend(group.keys)
        for key in group.keys:
            self._by_key[key] = into
        for one in group.event_ids:
            self._by_event[one] = into
        del self._all[id(group)]
