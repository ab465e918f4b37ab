"""Keeps a collector together with the others of its cluster, in a thread of its own: what they share is taken within
seconds, and one of them holds the lease by which it evaluates the alert rules.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

import msgspec
import structlog

from collector import telemetry
from collector.cluster.client import Cluster, ClusterError
from collector.cluster.errands import KIND as ERRANDS
from collector.cluster.errands import Errands
from collector.cluster.files import KIND, Remembers, SharedFile
from collector.cluster.lease import Lease
from collector.cluster.shared import Place, Shared
from collector.errors import CalledOff, Unavailable
from collector.loop import WRITING, Loop
from collector.seldom import Seldom
from collector.times import MINUTE, WEEK

EVERY_S = 1.5
SELDOM_S = 10.0
LED = "evaluated last"  # in `meta`

log = structlog.get_logger()


def told(rows: Mapping[str, str | None]) -> dict[str, Any]:
    """Values by key; None where one is gone."""
    return {key: text and msgspec.json.decode(text) for key, text in rows.items()}


class Kept(Protocol):
    """What keeps what is shared: collector.alerts.ledger.Ledger."""

    def take_samples(self, rows: Collection[Mapping[str, Any]]) -> None: ...

    def newest_sample_ns(self) -> int: ...

    def give(self, known: Collection[Place]) -> None: ...


class Taker(Protocol):
    """Who takes what others changed: collector.alerts.engine.Engine."""

    @property
    def ledger(self) -> Kept: ...

    def take(self, kind: str, rows: Mapping[str, Any]) -> None: ...

    def read_again(self) -> None: ...


class Sharing:
    """Implements collector.alerts.together.Together. `start` it with who takes what others changed."""

    def __init__(
        self,
        cluster: Cluster,
        me: str,
        meta: Remembers,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.shared = Shared(cluster)
        self.files: list[SharedFile] = []
        self.errands = Errands(self.shared, meta, me)
        self._cluster = cluster
        self._lease = Lease(cluster, me, clock)
        self._meta = meta
        self._clock = clock
        self._reached = clock()
        self._problem = ""
        self._led = meta.value(LED) == "yes"
        self._joined = self._taken = False
        self._looked = -SELDOM_S
        self._silent: list[str] = []
        self._seldom = Seldom()
        self._loop = Loop("sharing", self._work, failed=self._failed, niceness=WRITING, pause_s=lambda: EVERY_S)

    def join(self, engine: Taker) -> None:
        """Names who takes what is shared; to be called first."""
        self._taker = engine

    def start(self) -> None:
        """Starts the thread."""
        self._loop.start()

    def close(self) -> None:
        """Lets another one evaluate, and ends."""
        self._loop.close()
        with suppress(Unavailable, ClusterError):
            self._lease.release()
        self._cluster.close()

    def evaluates(self) -> bool:
        return self._taken and self._lease.held()

    def away_s(self) -> float | None:
        return self._clock() - self._reached if self._problem and self._led else None

    def problem(self) -> str:
        return self._problem

    def put(self, kind: str, rows: Iterable[tuple[str, Any]], kept_s: int = 0) -> None:
        self.shared.put(kind, rows, kept_s)

    def remove(self, kind: str, keys: Iterable[str]) -> None:
        self.shared.remove(kind, keys)

    def append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.shared.append(rows)

    def state(self) -> dict[str, Any]:
        """For Health: which collector evaluates the rules as far as this one knows, whether it is this one, why it
        shares nothing, and which collectors fell silent.
        """
        return {
            "evaluates": self._lease.holder,
            "evaluates_here": self.evaluates(),
            "sharing_problem": self._problem,
            "silent": self._silent,
        }

    def turn(self) -> None:
        """Takes what others changed, and renews the lease or looks for it; never raises. For one thread."""
        try:
            self._turn()
        except (Unavailable, ClusterError, CalledOff) as error:
            self._away(str(error)[:300] or type(error).__name__)
        else:
            self._problem, self._reached = "", self._clock()

    def _work(self) -> bool:
        with self._loop.wake:
            self._loop.wake.wait_for(lambda: self._loop.closing, EVERY_S if self._joined or self._problem else 0)
            if self._loop.closing:
                return False
        self.turn()
        return True

    def _turn(self) -> None:
        """What is shared is taken before the lease, and again once this collector has it: it goes on from there."""
        if not self._lease.held():
            self._taken = False
        self._take()
        for file in self.files:
            file.look()
        self.errands.look()
        self._lease.turn()
        if self._lease.held() and not self._taken:
            self._take()
            self._taker.read_again()
            self._taken = True
        if self._led != self._lease.held():
            self._led = self._lease.held()
            self._meta.put(LED, "yes" if self._led else "")
        if self._clock() - self._looked >= SELDOM_S:
            self._look()
            self._looked = self._clock()

    def _look(self) -> None:
        """At what may be seen a little later."""
        self._silent = self.shared.silent()
        if not self._taken:
            newest = self._taker.ledger.newest_sample_ns()
            self._taker.ledger.take_samples(self.shared.samples(max(newest - MINUTE, time.time_ns() - WEEK)))

    def _take(self) -> None:
        changes = self.shared.changes()
        files = changes.pop(KIND, {})
        for file in self.files:
            if file.name in files:
                file.take(files[file.name])
        if not self._joined:
            self._taker.ledger.give({(kind, key) for kind, rows in changes.items() for key in rows})
            self._joined = True
        self.errands.take(told(changes.pop(ERRANDS, {})))
        for kind, rows in changes.items():
            self._taker.take(kind, told(rows))

    def _away(self, problem: str) -> None:
        telemetry.FAILED.labels("sharing").inc()
        self._problem = problem
        self.shared.again()
        if self._seldom.due(problem):
            log.error("this collector is apart from the others of its cluster", error=problem)

    def _failed(self, error: Exception) -> None:
        log.error("sharing failed", kind=type(error).__name__, error=str(error)[:300])
        self._away(type(error).__name__)
