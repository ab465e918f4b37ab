"""Finds the events of calls that are told of again when their keys are no longer kept: by session and call id, or by
the first key, which is the id of an event.

Keys are kept for a day (schemas/ingest.sql). What ended within it is found by them, and costs nothing here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from collector.columns import Row
from collector.correlate.join import Entry
from collector.correlate.lookup import Lookup
from collector.projects import within
from collector.recognise.identify import UNIQUE, family, uniqueness
from collector.report import Report
from collector.times import DAY, HOUR

KEPT_NS = 23 * HOUR  # keys are removed after a day, at an hour of the engine's own
AROUND_NS = DAY  # clocks of those who tell of one call differ by less


_Name = tuple[str, str, str]  # operation within the project, who numbers calls, call id


class OldCalls:
    """Which stored events reports of old calls are of."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._checked_ns = 0
        self._kept_since_ns = 0

    def known(self, entries: Iterable[Entry], known: Mapping[int, int], now_ns: int) -> dict[int, int]:
        """The event of each report whose call is old and in the store, by the report's first key."""
        asked = [entry for entry in entries if self._is_old(entry, now_ns) and known.keys().isdisjoint(entry.keys)]
        if not asked:
            return {}
        times = [entry.reports[0]["time_ns"] for entry in asked]
        ids = {name for entry in asked if (name := entry.reports[0].get("call_id"))}
        keys = {key for entry in asked for key in entry.keys}
        since_ns, until_ns = min(times) - AROUND_NS, max(times) + AROUND_NS
        named: dict[_Name, list[Row]] = defaultdict(list)
        by_id = {}
        for row in self._lookup.ended_between(since_ns, until_ns, list(ids), list(keys)):
            named[_name(row)].append(row)
            by_id[row["event_id"]] = row
        found = {}
        for entry in asked:
            report = entry.reports[0]
            rows = [by_id[key] for key in entry.keys if key in by_id]
            rows = rows or [row for row in named.get(_name(report), ()) if _is_same(row, report)]
            if rows:
                found[entry.keys[0]] = _nearest(rows, report)
        return found

    def _is_old(self, entry: Entry, now_ns: int) -> bool:
        """Whether the keys of a call may be gone."""
        if entry.event_id is not None:
            return False
        time_ns = entry.reports[0]["time_ns"]
        return time_ns < now_ns - KEPT_NS or (time_ns < now_ns - HOUR and time_ns < self._since(now_ns))

    def _since(self, now_ns: int) -> int:
        """Since when keys are kept, if there were too many for a day."""
        if now_ns - self._checked_ns > HOUR:
            self._checked_ns, self._kept_since_ns = now_ns, self._lookup.keys_kept_since()
        return self._kept_since_ns


def _name(told: Report | Row) -> _Name:
    who = family(told.get("source") or "", told.get("service") or "")
    return within(told.get("project"), told.get("operation") or ""), who, told.get("call_id") or ""


def _is_same(row: Row, report: Report) -> bool:
    """Whether a stored event is of this call: ids of local models are given again in other sessions."""
    if not (call_id := report.get("call_id")):
        return False
    if row["session"] == report.get("session"):
        return True
    return (
        uniqueness(call_id, report.get("tool", "")) == UNIQUE
        or row["time_ns"] == report["time_ns"]
        or (row["session"] is None and abs(row["time_ns"] - report["time_ns"]) < HOUR)
    )


def _nearest(rows: Sequence[Row], report: Report) -> int:
    """Of several attempts, the one that is nearest in time."""
    nearest = min(rows, key=lambda row: (abs(row["time_ns"] - report["time_ns"]), row["event_id"]))
    event_id: int = nearest["event_id"]
    return event_id
