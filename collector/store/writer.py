"""The one writer: a bounded queue, one thread, many requests in one transaction.

What is put here is in the journal: it is stored sooner or later, also after a restart. Where the store takes nothing,
the writer tries again until it does.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar

import structlog

from collector import telemetry
from collector.errors import Unavailable, where
from collector.store.aside import Aside, nothing_of
from collector.store.changes import Batch, Changes
from collector.store.complaint import Complaint
from collector.store.correlate import Correlator
from collector.store.journal import Journal, unpack
from collector.store.lookup import StoreLookup
from collector.store.priority import STORING, step_back
from collector.store.retention import Retention
from collector.store.store import Store
from collector.store.upkeep import FIT_EVERY_S, Upkeep

# In bytes of packed batches, about 700 for a tool call:
GROUP_BYTES = 3 << 20  # in one transaction; a larger one makes all wait for longer
WORTH_BYTES = 3 << 19  # a transaction costs as much as 300 calls before it has any: with less it waits for more,
EVERY_S = 0.25  # but no longer than this after the one before, and not where somebody asks
MOST_BYTES = 6 << 20  # that wait: with more, senders wait for their answers
PATIENCE_S = 5.0  # how long who asks waits for what was taken before and is not stored yet,
BUSY_S = 0.05  # and how long where more and more comes,
ELSEWHERE_S = 0.5  # or where the writer does something else
AGAIN_S = 2.0  # where the store took nothing, unless somebody asks
TRIES = 3
CLOCK_NS = 3600 * 10**9  # a batch is read and taken in less, unless a clock went back

SHORTAGES = (Unavailable, MemoryError, OSError)  # what else fails is the batch, or a defect that it meets

log = structlog.get_logger()


@dataclass(slots=True)
class Waiting:
    """A batch that is in the journal at a position; `stored` hears whether the same request was stored before."""

    packed: bytes
    position: int
    records: int
    stored: asyncio.Future[bool] | None = None
    tries: int = 0  # that failed, AGAIN_S apart, and not for the disk
    tried: float = float("-inf")  # when that was counted last
    aside: bool = False  # of what it held it is only stored that it came

    def settle(self, repeated: bool) -> None:
        """Tells who waits for it, from any thread."""
        if self.stored is None:
            return
        with suppress(RuntimeError):  # its loop has ended
            self.stored.get_loop().call_soon_threadsafe(_set, self.stored, repeated)


def _set(future: asyncio.Future[bool], repeated: bool) -> None:
    if not future.done():
        future.set_result(repeated)


class Packed(Protocol):
    """What waits with its batch."""

    packed: bytes


P = TypeVar("P", bound=Packed)


def next_group(queue: deque[P]) -> list[P]:
    """Takes from a queue what is done together: about GROUP_BYTES of batches."""
    group: list[P] = []
    size = 0
    while queue and size < GROUP_BYTES:
        group.append(queue.popleft())
        size += len(group[-1].packed)
    return group


class Writer:
    """Owns all writes of events. `start` before use; `close` writes what is queued and stops."""

    def __init__(
        self,
        store: Store,
        journal: Journal,
        retention: Retention,
        clock: Callable[[], int] = time.time_ns,
        noted: Callable[[], None] = lambda: None,
    ) -> None:
        """`noted` is called whenever events have changed."""
        self._store = store
        self._journal = journal
        self.aside = Aside(store.path)
        self._noted = noted
        self._correlator: Correlator | None = Correlator(StoreLookup(store), fresh=store.is_empty())
        self.complaint = Complaint(str(store.path))
        self._upkeep = Upkeep(store, retention, clock, noted)
        self._queue: deque[Waiting] = deque()
        self.records = self._bytes = 0  # that wait
        self._put = self._done = self._failures = 0  # batches; transactions
        self._began = 0.0  # the last transaction
        self._wake = threading.Condition()
        self._asked = self._closing = False
        self._elsewhere = False  # with jobs or upkeep
        self._jobs: deque[Callable[[], bool]] = deque()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def close(self) -> None:
        """Writes what is queued, then stops the thread. What the store does not take stays in the journal."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        self._thread.join()

    @property
    def queued(self) -> int:
        """Requests that wait."""
        return len(self._queue)

    @property
    def refusing(self) -> bool:
        """Whether the last transaction failed."""
        return self.complaint.lasts("")

    def put(self, waiting: Sequence[Waiting]) -> None:
        """Queues batches in the order of their positions."""
        with self._wake:
            self._queue.extend(waiting)
            self._put += len(waiting)
            self._weigh(waiting, 1)
            self._wake.notify_all()

    def room(self) -> None:
        """Returns when less than MOST_BYTES wait, or the store takes none."""
        with self._wake:
            self._wake.wait_for(lambda: self._bytes < MOST_BYTES or self.refusing or self._closing)

    def settle(self, timeout_s: float = PATIENCE_S) -> bool:
        """Whether all that was put before is stored, if need be after waiting so long for it, or until that fails.

        Where more comes meanwhile nobody waits longer than BUSY_S, and where the writer does something else, than
        ELSEWHERE_S: there is no end of it to be seen.
        """
        with self._wake:
            wanted, failures = self._put, self._failures

            def over() -> bool:
                return self._done >= wanted or self._failures > failures

            def more() -> bool:
                return over() or self._put > wanted

            def elsewhere() -> bool:
                return more() or self._elsewhere

            if self._done < wanted and not self._closing:
                self._asked = True
                self._wake.notify_all()
                until = time.monotonic() + timeout_s
                for waited_for, patience_s in ((over, BUSY_S), (more, ELSEWHERE_S - BUSY_S), (elsewhere, timeout_s)):
                    if self._wake.wait_for(waited_for, min(patience_s, until - time.monotonic())):
                        break
            return self._done >= wanted

    def between(self, job: Callable[[], bool]) -> None:
        """Calls `job` between transactions, in the writer's thread, again and again until it is false.

        It may change what is stored: what the writer remembers of it is forgotten afterwards.
        """
        with self._wake:
            self._jobs.append(job)
            self._wake.notify_all()

    def _run(self) -> None:
        step_back(STORING)
        while True:
            try:
                if not self._turn():
                    return
            except Exception as error:  # a defect of ours; without this everybody would wait for ever
                telemetry.FAILED.labels("writer").inc()
                log.error("the writer failed", kind=type(error).__name__, where=where(error))
                if self._closing:  # what it did not store is in the journal
                    return
                time.sleep(AGAIN_S)

    def _turn(self) -> bool:
        """One transaction, then what else is due; whether there is to be another turn."""
        with self._wake:
            self._wake.wait_for(lambda: self._queue or self._jobs or self._closing, timeout=FIT_EVERY_S)
            if self._queue and not self._jobs:
                pause = AGAIN_S if self.refusing else EVERY_S
                self._wake.wait_for(self._worth_it, self._began + pause - time.monotonic())
            self._asked = False
            self._began = time.monotonic()
            group = next_group(self._queue)
            if self._closing and not group:
                return False
        if group:
            self._store_all(group)
        if self._closing and self.refusing:
            return False
        if self._jobs or self._upkeep.due():
            with self._wake:
                self._elsewhere = True
                self._wake.notify_all()  # who waits for the queue need not wait for this
            if self._jobs:
                self._do(self._jobs.popleft())
            self._upkeep.turn()
            self._elsewhere = False
        return True

    def _worth_it(self) -> bool:
        return self._closing or self._asked or (self._bytes >= WORTH_BYTES and not self.refusing)

    def _do(self, job: Callable[[], bool]) -> None:
        try:
            if job():
                self._jobs.appendleft(job)
                return
        except Exception as error:  # the writer must go on
            telemetry.FAILED.labels("writer").inc()
            log.error("what was to be done between requests failed", kind=type(error).__name__, where=where(error))
        self._correlator = None

    def _weigh(self, waiting: Iterable[Waiting], sign: int) -> None:
        for one in waiting:
            self._bytes += sign * len(one.packed)
            self.records += sign * one.records
        telemetry.QUEUE_REQUESTS.set(len(self._queue))
        telemetry.QUEUE_RECORDS.set(self.records)

    def _store_all(self, group: Sequence[Waiting]) -> None:
        """Stores a group, if need be one by one; what the store does not take now waits on."""
        left = deque(group)
        try:
            self._commit(group)
            left.clear()
        except Unavailable as error:
            self._failed(error, len(group))
        except Exception:  # one request must not take the others with it
            while left and self._alone(left[0]):
                left.popleft()
        finally:
            with self._wake:
                done = len(group) - len(left)
                self._queue.extendleft(reversed(left))
                self._weigh(group[:done], -1)
                self._done += done
                self._wake.notify_all()

    def _alone(self, waiting: Waiting) -> bool:
        """Whether a batch is stored. Where that fails again and again while the store is well, it is set aside; but
        never for a shortage, however long that lasts: the largest batch fits into a third of the engine's memory.
        """
        well = waiting.tries < TRIES or self._works()
        try:
            self._commit([waiting])
            return True
        except SHORTAGES as error:
            self._failed(error, 1)
        except Exception as error:
            if well and time.monotonic() - waiting.tried >= AGAIN_S:
                waiting.tries, waiting.tried = waiting.tries + 1, time.monotonic()
            if waiting.tries > TRIES and not waiting.aside:
                with suppress(OSError, Unavailable):
                    self._set_aside(waiting, error)
            self._failed(error, 1)
        return False

    def _works(self) -> bool:
        """Whether the store reads and writes something else."""
        try:
            self._store.position()
            self._store.try_to_write()
            return True
        except Exception:
            return False

    def _set_aside(self, waiting: Waiting, error: Exception) -> None:
        kept = self.aside.keep(waiting.position, waiting.packed)
        waiting.aside = True
        kind = type(error).__name__
        log.error("a request cannot be stored, by a defect of the collector", kind=kind, where=where(error), kept=kept)

    def _failed(self, error: Exception, requests: int) -> None:
        telemetry.FAILED.labels("writer").inc(requests)
        self.complaint.made(str(error)[:500] or type(error).__name__, requests)
        with self._wake:
            self._failures += 1

    def _commit(self, group: Sequence[Waiting]) -> None:
        started = time.perf_counter()
        if self._correlator is None:  # a transaction that failed may be there all the same
            held = self._store.position()
            for waiting in group:
                if waiting.position <= held:
                    waiting.settle(repeated=False)
            group = [waiting for waiting in group if waiting.position > held]
            if not group:
                self.complaint.over()
                self._noted()
                return
        correlator = self._correlator or Correlator(StoreLookup(self._store), fresh=False)
        batches = [_unpacked(waiting) for waiting in group]
        changes = correlator.plan(batches)
        changes.position = group[-1].position
        self._correlator = None  # until it is known to be stored: the store knows, no memory does
        before = self._store.write(changes)
        correlator.learn(changes)
        self._journal.forget(changes.position)
        self.complaint.over()
        self._count(batches, changes, before, time.perf_counter() - started)
        for position, waiting in enumerate(group):
            waiting.settle(position in changes.duplicates)
        if changes.events or changes.replaced:
            self._noted()
        self._correlator = correlator

    def _count(self, batches: Sequence[Batch], changes: Changes, before: Container[int], seconds: float) -> None:
        telemetry.COMMIT_SECONDS.observe(seconds)
        if self._store.checkpointed():
            telemetry.CHECKPOINT_SECONDS.observe(seconds)
        telemetry.COMMIT_REQUESTS.observe(len(batches))
        for fate, records in changes.accounting.items():
            telemetry.ACCOUNTED.labels(fate).inc(records)
        for position, batch in enumerate(batches):
            if position not in changes.duplicates:
                for rule, count in batch.redacted.items():
                    telemetry.REDACTED.labels(rule).inc(count)
        telemetry.count_events([event for event in changes.events if event["event_id"] not in before])
        if changes.events:
            newest = max(event["time_ns"] for event in changes.events)
            telemetry.LAG_SECONDS.set((changes.received_ns - newest) / 1e9)


def _unpacked(waiting: Waiting) -> Batch:
    """Each time anew: what stores a batch changes its reports.

    Its reports were received when it was taken, not when its reading began: in that order batches are stored, so that
    whoever has seen one has seen all that were received before. Positions are such times, but for clocks that go back.
    """
    if waiting.aside:
        return nothing_of(waiting.packed, waiting.position, waiting.records)
    batch = unpack(waiting.packed)
    if waiting.position - batch.received_ns < CLOCK_NS:
        batch.received_ns = waiting.position
        for report in batch.reports:
            report["received_ns"] = waiting.position
    return batch
