"""What the writer does between transactions: old events go or move, and space is given back."""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from collector import telemetry
from collector.errors import Unavailable
from collector.store.archive import sweep
from collector.store.retention import Retention
from collector.store.store import Store

PRUNE_EVERY_S = 600
FIT_EVERY_S = 60  # in a minute no agent fills a tenth of what the store may have
LEAP_S = 3_600  # a clock that goes ahead by more is believed after as long: what is removed does not come back

log = structlog.get_logger()


class Upkeep:
    """`turn` as often as one likes, from the thread that writes."""

    def __init__(self, store: Store, retention: Retention, clock: Callable[[], int], noted: Callable[[], None]) -> None:
        """`noted` is called whenever events have gone."""
        self._store = store
        self._retention = retention
        self._clock = clock
        self._noted = noted
        self._pruned = self._fitted = 0.0
        self._in_order = time.monotonic()
        self._offset = clock() / 1e9 - self._in_order  # of the clock, from one that cannot be set

    def due(self) -> bool:
        """Whether there may be something to do."""
        return time.monotonic() - self._fitted >= FIT_EVERY_S

    def turn(self) -> None:
        """Does what is due."""
        if not self.due():
            return
        self._fitted = now = time.monotonic()
        try:
            gone = 0
            believed = self._believed(now)
            if old := believed and now - self._pruned >= PRUNE_EVERY_S:
                self._pruned = now
                gone = self._store.prune(self._clock(), self._retention.age_ns)
            if self._retention.most_bytes:
                gone += self._store.fit(self._clock(), self._retention.most_bytes)
            if gone:
                self._noted()
            if believed and (folder := self._retention.archive):
                if old:
                    sweep(folder, self._clock() - self._retention.age_ns)
                self._store.move(folder, self._clock() - self._retention.archive_after_ns)
            if old and self._store.give_back(self._retention.most_bytes):
                log.info("the store was written anew to give space back")
        except Unavailable as error:
            log.warning("old events could not be removed or moved", error=str(error), again_in_s=FIT_EVERY_S)
        except Exception as error:  # old rows may stay; new ones must not be refused for it
            telemetry.FAILED.labels("retention").inc()
            log.error("old events could not be removed or moved", error=str(error))

    def _believed(self, now: float) -> bool:
        """Whether the clock has not just leapt ahead, or has stayed where it is since."""
        offset = self._clock() / 1e9 - now
        if offset - self._offset > LEAP_S > now - self._in_order:
            return False
        self._offset, self._in_order = offset, now
        return True
