"""The one writer: a bounded queue, one thread, many requests in one transaction.

A request is answered only after the transaction that holds it is durable. A request that cannot be written fails with
`Unavailable`; its sender keeps it and tries again.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from collector import telemetry
from collector.errors import Unavailable, where
from collector.store.archive import sweep
from collector.store.changes import Batch
from collector.store.complaint import Complaint
from collector.store.correlate import Correlator
from collector.store.lookup import StoreLookup
from collector.store.retention import Retention
from collector.store.store import Store

GROUP_REPORTS = 20_000  # in one transaction; a larger one only makes those in it wait longer
WORTH_REPORTS = 2_000  # a transaction costs as much as 300 of them: with fewer it waits for requests being read,
WAIT_S = 0.05  # but no longer than this
PRUNE_EVERY_S = 600
FIT_EVERY_S = 60  # in a minute no agent fills a tenth of what the store may have

log = structlog.get_logger()


@dataclass(slots=True)
class _Waiting:
    batch: Batch
    done: asyncio.Future[bool]
    loop: asyncio.AbstractEventLoop


class Writer:
    """Owns all writes of events. `start` before use; `close` writes what is queued and stops."""

    def __init__(
        self,
        store: Store,
        retention: Retention,
        clock: Callable[[], int] = time.time_ns,
        noted: Callable[[], None] = lambda: None,
    ) -> None:
        """`noted` is called whenever events have changed."""
        self._store = store
        self._noted = noted
        self._correlator: Correlator | None = Correlator(StoreLookup(store), fresh=store.is_empty())
        self._complaint = Complaint(str(store.path))
        self._retention = retention
        self._clock = clock
        self._queue: deque[_Waiting] = deque()
        self.reports = 0  # that wait
        self._coming = 0  # requests that are being read
        self._wake = threading.Condition()
        self._closing = False
        self._pruned = self._fitted = 0.0
        self._jobs: deque[Callable[[], bool]] = deque()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def close(self) -> None:
        """Writes what is queued, then stops the thread."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join()

    @property
    def queued(self) -> int:
        """Requests that wait."""
        return len(self._queue)

    @property
    def refusing(self) -> bool:
        """Whether the last transaction failed."""
        return self._complaint.lasts

    @contextmanager
    def coming(self) -> Iterator[None]:
        """While a request is being read: a transaction that is hardly worth its cost waits a moment for it."""
        self._coming += 1
        try:
            yield
        finally:
            self._coming -= 1

    async def commit(self, batch: Batch) -> bool:
        """Returns when the batch is durable; True where the same request was stored before. Raises Unavailable."""
        loop = asyncio.get_running_loop()
        waiting = _Waiting(batch, loop.create_future(), loop)
        with self._wake:
            if self._closing:
                raise Unavailable("the collector is stopping", retry_after=5)
            self._queue.append(waiting)
            self.reports += len(batch.reports)
            self._wake.notify()
        return await waiting.done

    def between(self, job: Callable[[], bool]) -> None:
        """Calls `job` between transactions, in the writer's thread, again and again until it is false.

        It may change what is stored: what the writer remembers of it is forgotten afterwards.
        """
        with self._wake:
            self._jobs.append(job)
            self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._queue and not self._jobs and not self._closing:
                    self._wake.wait(timeout=FIT_EVERY_S)
                    if not self._queue:
                        break
                if self._queue:
                    self._wake.wait_for(self._worth_it, WAIT_S)
                group = self._take()
                if not group and self._closing:
                    return
            try:
                if group:
                    self._commit(group)
                if self._jobs:
                    self._do(self._jobs.popleft())
            except Exception as error:  # a defect of ours; without this everybody would wait for ever
                telemetry.FAILED.labels("writer").inc()
                log.error("the writer failed", kind=type(error).__name__, where=where(error))
                for waiting in group:
                    _settle(waiting, Unavailable("the collector failed on this request; its log says where", 30))
            self._prune()

    def _worth_it(self) -> bool:
        return self._closing or self._coming == 0 or self.reports >= WORTH_REPORTS

    def _do(self, job: Callable[[], bool]) -> None:
        if job():
            self._jobs.appendleft(job)
        else:
            self._correlator = None

    def _take(self) -> list[_Waiting]:
        group: list[_Waiting] = []
        reports = 0
        while self._queue and reports < GROUP_REPORTS:
            group.append(self._queue.popleft())
            reports += len(group[-1].batch.reports)
        self.reports -= reports
        telemetry.QUEUE_REQUESTS.set(len(self._queue))
        telemetry.QUEUE_RECORDS.set(self.reports)
        return group

    def _commit(self, group: list[_Waiting]) -> None:
        started = time.perf_counter()
        try:
            correlator = self._correlator or Correlator(StoreLookup(self._store), fresh=False)
            changes = correlator.plan([waiting.batch for waiting in group])
            self._correlator = None  # a commit that fails may be there all the same: the store knows, no memory does
            self._store.write(changes)
            correlator.learn(changes)
        except Exception as error:  # whatever it was, every sender must hear that it is not known to be written
            if len(group) > 1 and not isinstance(error, Unavailable):  # one request must not take the others with it
                for waiting in group:
                    self._commit([waiting])
                return
            telemetry.FAILED.labels("writer").inc(len(group))
            self._complaint.made(str(error)[:500] or type(error).__name__, len(group))
            failure = Unavailable("the store takes nothing at the moment; the collector's log says why", retry_after=5)
            for waiting in group:
                _settle(waiting, failure)
            return
        self._correlator = correlator
        self._complaint.over()
        elapsed = time.perf_counter() - started
        telemetry.COMMIT_SECONDS.observe(elapsed)
        if self._store.checkpointed():
            telemetry.CHECKPOINT_SECONDS.observe(elapsed)
        telemetry.COMMIT_REQUESTS.observe(len(group))
        for fate, records in changes.accounting.items():
            telemetry.ACCOUNTED.labels(fate).inc(records)
        for position, waiting in enumerate(group):
            if position not in changes.duplicates:
                for rule, count in waiting.batch.redacted.items():
                    telemetry.REDACTED.labels(rule).inc(count)
        telemetry.count_events(changes.events)
        corrected = set(changes.replaced)  # counted when they were first written
        telemetry.count_calls(event for event in changes.events if event["event_id"] not in corrected)
        if changes.events:
            newest = max(event["time_ns"] for event in changes.events)
            telemetry.LAG_SECONDS.set((changes.received_ns - newest) / 1e9)
        for position, waiting in enumerate(group):
            _settle(waiting, position in changes.duplicates)
        if changes.events or changes.replaced:
            self._noted()

    def _prune(self) -> None:
        now = time.monotonic()
        if now - self._fitted < FIT_EVERY_S:
            return
        self._fitted = now
        try:
            gone = 0
            if old := now - self._pruned >= PRUNE_EVERY_S:
                self._pruned = now
                gone = self._store.prune(self._clock(), self._retention.age_ns)
            if self._retention.most_bytes:
                gone += self._store.fit(self._clock(), self._retention.most_bytes)
            if gone:
                self._noted()
            if folder := self._retention.archive:
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


def _settle(waiting: _Waiting, result: bool | Exception) -> None:
    def answer() -> None:
        if waiting.done.done():  # the sender has gone away
            return
        if isinstance(result, Exception):
            waiting.done.set_exception(result)
        else:
            waiting.done.set_result(result)

    waiting.loop.call_soon_threadsafe(answer)
