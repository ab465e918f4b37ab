"""Publishes what changed in the local store to the cluster, in turns, in a thread of its own.

Nobody who sends waits for it. A turn is sent until the cluster has it: a block that arrived although its answer was
lost is known by its token, and a turn cut by a kill is taken again with newer versions of the same rows. While the
cluster is away the notes wait in the store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import nanoarrow as na
import structlog
from nanoarrow.ipc import InputStream

from collector import telemetry
from collector.cluster.client import Cluster, ClusterError
from collector.engine import Turn, Unpublished
from collector.errors import CalledOff, Unavailable
from collector.loop import WRITING, Loop
from collector.seldom import Seldom

EVERY_S = 0.5  # after a turn, for the next to be worth its statements
MOST = 5_000  # places in a turn: about 6 MB
AWAY_S = 2.0  # between attempts while the cluster is away
WRONG_S = 15.0  # the same where it refuses the statements, as without its tables
HEARTBEAT_S = 10.0
CLOSE_S = 3.0
SENDERS_S = 10.0
OVERLAP_NS = 120 * 10**9  # senders are noted once a minute
ARROW = {"input_format_arrow_allow_missing_columns": "1", "input_format_null_as_default": "1"}
MANY_DAYS = {"max_partitions_per_insert_block": "0"}  # an import has events of months

log = structlog.get_logger()


class Publisher:
    """`start` it, `noted` after each commit; `settle` waits until what was committed is published."""

    def __init__(self, outbox: Unpublished, cluster: Cluster) -> None:
        self._outbox = outbox
        self._cluster = cluster
        self._opened = False
        self._turn: Turn | None = None  # taken, and not known to be published
        self._noted, self._done = 1, 0
        self._since = time.time_ns()  # everything answered before is published
        self._beaten = self._told = 0.0
        self._senders_ns = 0
        self._beaten_pending = 0
        self.problem = ""  # why nothing can be published now
        self._asked = False
        self._seldom = Seldom()
        self._loop = Loop("publisher", self._work, failed=self._failed, niceness=WRITING, pause_s=lambda: AWAY_S)
        self._wake = self._loop.wake

    def start(self) -> None:
        """Starts the thread."""
        self._loop.start()

    def close(self) -> None:
        """Publishes what it can in a moment; what is left is published after the next start. If nothing is, others need
        not wait to hear of this collector.
        """
        published = self.settle(CLOSE_S)
        self._loop.close()
        if published and not self._outbox.pending():
            with suppress(Unavailable, ClusterError):
                self._beat(0, gone=True)
        self._cluster.close()

    def noted(self) -> None:
        """To be called when events were committed or changed, or streaks computed."""
        with self._wake:
            self._noted += 1
            self._wake.notify_all()

    def settle(self, timeout_s: float) -> bool:
        """Waits until everything noted before this call is published; whether it is. Not while the cluster is away."""
        with self._wake:
            wanted = self._noted
            self._asked = True
            self._wake.notify_all()
            self._wake.wait_for(lambda: self._done >= wanted or bool(self.problem) or self._loop.closing, timeout_s)
            return self._done >= wanted

    def fence(self) -> Callable[[], bool]:
        """What says whether all that was noted before this call is published."""
        with self._wake:
            self._noted += 1
            wanted = self._noted
            self._wake.notify_all()
        return lambda: self._done >= wanted

    def state(self) -> dict[str, Any]:
        """For Health: where to, what waits since when, and why."""
        waiting = self._outbox.pending()
        behind = (time.time_ns() - self._since) / 1e9 if waiting or self.problem else 0.0
        return {
            "to": self._cluster.place.address,
            "database": self._cluster.database,
            "collector": self._outbox.collector,
            "waiting_rows": waiting,
            "behind_seconds": round(behind, 1),
            "problem": self.problem,
        }

    def _work(self) -> bool:
        with self._wake:
            self._wake.wait_for(lambda: self._asked or self._loop.closing, EVERY_S)
            self._wake.wait_for(
                lambda: self._done < self._noted or bool(self.problem) or self._loop.closing, HEARTBEAT_S
            )
            if self._loop.closing:
                return False
            noted, self._asked = self._noted, False
        began = time.time_ns()
        try:
            published = self._publish()
        except (Unavailable, ClusterError, CalledOff) as error:
            self._away(error)
            return True
        with self._wake:
            self.problem = ""
            if published:
                self._done, self._since = noted, began
            self._wake.notify_all()
        return True

    def _publish(self) -> bool:
        """Takes turns until what waited at the beginning is published; whether it is. What comes meanwhile is for the
        next time: under load there would be no end to it.
        """
        if not self._opened:
            self._outbox.open(f"{self._cluster.place.address}/{self._cluster.database}")
            self._opened = True
        if self._turn:
            self._send(self._turn)
        left = self._outbox.pending()
        while left > 0 and not self._loop.closing and (turn := self._outbox.take(MOST)):
            self._send(turn)
            left -= MOST
        pending, now = self._outbox.pending(), time.monotonic()
        if (self._beaten_pending and not pending) or now - self._beaten >= HEARTBEAT_S:
            self._beat(pending)
        if now - self._told >= SENDERS_S:
            self._tell_senders()
            self._told = now
        return left <= 0

    def _send(self, turn: Turn) -> None:
        self._turn = turn
        if not self._beaten_pending:  # others must know before the rows are there
            self._beat(self._outbox.pending())
        send(self._cluster, self._outbox.collector, turn)
        self._outbox.done(turn)
        self._turn = None
        if self.problem:
            log.info("publishing to the cluster goes on", waiting_rows=self._outbox.pending())
            self.problem = ""

    def _tell_senders(self) -> None:
        began = time.time_ns()
        if block := self._outbox.senders(self._senders_ns):
            insert_arrow(self._cluster, "senders_rows", block, f"{self._outbox.collector}/senders/{began}")
        self._senders_ns = began - OVERLAP_NS

    def _beat(self, pending: int, *, gone: bool = False) -> None:
        """Says how far this collector has come, for the answers of others."""
        at, collector = time.time_ns(), self._outbox.collector
        row = {"collector": collector, "at_ns": at, "published_ns": self._since, "pending": pending}
        self._cluster.insert("collectors_rows", [row | {"version": at, "gone": int(gone)}], f"{collector}/{at}")
        self._beaten, self._beaten_pending = time.monotonic(), pending

    def _away(self, error: Exception) -> None:
        telemetry.FAILED.labels("publisher").inc()
        with self._wake:
            self.problem = str(error)[:300] or type(error).__name__
            self._wake.notify_all()
        if self._seldom.due(self.problem):
            log.error("nothing can be published to the cluster: what changes waits in the store", error=self.problem)
        with self._wake:
            pause = WRONG_S if isinstance(error, ClusterError) else AWAY_S
            self._wake.wait_for(lambda: self._loop.closing, pause)

    def _failed(self, error: Exception) -> None:
        telemetry.FAILED.labels("publisher").inc()
        log.error("publishing failed", kind=type(error).__name__, error=str(error)[:300])


def send(cluster: Cluster, collector: str, turn: Turn) -> None:
    """Inserts a turn; again and again is as good as once. Raises Unavailable or ClusterError."""
    for table, block in turn.blocks.items():
        insert_arrow(cluster, f"{table}_rows", block, f"{collector}/{turn.number}/{table}")


def insert_arrow(cluster: Cluster, table: str, block: bytes, token: str) -> None:
    """Adds the rows of an Arrow IPC stream as one block."""
    names = ", ".join(f"`{name}`" for name in _names(block))
    # Once, as the publisher tries again by itself, and says so once.
    settings: Mapping[str, str] = {"insert_deduplication_token": token, "async_insert": "0", **ARROW, **MANY_DAYS}
    cluster.run(f"insert into {table} ({names}) format ArrowStream", data=block, settings=settings, tries=1)


def _names(block: bytes) -> list[str]:
    """The columns of an Arrow IPC stream."""
    with InputStream.from_readable(block) as stream, na.c_array_stream(stream) as told:
        return [child.name for child in told.get_schema().children]
