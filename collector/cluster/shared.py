"""Small values by kind and key that all collectors of a cluster have alike: the last version of each counts.

Versions are times of the cluster's own clock. What is gone leaves a mark, so that no older version comes back.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec

from collector.cluster.client import Cluster, ClusterError
from collector.cluster.reads import SILENT_NS
from collector.errors import Unavailable
from collector.times import MINUTE

FOR_GOOD = 4_000_000_000  # in 2096: times of ClickHouse end soon after
OVERLAP_NS = MINUTE  # servers' clocks differ, and what is written becomes visible later
PATIENCE_S = 5.0  # and one attempt: the next is a moment away
CHANGED = """
  select kind, key, max(version) as last, argMax(value, version) as text, argMax(gone, version) as over
  from shared_rows group by kind, key having last > {since:UInt64}
"""
ONE = """
  select max(version) as last, argMax(value, version) as text, argMax(gone, version) as over
  from shared_rows where kind = {kind:String} and key = {key:String} having count() > 0
"""
SILENT = "select collector from collectors where at_ns < {since:Int64} order by collector"
SAMPLES = "select * from alert_samples_rows final where time_ns > {since:Int64}"

Place = tuple[str, str]  # kind and key


class Value(NamedTuple):
    """A value as the cluster has it: JSON or sealed text, and its version; None: there is none."""

    text: str | None
    version: int


class Shared:
    """For any thread, but `changes` for one. Methods raise Unavailable."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._seen: dict[Place, int] = {}  # versions that `changes` has told of, and may be told of again
        self._newest = 0
        self._lock = threading.Lock()
        self._written: dict[Place, int] = {}  # by this collector, since the last `changes`
        self._writes = 0

    def put(self, kind: str, rows: Iterable[tuple[str, Any]], kept_s: int = 0) -> None:
        """Sets values, for so many seconds, 0: for good."""
        encode = msgspec.json.Encoder().encode
        self._write(kind, [{"key": key, "value": encode(value).decode()} for key, value in rows], kept_s)

    def remove(self, kind: str, keys: Iterable[str]) -> None:
        """Removes values."""
        self._write(kind, [{"key": key, "gone": 1} for key in keys])

    def append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Adds rows of alert_samples."""
        with told():
            self._cluster.insert("alert_samples_rows", rows, uuid.uuid4().hex)

    def samples(self, since_ns: int) -> list[dict[str, Any]]:
        """Rows of alert_samples after a time."""
        with told():
            return self._cluster.rows(SAMPLES, {"since": since_ns}, tries=1)

    def silent(self) -> list[str]:
        """The collectors that were not heard of for a minute, and did not say that they stop."""
        with told():
            rows = self._cluster.rows(SILENT, {"since": time.time_ns() - SILENT_NS}, timeout_s=PATIENCE_S, tries=1)
        return [row["collector"] for row in rows]

    def changes(self) -> dict[str, dict[str, str | None]]:
        """By kind and key what others have changed since this was last asked, None where it is gone: at first all."""
        with self._lock:
            self._written, began = {}, self._writes
        since = max(0, self._newest - OVERLAP_NS)
        with told():
            rows = self._cluster.rows(CHANGED, {"since": since}, timeout_s=PATIENCE_S, tries=1)
        self._newest = max([self._newest, *(row["last"] for row in rows)])
        found: dict[str, dict[str, str | None]] = {}
        with self._lock:
            own = {place for place, number in self._written.items() if number > began}
        for row in rows:
            place = row["kind"], row["key"]
            if self._seen.get(place) != row["last"] and place not in own:  # it is told of at the next time
                found.setdefault(place[0], {})[place[1]] = None if row["over"] else row["text"]
                self._seen[place] = row["last"]
        since = self._newest - OVERLAP_NS
        self._seen = {place: version for place, version in self._seen.items() if version > since}
        return found

    def again(self) -> None:
        """Makes the next `changes` tell of everything, as something that it told of was not taken."""
        self._newest, self._seen = 0, {}

    def one(self, kind: str, key: str) -> Value:
        """A value as it is now."""
        with told():
            rows = self._cluster.rows(ONE, {"kind": kind, "key": key}, timeout_s=PATIENCE_S, tries=1)
        if not rows:
            return Value(None, 0)
        return Value(None if rows[0]["over"] else rows[0]["text"], rows[0]["last"])

    def replace(self, kind: str, key: str, before: Value, text: str) -> bool:
        """Sets a value if it is still the one that was read; whether it was. Of several who try, one succeeds."""
        row = {"kind": kind, "key": key, "value": text, "until": FOR_GOOD}
        with told():  # of blocks with one token, the table takes the first
            self._cluster.insert(
                "shared_rows", [row], f"shared/{kind}/{key}/after {before.version}", timeout_s=PATIENCE_S
            )
        return self.one(kind, key).text == text

    def _write(self, kind: str, rows: list[dict[str, Any]], kept_s: int = 0) -> None:
        if not rows:
            return
        with self._lock:
            self._writes += 1
            self._written |= {(kind, row["key"]): self._writes for row in rows}
        with told():
            until = int(time.time()) + kept_s if kept_s else FOR_GOOD
            whole = ({"kind": kind, "until": until, **row} for row in rows)
            self._cluster.insert("shared_rows", whole, uuid.uuid4().hex, timeout_s=PATIENCE_S)


@contextmanager
def told() -> Iterator[None]:
    """Says of a cluster that does not take or tell something what that means."""
    try:
        yield
    except Unavailable as error:
        raise Unavailable(f"{error}; what the collectors of a cluster share cannot change meanwhile", 5) from error
    except ClusterError as error:
        raise Unavailable(f"the cluster refuses: {error}; misstep cluster check says why", 30) from error
