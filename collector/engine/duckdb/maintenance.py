"""What the writer does between transactions: removes old events, shrinks the file, and opens it anew."""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from collector import telemetry
from collector.engine import UPKEEP_EVERY_S
from collector.engine.duckdb.connection import Busy
from collector.engine.duckdb.retention import Retention
from collector.engine.duckdb.store import Store
from collector.errors import CalledOff

PRUNE_EVERY_S = 600
LEAP_S = 3_600  # If the clock jumps ahead by more, wait this long before pruning: a wrong clock must not delete data.

log = structlog.get_logger()


class Upkeep:
    """`turn` may be called as often as one likes, from the writer's thread."""

    def __init__(
        self,
        store: Store,
        retention: Retention,
        clock: Callable[[], int] = time.time_ns,
        noted: Callable[[], None] = lambda: None,
    ) -> None:
        """`noted` is called whenever events were removed."""
        self._store = store
        self._retention = retention
        self._clock = clock
        self._noted = noted
        self._pruned = self._fitted = 0.0
        self._in_order = time.monotonic()
        self._offset = clock() / 1e9 - self._in_order  # of the wall clock from the monotonic one

    def due(self) -> bool:
        """Whether a turn is due."""
        return time.monotonic() - self._fitted >= UPKEEP_EVERY_S

    def turn(self) -> None:
        """Does what is due."""
        if not self.due():
            return
        self._fitted = now = time.monotonic()
        store, kept, clock, done = self._store, self._retention, self._clock, self._done
        believed = self._believed(now)
        old = believed and now - self._pruned >= PRUNE_EVERY_S
        gone = 0
        if old:
            self._pruned = now
            gone = done("old events could not be removed", lambda: store.prune(clock(), kept.age_ns, kept.export)) or 0
            self._removed(gone, "older than MISSTEP_RETENTION")
        if most := kept.most_bytes:
            beyond = (
                done("old events could not be removed to make room", lambda: store.fit(clock(), most, kept.export)) or 0
            )
            self._removed(beyond, "the store was near MISSTEP_RETENTION_SIZE")
            gone += beyond
        if gone or store.not_exported:  # of several days some may be gone
            self._noted()
        failed = "the store file could not be rewritten to free disk space"
        if old and done(failed, lambda: store.give_back(kept.most_bytes)):
            log.info("the store file was rewritten to free disk space")
        done("the store file could not be opened again to free memory", store.reopen)

    def _removed(self, events: int, why: str) -> None:
        if events:
            log.info("old events were removed", events=events, why=why)

    def _done(self, failed: str, step: Callable[[], int]) -> int | None:
        """What a step returns; None if it failed, so that others are not kept back."""
        try:
            return step()
        except Busy as error:
            log.warning(failed, error=str(error), again_in_s=UPKEEP_EVERY_S)
        except CalledOff:
            log.info(f"{failed}, because the collector stops")
        except Exception as error:  # keeping old rows is better than refusing new ones
            telemetry.FAILED.labels("retention").inc()
            log.error(failed, kind=type(error).__name__, error=str(error))
        return None

    def _believed(self, now: float) -> bool:
        """Whether the clock can be trusted: it has not jumped ahead within the last LEAP_S."""
        offset = self._clock() / 1e9 - now
        if offset - self._offset > LEAP_S > now - self._in_order:
            return False
        self._offset, self._in_order = offset, now
        return True
