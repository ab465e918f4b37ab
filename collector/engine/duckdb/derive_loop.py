"""Keeps streaks, retry chains and the like up to date with the events, about once a second, in its own thread.

Senders never wait for it: the writer notes what changed in the transaction of the events, and the keeper reads these
notes later. What is not done when the collector stops is done at the next start.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog

from collector import telemetry
from collector.engine.duckdb.read import CALL_OFF, CallOff
from collector.engine.duckdb.store import MOST_SESSIONS, Store
from collector.errors import CalledOff, OutOfMemory
from collector.loop import DERIVING, Loop
from collector.seldom import Seldom

EVERY_S = 1.0
# Sleep nine times as long as the last turn took: at most 10 % of the time is spent here. `settle` cuts it short.
REST = 9
MOST_REST_S = 10.0  # But no longer: after a turn of a minute, on a busy machine, sessions would pile up for nine more.
FEWER = 4  # sessions are computed in this many parts when memory is short

log = structlog.get_logger()


class Keeper:
    """Call `start` first, `noted` after each commit, and `settle` before a query that should see all commits."""

    def __init__(self, store: Store, computed: Callable[[], None] = lambda: None) -> None:
        """`computed` is called after each turn."""
        self._store = store
        self._computed = computed
        self._noted = 1  # an earlier run may have left something to do
        self._done = 0
        self._since = time.monotonic()  # time of the first note that is not done yet
        self._took = 0.0  # duration of the last turn
        self._asked = False
        self._rest = 0.0  # seconds until the next turn
        self._call_off = CallOff()
        self._seldom = Seldom()
        self._loop = Loop("keeper", self._turn, failed=self._report, niceness=DERIVING, pause_s=lambda: EVERY_S)
        self._wake = self._loop.wake

    def start(self) -> None:
        """Starts the thread."""
        self._loop.start()

    def close(self) -> None:
        """Stops the thread. A turn in progress is called off: the next start does it from the same notes."""
        self._loop.close(self._call_off.now)  # again and again, as it ends only the statement that runs at that moment

    def noted(self) -> None:
        """To be called when events were committed, changed or removed."""
        with self._wake:
            if self._done == self._noted:
                self._since = time.monotonic()
            self._noted += 1
            self._wake.notify_all()

    def waiting_s(self) -> float:
        """The age of the oldest commit that is not done yet; 0 if there is none."""
        with self._wake:
            return 0.0 if self._done == self._noted else time.monotonic() - self._since

    def settle(self, timeout_s: float) -> bool:
        """Waits until everything noted before this call is done; whether it is.

        Does not wait if the last turn took longer than `timeout_s`: under such a load it would be in vain.
        """
        with self._wake:
            wanted = self._noted
            if self._done < wanted and not self._loop.closing:
                self._asked = True
                self._wake.notify_all()
                if self._took <= timeout_s:
                    self._wake.wait_for(lambda: self._done >= wanted or self._loop.closing, timeout_s)
            return self._done >= wanted

    def _turn(self) -> bool:
        CALL_OFF.set(self._call_off)
        with self._wake:
            self._wake.wait_for(lambda: self._asked or self._loop.closing, self._rest)
            self._wake.wait_for(lambda: self._done < self._noted or self._loop.closing)
            if self._loop.closing:
                return False
            noted, self._asked = self._noted, False
        began = time.monotonic()
        if self._streaks():
            with self._wake:
                self._done, self._since, self._took = noted, began, time.monotonic() - began
                self._wake.notify_all()
        self._computed()
        self._hours()
        self._rest = rest_after(time.monotonic() - began)
        return True

    def _streaks(self) -> bool:
        """Computes all sessions that changed, fewer at a time where memory is short; False if that failed or the keeper
        is closing.
        """
        most = MOST_SESSIONS
        with self._reported():
            while not self._loop.closing:
                try:
                    if self._store.keep_up(most) < most:
                        return not self._loop.closing
                    most = min(FEWER * most, MOST_SESSIONS)
                except OutOfMemory:
                    if most == 1:
                        raise
                    most = max(most // FEWER, 1)
        return False

    def _hours(self) -> None:
        """Counts changed hours until all are done or a query waits for streaks; no query waits for hours."""
        with self._reported():
            while not (self._asked or self._loop.closing) and self._store.count_hours():
                pass

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Logs a failed turn instead of ending the thread: the next turn finds the same notes."""
        try:
            yield
        except CalledOff:
            pass
        except Exception as error:
            self._report(error)

    def _report(self, error: Exception) -> None:
        telemetry.FAILED.labels("keeper").inc()
        if self._seldom.due(reason := str(error)[:300]):
            log.error("streaks and counts could not be updated", error=reason, kind=type(error).__name__)


def rest_after(took_s: float) -> float:
    """Seconds until the next turn."""
    return min(max(EVERY_S, REST * took_s), MOST_REST_S)
