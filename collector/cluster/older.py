"""Brings sessions back from the cluster that a batch tells more of, and that are no longer in the local store: an
import, or a report that comes days late. They are folded there as ever, published, and removed again by retention.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import structlog

from collector.batch import Batch
from collector.cluster.client import Cluster, ClusterError
from collector.cluster.reach import TIME, columns_of, named
from collector.cluster.tables import VERSIONED
from collector.engine import BroughtBack
from collector.errors import Unavailable
from collector.recent import Recent
from collector.report import Report
from collector.seldom import Seldom
from collector.times import DAY, HOUR, MINUTE, SECOND

AROUND_NS = 2 * DAY  # of a session, what is nearer: streaks and chains end at a pause of an hour
AGAIN_NS = 5 * MINUTE  # until a session is looked for again: retention may remove it every ten minutes
PATIENCE_S = 10.0
AWAY_NS = 15 * SECOND  # until a cluster that did not answer is asked again: meanwhile nothing is written
REMEMBERED = 20_000  # sessions, calls and traces that were looked for
NAMED = ("session", "call_id", "trace_id")  # what tells of which session a report may be
SESSIONS = """
  select distinct session from events
  where time_ns between {low:Int64} and {high:Int64}
    and (
      session in {sessions:Array(String)} or call_id in {calls:Array(String)} or trace_id in {traces:Array(String)}
    ) and session is not null
"""
ROWS = """
  select {columns} from {table}
  where {time} between {{low:Int64}} and {{high:Int64}} and session in {{sessions:Array(String)}}
"""

log = structlog.get_logger()


class Older:
    """For the writer's thread: called with each lot before it is correlated."""

    def __init__(
        self, cluster: Cluster, store: BroughtBack, local_ns: int, clock: Callable[[], int] = time.time_ns
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._local_ns = local_ns - HOUR  # what is about to go may be gone
        self._clock = clock
        self._sought: Recent[int] = Recent(REMEMBERED)
        self._seldom = Seldom()
        self._away_until = 0

    def __call__(self, batches: Iterable[Batch]) -> None:
        """Never raises: while the cluster is away, what comes is folded with what is here."""
        now = self._clock()
        horizon = now - self._local_ns
        old = [report for batch in batches for report in batch.reports if report["time_ns"] < horizon]
        if not old or now < self._away_until:
            return
        try:
            self._bring(old)
        except (Unavailable, ClusterError) as error:
            self._away_until = self._clock() + AWAY_NS
            if self._seldom.due(str(error)):
                log.warning("old calls are stored without what the cluster has of them", error=str(error)[:300])

    def _bring(self, old: Sequence[Report]) -> None:
        new = {name: self._new(name, old) for name in NAMED}
        if not any(new.values()):
            return
        times = [report["time_ns"] for report in old]
        given = {"low": min(times) - AROUND_NS, "high": max(times) + AROUND_NS}
        found: set[str] = set()
        for some in zip_longest(*(named(values, str) for values in new.values()), fillvalue=()):
            asked = given | dict(zip(("sessions", "calls", "traces"), some, strict=True))
            found |= {row["session"] for row in self._cluster.rows(SESSIONS, asked, timeout_s=PATIENCE_S)}
        for sessions in named(sorted(found), str):
            self._bring_sessions(given | {"sessions": sessions})
        for name, values in new.items():
            for value in values:
                self._sought.put(f"{name} {value}", self._clock())

    def _bring_sessions(self, asked: Mapping[str, Any]) -> None:
        for table in VERSIONED:
            names = ", ".join(f"`{name}`" for name in columns_of(self._cluster, self._store, table))
            sql = ROWS.format(columns=names, table=table, time=TIME[table])
            with self._cluster.stream(sql, asked, timeout_s=PATIENCE_S) as told:
                self._store.bring_back(table, b"".join(told))

    def _new(self, name: str, reports: Iterable[Mapping[str, object]]) -> list[str]:
        """What these reports say of a name, but for what was looked for lately."""
        since = self._clock() - AGAIN_NS
        values = {str(report[name]) for report in reports if report.get(name)}
        return sorted(value for value in values if (self._sought.get(f"{name} {value}") or 0) < since)
