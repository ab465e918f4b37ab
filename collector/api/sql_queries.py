"""Read-only SQL over the events that a range and filters select: one SELECT, run in a `sandbox` process.

The events are streamed there with only the columns that the statement names. So SQL of users cannot reach the store,
and a statement that takes too much only ends its own process.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import IO, Any, Protocol

import msgspec

from collector.api.sandbox import Needs, Outcome, Task
from collector.columns import COLUMNS
from collector.engine.duckdb.read import CALL_OFF
from collector.errors import CalledOff, QueryTimeout, Rejected, Unavailable
from collector.query.filters import Selection
from collector.query.retries import relation

MOST_SQL = 20_000
MOST_BYTES = 64 << 20
PATIENCE_S = 5.0
TIMES = {"time": "time_ns", "received_time": "received_ns"}
ONE_AT_A_TIME = threading.Lock()


def names() -> list[str]:
    """The columns of `events` as SQL sees it."""
    return [*TIMES, *COLUMNS, "recovered"]


class Streams(Protocol):
    """The part of the store that SQL needs."""

    def stream(self, sql: str, params: dict[str, Any], out: IO[bytes], *, timeout_s: float = 30) -> None: ...


class Child:
    """The sandbox process; `interrupt` ends it."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-m", "collector.api.sandbox"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"HOME": "/nonexistent"},
            cwd="/",
        )

    def interrupt(self) -> None:
        """Ends the process at once. May be called from any thread, and again."""
        self.process.kill()

    def close(self) -> None:
        """Ends the process and releases everything."""
        self.interrupt()
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        self.process.wait()


def answer_sql(
    store: Streams, selection: Selection, sql: str, limit: int, *, arrow: bool = False, seconds: float = 20
) -> tuple[Outcome, bytes]:
    """The outcome and the rows, as JSON or as an Arrow stream. Raises Rejected, QueryTimeout, Unavailable."""
    if len(sql) > MOST_SQL:
        raise Rejected(f"a statement has at most {MOST_SQL:,} characters", 413)
    if not ONE_AT_A_TIME.acquire(timeout=PATIENCE_S):
        raise Unavailable("another statement is being answered", retry_after=PATIENCE_S, status=429)
    try:
        return _answered(store, selection, Task(sql, names(), limit, arrow, int(seconds)), seconds)
    finally:
        ONE_AT_A_TIME.release()


def _answered(store: Streams, selection: Selection, task: Task, seconds: float) -> tuple[Outcome, bytes]:
    try:
        child = Child()
    except OSError as error:  # too many open files or processes, or no memory
        raise Unavailable(f"no process can be started for the statement: {error.strerror}", PATIENCE_S) from None
    call_off, until = CALL_OFF.get(), time.monotonic() + seconds
    timer = threading.Timer(seconds, child.interrupt)
    timer.daemon = True
    timer.start()
    try:
        if call_off:
            with call_off.over(child):
                return _talk(child, store, selection, task, until)
        return _talk(child, store, selection, task, until)
    except (BrokenPipeError, RuntimeError, msgspec.DecodeError):  # it was ended, or died without giving a reason
        if call_off and call_off.called:
            raise CalledOff from None
        if time.monotonic() >= until:
            raise QueryTimeout(f"the statement took longer than {seconds:g} s") from None
        raise Rejected("the statement used more memory or processor time than it may, and was ended") from None
    finally:
        timer.cancel()
        child.close()


def _talk(child: Child, store: Streams, selection: Selection, task: Task, until: float) -> tuple[Outcome, bytes]:
    put, get = child.process.stdin, child.process.stdout
    assert put is not None
    assert get is not None
    put.write(msgspec.json.encode(task) + b"\n")
    put.flush()
    needs = msgspec.json.decode(get.readline(), type=Needs)
    if needs.error:
        raise Rejected(f"sql: {needs.error}")
    shown = (
        f"make_timestamp_ns({TIMES[name]})::timestamp as {name}" if name in TIMES else f'"{name}"'
        for name in needs.columns
    )
    query = f"select {', '.join(shown)} from {relation(selection, *needs.columns)} where {selection.where()}"
    try:
        store.stream(query, selection.params(), put, timeout_s=max(0.1, until - time.monotonic()))
        put.close()
    except (BrokenPipeError, RuntimeError):  # it stopped reading: it may have said why
        with suppress(OSError):
            put.close()
        with suppress(msgspec.DecodeError):
            _raise_error(msgspec.json.decode(get.readline(), type=Outcome))
        raise
    outcome = msgspec.json.decode(get.readline(), type=Outcome)
    _raise_error(outcome)
    body = get.read(MOST_BYTES + 1)
    if len(body) > MOST_BYTES:
        raise Rejected(f"the answer has more than {MOST_BYTES >> 20} MiB: ask for fewer rows or columns")
    if child.process.wait(timeout=PATIENCE_S):
        raise BrokenPipeError
    return outcome, body


def _raise_error(outcome: Outcome) -> None:
    if outcome.error:
        raise Rejected(f"sql: {outcome.error}")
