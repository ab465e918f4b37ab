"""Counts events for /metrics once they have settled, every few seconds, in a thread of its own."""

from __future__ import annotations

import time

import structlog

from collector import telemetry
from collector.engine.duckdb.store import Store
from collector.loop import DERIVING, Loop
from collector.seldom import Seldom

EVERY_S = 5.0

log = structlog.get_logger()


class Counting:
    """Call `start`, and `close` before the store is closed."""

    def __init__(self, store: Store, settle_ns: int) -> None:
        """An event is counted `settle_ns` after it was received."""
        self._store = store
        self._settle_ns = settle_ns
        self._every_s = min(EVERY_S, max(settle_ns / 1e9, 0.2))
        self._seldom = Seldom()
        self._loop = Loop("counting", self._turn, failed=self._report, niceness=DERIVING, pause_s=lambda: EVERY_S)
        self.start = self._loop.start
        self.close = self._loop.close

    def _turn(self) -> bool:
        with self._loop.wake:
            self._loop.wake.wait_for(lambda: self._loop.closing, self._every_s)
            if self._loop.closing:
                return False
        self._store.count_settled(time.time_ns() - self._settle_ns)
        return True

    def _report(self, error: Exception) -> None:
        telemetry.FAILED.labels("counting").inc()
        if self._seldom.due(reason := str(error)[:300]):
            log.error("calls could not be counted for /metrics", error=reason, kind=type(error).__name__)
