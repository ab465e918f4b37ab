"""At rest only the main process reads. Processes that read beside it start under load, or for a
large body, and end when they have not been needed for a while. So a collector that rests is one process.

The first large body after a rest waits for its process, which takes one or two seconds; smaller ones are read in the
main process meanwhile, if there is another thread (`most` of them) to do so. A process is ended only between two
bodies, so that no request is refused because it went.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import resource_tracker
from threading import Event, Lock

import structlog

from collector.batch import Body
from collector.pipeline import Pipeline
from collector.receive.workers import AGAIN_S, SMALL, Gone, Here, Read, Worker, counted

LOAD = 0.2  # of LOAD_S spent reading: from there on a process more
LOAD_S = 1.0
REST_S = 60.0  # without such a load or a large body, after which they end

log = structlog.get_logger()


class Load:
    """Whether reading takes much of the time, judged once every LOAD_S while something is read."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._spent = 0.0
        self._one = Lock()

    def high(self, seconds: float) -> bool:
        """Whether the load is high, now that reading took so long once more."""
        with self._one:
            now = time.monotonic()
            self._spent += seconds
            if now - self._since < LOAD_S:
                return False
            high = self._spent > LOAD * (now - self._since)
            self._since, self._spent = now, 0.0
            return high


class OnDemand:
    """All readers of a collector; `read` blocks until one is free."""

    def __init__(self, pipeline: Pipeline, most: int, another: Callable[[], Pipeline], rest_s: float = REST_S) -> None:
        """At `most` so many processes, with 0 only such for large bodies. `another` makes the same pipeline in a new
        process; it must be picklable. Processes end after `rest_s` without need of them.
        """
        self._here = Here(pipeline)
        self._most = most
        self._another = another
        self._rest_s = rest_s
        self._workers: list[Worker] = []
        self._free: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        self._load = Load()
        self._tried = -float(AGAIN_S)  # when starting a process last failed
        self._needed = 0.0  # when a process was last needed
        self._changing = Lock()  # held while a process is started, or ended for lack of need
        self._watching = False
        self._over = Event()
        self.pool = ThreadPoolExecutor(max_workers=max(most, 1), thread_name_prefix="reader")
        self._helpers = ThreadPoolExecutor(max_workers=2, thread_name_prefix="starter")  # one starts, one watches

    def read(self, body: Body, received_ns: int) -> Read:
        """The body as a batch, from the next free reader. Raises Rejected or Unavailable."""
        small = len(body.content) < SMALL
        worker = self._worker(small=small)
        began = time.monotonic()
        try:
            return counted(worker or self._here, body, received_ns)
        except Gone:
            log.error("a worker process ended; what it was reading is answered 503")
            self._drop(worker)
            worker = None
            raise
        finally:
            if worker:
                self._free.put(worker)
            self._note(time.monotonic() - began, small=small)

    def _worker(self, *, small: bool) -> Worker | None:
        """A process that is free; one that is started now, for a large body; None: the main process reads."""
        if small and not self._most:
            return None
        with suppress(queue.Empty):
            return self._free.get_nowait()
        return None if small else self._started()

    def _note(self, seconds: float, *, small: bool) -> None:
        high = self._load.high(seconds)
        if high or not small:
            self._needed = time.monotonic()
        if high and len(self._workers) < self._most:
            with suppress(RuntimeError):  # it is being closed
                self._helpers.submit(self._add)

    def _add(self) -> None:
        """Starts a process, unless enough have started meanwhile."""
        if len(self._workers) < self._most and (worker := self._started()):
            self._free.put(worker)

    def _started(self) -> Worker | None:
        """A new process, or one that became free meanwhile; None where none starts: the next try waits a while."""
        with self._changing:
            with suppress(queue.Empty):
                return self._free.get_nowait()
            if time.monotonic() - self._tried < AGAIN_S:
                return None
            try:
                worker = Worker(self._another, "spawn")
            except Exception as error:  # whatever it is, there must be a reader
                self._tried = time.monotonic()
                kind = type(error).__name__
                log.error("no process to read requests starts; the main process does its work", kind=kind)
                return None
            self._workers.append(worker)
            self._needed = time.monotonic()
            if not self._watching:
                self._watching = True
                self._helpers.submit(self._end_unneeded)
            return worker

    def _end_unneeded(self) -> None:
        """Ends the processes that are free once none was needed for `rest_s`; returns when there are none."""
        while not self._over.wait(self._rest_s / 4):
            with self._changing:
                if time.monotonic() - self._needed >= self._rest_s:
                    with suppress(queue.Empty):
                        while True:
                            self._drop(self._free.get_nowait())
                if not self._workers:
                    self._watching = False
                    _end_tracker()
                    return

    def _drop(self, worker: Worker | None) -> None:
        if worker:
            self._workers.remove(worker)
            worker.close()

    def stored(self, told_ns: Mapping[int, int]) -> None:
        """Tells all readers which tool results are stored. To be called after the commit."""
        self._here.stored(told_ns)
        for worker in tuple(self._workers):  # other threads may start and end some meanwhile
            worker.stored(told_ns)

    def close(self) -> None:
        """Lets what is being read finish, then ends the processes."""
        self.pool.shutdown(wait=True)
        self._over.set()
        self._helpers.shutdown(wait=True, cancel_futures=True)
        for worker in tuple(self._workers):
            self._drop(worker)


def _end_tracker() -> None:
    """Ends the process by which multiprocessing watches over others, which it would leave running. It has a new one for
    the next of them.
    """
    resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]
