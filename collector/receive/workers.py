"""Who reads request bodies: processes of their own, or the pipeline in this one where there are no cores for them.

Large ones are never read in this one, whose memory cannot be bounded. Bytes go in, sanitised batches come out. A worker
is a fork, made before any thread or file of the store is there, so that it shares the compiled tables' memory; one that
takes the place of a dead one is a new process, because threads do not survive a fork. It ends when the collector does,
however that ends: its pipe is closed then.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import queue
import resource
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock
from typing import Literal, NamedTuple, Protocol

import structlog

from collector import telemetry
from collector.decode import plain
from collector.errors import Rejected, Unavailable, where
from collector.pipeline import TOLD_REMEMBERED, Pipeline
from collector.store.changes import Receipt
from collector.store.journal import pack, receipt

MOST_CHOSEN = 4  # the one writer takes what about three of them read
SMALL = 4 << 20  # what gRPC takes unless told otherwise: seventy times as much is no harm to the main process
MEMORY = 3 << 29  # for what a worker reads: to find one bad record in the largest batch takes two thirds of it
SEARCH_S = 20  # of CPU for secrets in one body: 64 MiB of settings with one in each line would take minutes
START_S = 30  # for a new process to load its tables; it takes one or two
AGAIN_S = 30  # after that, where no process could be started, it is tried again

log = structlog.get_logger()


class Body(NamedTuple):
    """A request body, decompressed. `signal` is logs, traces, metrics, or events for plain JSON."""

    content: bytes
    media: str
    signal: str


class Read(NamedTuple):
    """What a body came to, as the journal keeps it."""

    receipt: Receipt
    packed: bytes


class Reader(Protocol):
    """Reads one body at a time."""

    def read(self, body: Body, received_ns: int) -> Read: ...
    def stored(self, told: Iterable[int]) -> None: ...
    def close(self) -> None: ...


class Here:
    """Reads in this process."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._one = Lock()  # a sanitiser serves one thread at a time

    def read(self, body: Body, received_ns: int) -> Read:
        """The body as a batch. Raises Rejected for what can never be read, Unavailable where we fail on it."""
        with self._one:
            found = self._read(body, received_ns)
        if isinstance(found, Read):
            return found
        try:
            raise found
        finally:
            del found  # or it would hold this frame, and that it

    def _read(self, body: Body, received_ns: int) -> Read | Rejected | Unavailable:
        """A failure is returned, without the frames in which it came about: they hold what was read of the body."""
        until = time.thread_time() + SEARCH_S
        try:
            if body.signal == "events":
                batch = plain.batch(self._pipeline, body.content, received_ns, until)
            else:
                batch = self._pipeline.process(body.content, body.media, body.signal, received_ns, until)
            packed = pack(batch)
            return Read(receipt(packed), packed)
        except (Rejected, Unavailable) as error:
            error.__context__ = None
            return error.with_traceback(None)
        except MemoryError:
            return Rejected("reading this request takes too much memory: send smaller batches", 413)
        except Exception as error:  # a defect of ours: the exporter must keep the batch, so not a 500
            log.error("a request could not be read", kind=type(error).__name__, where=where(error))
            return Unavailable("the collector failed on this request; its log says where", retry_after=30)

    def stored(self, told: Iterable[int]) -> None:
        """Remembers which tool results need no second look."""
        self._pipeline.stored(told)

    def close(self) -> None:
        """Nothing is held."""


class Worker:
    """Reads in a process of its own. Not for use by two threads at once, but for `stored`."""

    def __init__(self, pipeline: Callable[[], Pipeline], start: Literal["fork", "spawn"] = "fork") -> None:
        """`pipeline` is called in the new process. Raises Gone where that does not come so far."""
        self._pipe, theirs = multiprocessing.Pipe()
        self._told: deque[int] = deque(maxlen=TOLD_REMEMBERED)  # it may hear of them long after, or never
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
        told = [self._told.popleft() for _ in range(len(self._told))]
        try:
            self._pipe.send_bytes(pickle.dumps((told, body, received_ns), protocol=5))
            failed, found = self._pipe.recv_bytes(), self._pipe.recv_bytes()
        except (EOFError, OSError):
            raise Gone("a process that reads requests has ended", retry_after=1) from None
        if failed:
            raise pickle.loads(failed)
        return Read(receipt(found), found)

    def stored(self, told: Iterable[int]) -> None:
        """As `Here.stored`; the process hears of it with its next request."""
        self._told.extend(told)

    def close(self) -> None:
        """Ends the process."""
        self._pipe.close()
        self._process.join(5)


class Gone(Unavailable):
    """A worker's process has ended: killed, or out of memory."""


def _work(pipe: Connection, inherited: Connection | None, pipeline: Callable[[], Pipeline]) -> None:
    if inherited:
        inherited.close()  # the other end: the pipe would stay open when the collector is gone
    for number in (signal.SIGINT, signal.SIGTERM):  # sent to the whole group from a terminal; the collector decides
        signal.signal(number, signal.SIG_IGN)
    _bound_memory()
    here = Here(pipeline())
    pipe.send_bytes(b"ready")
    while True:
        try:
            for part in _answer(here, pipe.recv_bytes()):
                pipe.send_bytes(part)
        except (EOFError, OSError, MemoryError):  # OSError where the collector was killed while it sent
            os._exit(0)


def _answer(here: Here, request: bytes) -> tuple[bytes, bytes]:
    """What goes back for a request, a failure or a batch; nothing of it stays in memory, as it would with an exception
    in `_work`.
    """
    try:
        told, body, received_ns = pickle.loads(request)
        here.stored(told)
        return b"", here.read(body, received_ns).packed
    except (Rejected, Unavailable) as error:
        return pickle.dumps(error, protocol=5), b""


def _bound_memory() -> None:
    """From now on this process gets MEMORY more and then MemoryError: two bytes of a body can come to seventy.

    Not for the main process: there it also ends threads that begin in the moment in which nothing is left.
    """
    with suppress(OSError, ValueError):  # only Linux counts what is private and written
        used = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmData"))
        most = (int(used.split()[1]) << 10) + MEMORY
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


class Readers:
    """All readers of a collector; `read` blocks until one is free. Made before any thread is started."""

    def __init__(self, pipeline: Pipeline, workers: int, another: Callable[[], Pipeline]) -> None:
        """`another` makes the same pipeline in a new process; it can be pickled."""
        self._here = Here(pipeline)
        self._another = another
        self._small = 0 if workers else SMALL  # bytes of a body that is read in this process
        forks = [Worker(lambda: pipeline) for _ in range(workers or 1)]
        self._all: list[Reader] = [*forks] if workers else [self._here, *forks]
        self._free: queue.SimpleQueue[Reader] = queue.SimpleQueue()
        for fork in forks:
            self._free.put(fork)
        self._tried = 0.0  # when a process could last not be started
        self.pool = ThreadPoolExecutor(max_workers=len(forks), thread_name_prefix="reader")

    def read(self, body: Body, received_ns: int) -> Read:
        """The body as a batch, by whoever is free. Raises Rejected or Unavailable."""
        small = len(body.content) < self._small
        reader = self._here if small else self._free.get()
        if reader is self._here and not small and time.monotonic() - self._tried >= AGAIN_S:
            reader = self._instead_of(reader)
        try:
            return reader.read(body, received_ns)
        except Gone:
            reader = self._instead_of(reader)
            raise
        except Unavailable:
            telemetry.FAILED.labels("pipeline").inc()
            raise
        finally:
            if not small:
                self._free.put(reader)

    def _instead_of(self, ended: Reader) -> Reader:
        """A new process, or this one until one can be started: better that it reads all than that nobody does."""
        if ended is not self._here:
            self._all.remove(ended)
            ended.close()
        other: Reader
        try:
            other = Worker(self._another, "spawn")
            log.error("a process that reads requests has ended; another has taken its place")
        except (Gone, OSError):
            other = self._here
            self._tried = time.monotonic()
            log.error("a process that reads requests has ended and no other starts; its work goes on in the main one")
        if other not in self._all:
            self._all.append(other)
        return other

    def stored(self, told: Iterable[int]) -> None:
        """Tells all readers which tool results need no second look. To be called after the commit."""
        for reader in self._all:
            reader.stored(told)

    def close(self) -> None:
        """Lets what is being read finish, then ends the processes."""
        self.pool.shutdown(wait=True)
        for reader in reversed(self._all):  # a fork has the pipes of those before it, and holds them open
            reader.close()


def chosen(workers: int | None) -> int:
    """How many processes read all bodies: as the setting says, else one core is left for the writer and the doors."""
    return min(len(os.sched_getaffinity(0)) - 1, MOST_CHOSEN) if workers is None else workers
