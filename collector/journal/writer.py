"""The only writer of events: a bounded queue, one thread, many requests per transaction.

Everything in the queue is also in the journal, so that it is stored even after a restart. While the store refuses
writes, the writer keeps trying.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import structlog

from collector import telemetry
from collector.batch import Batch
from collector.correlate.changes import ACCEPTED, Changes
from collector.correlate.correlate import Correlator
from collector.engine import UPKEEP_EVERY_S, Commit, Upkeep
from collector.errors import CalledOff, OutOfMemory, Unavailable, where
from collector.journal.dead_letters import Aside, tombstone
from collector.journal.failure_log import Complaint
from collector.journal.journal import Journal, unpack
from collector.journal.waiting import LOT_BYTES, Waiting, next_lot
from collector.loop import WRITING, Loop
from collector.times import HOUR

# Sizes are bytes of packed batches; a tool call takes about 700.
WORTH_BYTES = LOT_BYTES  # Least for a transaction: half of it costs a sixth more a call. With less, wait for more.
EVERY_S = 0.5  # But start one this long after the last one began, and at once if a query waits.
MOST_BYTES = 10 << 20  # Most in the queue, three seconds of 5,000 calls: beyond it senders wait for their answers.
PATIENCE_S = 5.0  # Longest wait of a query for requests that were answered but are not stored yet.
BUSY_S = 0.05  # Longest such wait while further requests keep coming.
ELSEWHERE_S = 0.5  # Longest such wait while the writer does other work, such as pruning.
SHORTAGE_S = 5.0  # A shortage of memory that lasts less is no failure: queries release theirs when they end.
AGAIN_S = 2.0  # Pause after a failed transaction, unless a query waits.
TRIES = 3  # Failed attempts at a batch that do not set it aside yet.
CLOCK_NS = HOUR  # Reading a batch takes less than this: a larger difference means that the clock went back.

SHORTAGES = (Unavailable, MemoryError, OSError)  # anything else is caused by the batch, or by a defect that it triggers

log = structlog.get_logger()


class Writer:
    """Owns all writes of events. `start` before use; `close` writes what is queued and stops."""

    def __init__(
        self,
        store: Commit,
        journal: Journal,
        upkeep: Upkeep,
        noted: Callable[[], None] = lambda: None,
        older: Callable[[Sequence[Batch]], None] = lambda _: None,
    ) -> None:
        """`noted` is called whenever events have changed; `older` before a lot is correlated, to bring back what it
        tells more of.
        """
        self._store = store
        self._journal = journal
        self.aside = Aside(store.path)
        self._noted = noted
        self._older = older
        self._correlator: Correlator | None = Correlator(store.lookup(), fresh=store.is_empty())
        self.complaint = Complaint(str(store.path))
        self._upkeep = upkeep
        self._queue: deque[Waiting] = deque()
        self.records = self._bytes = 0  # in the queue
        self._put = self._done = 0  # batches, ever
        self.failures = 0  # transactions, ever
        self._began = 0.0  # time at which the last transaction began
        self._again = False  # a batch failed, and is tried again
        self._one_aside = False  # the last batch that was not stored before was set aside
        self._short_since: float | None = None  # time of the first transaction that lacked memory, if none worked since
        self._asked = False
        self._elsewhere = False  # busy with jobs or upkeep
        self._jobs: deque[Callable[[], bool]] = deque()
        self._loop = Loop("writer", self._turn, failed=_report, niceness=WRITING, pause_s=lambda: AGAIN_S)
        self._wake = self._loop.wake

    def start(self) -> None:
        """Starts the thread."""
        self._loop.start()

    def close(self) -> None:
        """Writes what is queued, then stops the thread. What cannot be stored stays in the journal.

        Jobs and upkeep in progress, which can take minutes, are interrupted.
        """
        self._loop.close(self._interrupt)

    def _interrupt(self) -> None:
        with self._wake:
            if self._elsewhere:
                self._store.interrupt()

    @property
    def queued(self) -> int:
        """Requests in the queue."""
        return len(self._queue)

    @property
    def refusing(self) -> bool:
        """Whether the last transaction failed, and not just for a moment."""
        return self.complaint.lasts("")

    def put(self, waiting: Sequence[Waiting]) -> None:
        """Queues batches in the order of their positions."""
        with self._wake:
            self._queue.extend(waiting)
            self._put += len(waiting)
            self._weigh(waiting, 1)
            self._wake.notify_all()

    def room(self) -> None:
        """Waits until less than MOST_BYTES are queued, or the store refuses writes."""
        with self._wake:
            self._wake.wait_for(lambda: self._bytes < MOST_BYTES or self.refusing or self._loop.closing)

    def settle(self, timeout_s: float = PATIENCE_S) -> bool:
        """Waits until everything queued before this call is stored; whether it is.

        Gives up after `timeout_s`, after a failed transaction, after BUSY_S if further requests keep coming, and after
        ELSEWHERE_S if the writer is busy with other work.
        """
        with self._wake:
            wanted, failures = self._put, self.failures

            def over() -> bool:
                return self._done >= wanted or self.failures > failures

            def more() -> bool:
                return over() or self._put > wanted

            def elsewhere() -> bool:
                return more() or self._elsewhere

            if self._done < wanted and not self._loop.closing:
                self._asked = True
                self._wake.notify_all()
                until = time.monotonic() + timeout_s
                for waited_for, patience_s in ((over, BUSY_S), (more, ELSEWHERE_S - BUSY_S), (elsewhere, timeout_s)):
                    if self._wake.wait_for(waited_for, min(patience_s, until - time.monotonic())):
                        break
            return self._done >= wanted

    def between(self, job: Callable[[], bool]) -> None:
        """Calls `job` between transactions, in the writer's thread, until it returns False.

        It may change stored events: afterwards the writer drops what it remembers of them.
        """
        with self._wake:
            self._jobs.append(job)
            self._wake.notify_all()

    def _turn(self) -> bool:
        """One transaction, then other work that is due; whether to go on."""
        lot = self._next()
        closing = self._loop.closing
        if closing and not lot:
            return False
        if lot:
            self._store_all(lot)
        if closing and self.refusing:
            return False
        if self._jobs or self._upkeep.due():
            self._work_elsewhere()
        return True

    def _next(self) -> list[Waiting]:
        """The next lot, once it is worth a transaction; empty if there is other work, or none."""
        with self._wake:
            self._wake.wait_for(lambda: self._queue or self._jobs or self._loop.closing, timeout=UPKEEP_EVERY_S)
            if self._queue and not self._jobs:
                pause = AGAIN_S if self.refusing or self._again else EVERY_S
                self._wake.wait_for(self._worth_it, self._began + pause - time.monotonic())
            self._asked = False
            self._began = time.monotonic()
            return next_lot(self._queue)

    def _work_elsewhere(self) -> None:
        """One job, and the upkeep that is due. `settle` waits no longer than ELSEWHERE_S for this."""
        self._set_elsewhere(True)
        if self._jobs:
            self._do(self._jobs.popleft())
        self._upkeep.turn()
        self._set_elsewhere(False)

    def _set_elsewhere(self, elsewhere: bool) -> None:
        with self._wake:
            self._elsewhere = elsewhere
            self._wake.notify_all()

    def _worth_it(self) -> bool:
        return self._loop.closing or self._asked or (self._bytes >= WORTH_BYTES and not (self.refusing or self._again))

    def _do(self, job: Callable[[], bool]) -> None:
        try:
            if job():
                self._jobs.appendleft(job)
                return
        except CalledOff:
            log.info("a job between transactions was interrupted")
        except Exception as error:  # the writer must go on
            telemetry.FAILED.labels("writer").inc()
            log.error("a job between transactions failed", kind=type(error).__name__, where=where(error))
        self._correlator = None

    def _weigh(self, waiting: Iterable[Waiting], sign: int) -> None:
        for one in waiting:
            self._bytes += sign * len(one.packed)
            self.records += sign * one.records
        telemetry.QUEUE_REQUESTS.set(len(self._queue))
        telemetry.QUEUE_RECORDS.set(self.records)

    def _store_all(self, lot: Sequence[Waiting]) -> None:
        """Stores a lot, one by one if it fails as a whole; what still fails goes back into the queue."""
        left = deque(lot)
        try:
            self._commit(lot)
            left.clear()
        except Unavailable as error:
            self._failed(error, len(lot))
        except Exception:  # one bad request must not keep the others from being stored
            while left and self._alone(left[0]):
                left.popleft()
        finally:
            with self._wake:
                done = len(lot) - len(left)
                self._queue.extendleft(reversed(left))
                self._weigh(lot[:done], -1)
                self._done += done
                self._wake.notify_all()

    def _alone(self, waiting: Waiting) -> bool:
        """Stores one batch; whether that worked. A batch that keeps failing while the store works is set aside.

        Never for a shortage of memory or disk, however long it lasts: the largest batch fits into a third of the
        engine's memory.
        """
        try:
            self._commit([waiting])
            return True
        except SHORTAGES as error:
            self._failed(error, 1)
        except Exception as error:
            works = self._works()
            if works and time.monotonic() - waiting.tried >= AGAIN_S:
                waiting.tries, waiting.tried = waiting.tries + 1, time.monotonic()
            if waiting.tries > TRIES and not waiting.aside:
                with suppress(OSError, Unavailable):
                    self._set_aside(waiting, error)
            # Others are answered meanwhile, as theirs are in the journal; but not if it seems to happen to all of them.
            alone = works and not self._one_aside and (waiting.tries <= TRIES or waiting.aside)
            self._failed(error, 1, refuse=not alone)
            self._one_aside = self._one_aside or waiting.aside
            self._again = True
        return False

    def _works(self) -> bool:
        """Whether the store can be read and written at all."""
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

    def _failed(self, error: Exception, requests: int, *, refuse: bool = True) -> None:
        telemetry.FAILED.labels("writer").inc(requests)
        if refuse and not self._short_for_now(error):
            self.complaint.made(str(error)[:500] or type(error).__name__, requests)
        with self._wake:
            self.failures += 1

    def _short_for_now(self, error: Exception) -> bool:
        if not isinstance(error, OutOfMemory | MemoryError):
            return False
        now = time.monotonic()
        self._short_since = now if self._short_since is None else self._short_since
        return now - self._short_since < SHORTAGE_S

    def _works_again(self, lot: Sequence[Waiting]) -> None:
        self._short_since = None
        self._again = False
        if not all(waiting.aside for waiting in lot):
            self._one_aside = False
        self.complaint.over()

    def _commit(self, lot: Sequence[Waiting]) -> None:
        started = time.perf_counter()
        if self._correlator is None:  # the last transaction failed, and may be stored all the same
            held = self._store.position()
            for waiting in lot:
                if waiting.position <= held:
                    waiting.settle(repeated=False)
            lot = [waiting for waiting in lot if waiting.position > held]
            if not lot:
                self._works_again(lot)
                self._noted()
                return
        correlator = self._correlator or Correlator(self._store.lookup(), fresh=False)
        batches = [_unpacked(waiting) for waiting in lot]
        self._correlator = None  # until the commit is known to have worked: after a failure only the store knows
        self._older(batches)
        changes = correlator.plan(batches)
        changes.position = lot[-1].position
        self._store.write(changes)
        correlator.learn(changes)
        if not self._store.unlogged:
            self._journal.forget(changes.position)
        self._works_again(lot)
        self._count(batches, changes, time.perf_counter() - started)
        for position, waiting in enumerate(lot):
            waiting.settle(position in changes.duplicates)
        if changes.events or changes.replaced:
            self._noted()
        self._correlator = correlator

    def _count(self, batches: Sequence[Batch], changes: Changes, seconds: float) -> None:
        telemetry.COMMIT_SECONDS.observe(seconds)
        if self._store.checkpointed():
            telemetry.CHECKPOINT_SECONDS.observe(seconds)
        telemetry.COMMIT_REQUESTS.observe(len(batches))
        for (fate, _), records in changes.accounting.items():
            if fate != ACCEPTED:
                telemetry.ACCOUNTED.labels(fate).inc(records)
        for position, batch in enumerate(batches):
            if position not in changes.duplicates:
                for rule, count in batch.redacted.items():
                    telemetry.REDACTED.labels(rule).inc(count)
        before = changes.before
        telemetry.count_events([event for event in changes.events if event["event_id"] not in before])
        if changes.events:
            newest = max(event["time_ns"] for event in changes.events)
            telemetry.LAG_SECONDS.set((changes.received_ns - newest) / 1e9)


def _report(error: Exception) -> None:
    telemetry.FAILED.labels("writer").inc()
    log.error("the writer failed", kind=type(error).__name__, where=where(error))


def _unpacked(waiting: Waiting) -> Batch:
    """The batch, unpacked anew for each attempt, because storing it changes its reports.

    `received_ns` becomes the time at which the batch was put in the journal instead of the time at which reading it
    began. Batches are stored in that order, so that a client that has seen one event has seen all that were received
    before it. Positions in the journal are such times, except after the clock went back.
    """
    if waiting.aside:
        return tombstone(waiting.packed, waiting.position, waiting.records)
    batch = unpack(waiting.packed)
    if waiting.position - batch.received_ns < CLOCK_NS:
        batch.received_ns = waiting.position
        for report in batch.reports:
            report["received_ns"] = waiting.position
    return batch
