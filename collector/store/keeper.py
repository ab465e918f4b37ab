"""Keeps streaks, retry chains and the like up with the events, about once a second, in a thread of its own.

Acknowledgements never wait for it: the writer notes what changed in the same transaction as the events, this reads it
later. What is left at the end is done at the next start.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from collector import telemetry
from collector.store.priority import KEEPING, step_back
from collector.store.store import MOST_SESSIONS, Store

EVERY_S = 1.0
REST = 9  # times as long as the last turn took: a tenth of the time. Who asks (`settle`) ends the rest
MOST_REST_S = 10.0  # or a turn of a minute, on a machine that is too busy, lets sessions pile up for ten

log = structlog.get_logger()


class Keeper:
    """`start` before use; `noted` after each commit; `settle` where an answer should know of all commits."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._wake = threading.Condition()
        self._noted = 1  # what an earlier run may have left
        self._done = 0
        self._since = time.monotonic()  # when the first came of what is noted and not done
        self._took = 0.0  # by the last turn
        self._asked = self._closing = False
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def close(self) -> None:
        """Ends after the turn that it is in."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        self._thread.join()

    def noted(self) -> None:
        """Events were committed, changed or removed."""
        with self._wake:
            if self._done == self._noted:
                self._since = time.monotonic()
            self._noted += 1
            self._wake.notify_all()

    def waiting_s(self) -> float:
        """For how long the oldest commit has waited that is not accounted for; 0 where all are."""
        with self._wake:
            return 0.0 if self._done == self._noted else time.monotonic() - self._since

    def settle(self, timeout_s: float) -> bool:
        """Whether all that was noted before is accounted for, if need be after waiting so long for it.

        Where the last turn took longer, under a load that leaves no time, nobody waits in vain.
        """
        with self._wake:
            wanted = self._noted
            if self._done < wanted and not self._closing:
                self._asked = True
                self._wake.notify_all()
                if self._took <= timeout_s:
                    self._wake.wait_for(lambda: self._done >= wanted or self._closing, timeout_s)
            return self._done >= wanted

    def _run(self) -> None:
        step_back(KEEPING)
        rest = 0.0
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._asked or self._closing, rest)
                self._wake.wait_for(lambda: self._done < self._noted or self._closing)
                if self._closing:
                    return
                noted, self._asked = self._noted, False
            began = time.monotonic()
            if self._streaks():
                with self._wake:
                    self._done, self._since, self._took = noted, began, time.monotonic() - began
                    self._wake.notify_all()
            self._hours()
            rest = rest_after(time.monotonic() - began)

    def _streaks(self) -> bool:
        """Whether all that was noted is accounted for: not where that failed, or the end came."""
        whole = False
        with _reported():
            while self._store.keep_up() == MOST_SESSIONS and not self._closing:
                pass
            whole = not self._closing
        return whole

    def _hours(self) -> None:
        """Counts hours until all are counted, or somebody waits for streaks: no answer waits for hours."""
        with _reported():
            while not (self._asked or self._closing) and self._store.count_hours():
                pass


def rest_after(took_s: float) -> float:
    """Seconds until the next turn, after one that took so long."""
    return min(max(EVERY_S, REST * took_s), MOST_REST_S)


@contextmanager
def _reported() -> Iterator[None]:
    """Lets the thread live where a turn fails: events go on being stored, and the next one finds the same notes."""
    try:
        yield
    except Exception as error:
        telemetry.FAILED.labels("keeper").inc()
        log.error(
            "what is kept beside the events could not be kept up", error=str(error)[:300], kind=type(error).__name__
        )
