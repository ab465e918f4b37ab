"""Parses request bodies in worker processes, or in the main process.

Large bodies always go to a worker: the main process's memory cannot be capped. (Only while no worker can be started
does the main process read them too.) Bytes go in, sanitised batches come out. Those of `Readers` are forked before the
main process has threads or has opened the store, so that both share the memory of the compiled tables. All others, also
the replacement for a dead one, are spawned, because a process with threads cannot be forked safely. A worker ends with
the collector, however that ends, because its pipe is closed then.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import queue
import resource
import signal
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock
from typing import Literal, NamedTuple, Protocol

import structlog

from collector import telemetry
from collector.batch import Body, Receipt
from collector.errors import Rejected, Unavailable, where
from collector.journal.journal import pack, receipt
from collector.pipeline import TOLD_REMEMBERED, Pipeline
from collector.sanitise.sanitise import SEARCH_S

MOST_CHOSEN = 4  # about three workers saturate the single writer
SMALL = 4 << 20  # gRPC's default limit; even expanded 70-fold it fits the main process
MEMORY = 3 << 29  # per worker, beyond its tables: finding one bad record in the largest batch takes two thirds of it
START_S = 30  # for a new process to load its tables, which takes one or two
AGAIN_S = 30  # between attempts to start a process
WAIT_S = 5  # for a process that is being started; senders give up after ten seconds

log = structlog.get_logger()


class Read(NamedTuple):
    """What a body came to, as the journal keeps it."""

    receipt: Receipt
    packed: bytes


class BodyReader(Protocol):
    """Reads one body at a time."""

    def read(self, body: Body, received_ns: int) -> Read: ...
    def stored(self, told_ns: Mapping[int, int]) -> None: ...
    def close(self) -> None: ...


class Here:
    """Reads in this process."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._one = Lock()  # a sanitiser is not thread-safe

    def read(self, body: Body, received_ns: int) -> Read:
        """The body as a batch. Raises Rejected for what can never be read, Unavailable for a defect of ours."""
        with self._one:
            found = self._read(body, received_ns)
        if isinstance(found, Read):
            return found
        try:
            raise found
        finally:
            del found  # breaks the cycle of exception and frame

    def _read(self, body: Body, received_ns: int) -> Read | Rejected | Unavailable:
        """Returns a failure instead of raising it, without its traceback, whose frames hold what was read."""
        try:
            with self._pipeline.sanitiser.at_most(SEARCH_S):
                batch = self._pipeline.process(*body[:3], received_ns, body.project or None)
            packed = pack(batch)
            return Read(receipt(packed), packed)
        except (Rejected, Unavailable) as error:
            error.__context__ = None
            return error.with_traceback(None)
        except MemoryError:
            return Rejected("reading this request takes too much memory: send smaller batches", 413)
        except Exception as error:  # a defect of ours; not a 500, on which exporters drop the batch
            log.error("a request could not be read", kind=type(error).__name__, where=where(error))
            return Unavailable("the collector failed on this request; its log says where", retry_after=30)

    def stored(self, told_ns: Mapping[int, int]) -> None:
        """Remembers tool results that are stored, so that they are skipped when they are sent again."""
        self._pipeline.stored(told_ns)

    def close(self) -> None:
        """Nothing to release."""


class Worker:
    """Reads in a separate process. Only `stored` may be called while another thread reads."""

    def __init__(self, pipeline: Callable[[], Pipeline], start: Literal["fork", "spawn"] = "fork") -> None:
        """`pipeline` is called in the new process. Raises Gone where that process does not get ready."""
        self._pipe, theirs = multiprocessing.Pipe()
        # Sent with the next request, if there is one.
        self._told: deque[tuple[int, int]] = deque(maxlen=TOLD_REMEMBERED)
        context = multiprocessing.get_context("fork") if start == "fork" else multiprocessing.get_context("spawn")
        inherited = self._pipe if start == "fork" else None
        arguments = (theirs, inherited, pipeline)
        self._process = context.Process(target=_work, args=arguments, daemon=True, name="reader")
        self._process.start()
        theirs.close()
        try:
            if self._pipe.poll(START_S):
                self._pipe.recv_bytes()
                return
        except (EOFError, OSError):
            pass
        self._process.kill()
        self.close()
        raise Gone("a process that reads requests could not be started", retry_after=1)

    def read(self, body: Body, received_ns: int) -> Read:
        """As `Here.read`. Raises Unavailable where the process is gone."""
        told = dict(self._told.popleft() for _ in range(len(self._told)))
        try:
            self._pipe.send_bytes(pickle.dumps((told, body, received_ns), protocol=5))
            failed, found = self._pipe.recv_bytes(), self._pipe.recv_bytes()
        except (EOFError, OSError):
            raise Gone("a process that reads requests has ended", retry_after=1) from None
        if failed:
            raise pickle.loads(failed)
        return Read(receipt(found), found)

    def stored(self, told_ns: Mapping[int, int]) -> None:
        """As `Here.stored`; sent to the process with its next request."""
        self._told.extend(told_ns.items())

    def close(self) -> None:
        """Ends the process."""
        self._pipe.close()
        self._process.join(5)


class Gone(Unavailable):
    """A worker's process has ended: killed, or out of memory."""


def _work(pipe: Connection, inherited: Connection | None, pipeline: Callable[[], Pipeline]) -> None:
    if inherited:
        inherited.close()  # our copy of the other end would keep the pipe open when the collector is gone
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # A terminal signals the whole process group; the collector ends us.
        signal.signal(number, signal.SIG_IGN)
    gc.freeze()  # what was inherited is never collected: native objects can crash without the threads that a fork lacks
    _bound_memory()
    here = Here(pipeline())
    pipe.send_bytes(b"ready")
    while True:
        try:
            for part in _answer(here, pipe.recv_bytes()):
                pipe.send_bytes(part)
        except (EOFError, OSError, MemoryError):  # OSError: the collector was killed while sending
            os._exit(0)


def _answer(here: Here, request: bytes) -> tuple[bytes, bytes]:
    """The answer to a request: a failure or a batch.

    In a function of its own, so that an exception does not keep the request in memory.
    """
    try:
        told, body, received_ns = pickle.loads(request)
        here.stored(told)
        return b"", here.read(body, received_ns).packed
    except (Rejected, Unavailable) as error:
        return pickle.dumps(error, protocol=5), b""


def _bound_memory() -> None:
    """Caps this process at MEMORY more than it uses now; beyond that it gets MemoryError. Parsed, a body can take
    70 times its size.

    Not for the main process: a thread that starts while no memory is left would die.
    """
    with suppress(OSError, ValueError):  # only Linux counts private writable memory
        used = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmData"))
        most = (int(used.split()[1]) << 10) + MEMORY
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


class Readers:
    """Processes that are always there, the readers of a collector; `read` blocks until one is free. Made before any
    thread is started.
    """

    def __init__(self, pipeline: Pipeline, workers: int, another: Callable[[], Pipeline]) -> None:
        """`another` makes the same pipeline in a new process; it must be picklable."""
        self._here = Here(pipeline)
        self._another = another
        forks = [Worker(lambda: pipeline) for _ in range(workers)]
        self._all: list[BodyReader] = [*forks]
        self._free: queue.SimpleQueue[BodyReader] = queue.SimpleQueue()
        for fork in forks:
            self._free.put(fork)
        self._tried = 0.0  # when starting a process last failed
        self._ended = 0.0  # when a process last ended
        self.pool = ThreadPoolExecutor(max_workers=len(forks), thread_name_prefix="reader")
        self._starters = ThreadPoolExecutor(max_workers=len(forks), thread_name_prefix="starter")

    def read(self, body: Body, received_ns: int) -> Read:
        """The body as a batch, from the next free reader. Raises Rejected or Unavailable."""
        reader = self._next()
        ended = reader is self._here and time.monotonic() - self._tried >= AGAIN_S
        try:
            return counted(reader, body, received_ns)
        except Gone:
            ended, self._ended = True, time.monotonic()
            log.error("a worker process ended; what it was reading is answered 503")
            raise
        finally:
            if ended:  # beside this request, whose sender should know at once
                self._starters.submit(self._replace, reader)
            else:
                self._free.put(reader)

    def _next(self) -> BodyReader:
        """The next free reader. `pool` has a thread for each, so that one is missing only while it is being started."""
        try:
            return self._free.get(timeout=max(self._ended + WAIT_S - time.monotonic(), 0))
        except queue.Empty:
            raise Unavailable("the processes that read requests are being started again", retry_after=1) from None

    def _replace(self, ended: BodyReader) -> None:
        """Puts a new process in place of `ended`, or the main process until one can be started."""
        if ended is not self._here:
            self._all.remove(ended)
            ended.close()
        other: BodyReader = self._here
        try:
            other = Worker(self._another, "spawn")
            log.error("a worker process ended; another has taken its place")
        except Exception as error:  # whatever it is, there must be a reader
            self._tried = time.monotonic()
            kind = type(error).__name__
            log.error("a worker process ended and no other one starts; the main process does its work", kind=kind)
        if other not in self._all:
            self._all.append(other)
        self._free.put(other)

    def stored(self, told_ns: Mapping[int, int]) -> None:
        """Tells all readers which tool results are stored. To be called after the commit."""
        for reader in tuple(self._all):  # another thread may replace one meanwhile
            reader.stored(told_ns)

    def close(self) -> None:
        """Lets what is being read finish, then ends the processes."""
        self.pool.shutdown(wait=True)
        self._starters.shutdown(wait=True, cancel_futures=True)
        for reader in reversed(self._all):  # each fork inherited the pipes of earlier ones and keeps them open
            reader.close()


def counted(reader: BodyReader, body: Body, received_ns: int) -> Read:
    """What the reader makes of a body; a failure of ours is counted."""
    try:
        return reader.read(body, received_ns)
    except Gone:
        raise
    except Unavailable:
        telemetry.FAILED.labels("pipeline").inc()
        raise


def chosen() -> int:
    """The number of workers where none is set: one fewer than there are cores, as the main process needs one."""
    return min(len(os.sched_getaffinity(0)) - 1, MOST_CHOSEN)
