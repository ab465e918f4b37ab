"""Reading: every question has a cursor of its own, ends when its time is over or nobody waits for it, and sees the last
commit; of that, where the context is a project's (`PROJECT`), the project's rows alone.
"""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import IO, Any, Protocol

import duckdb

from collector.engine.duckdb.connection import Connection, all_or_nothing, used
from collector.engine.duckdb.derive import whole_hours
from collector.engine.duckdb.only import Confining
from collector.engine.duckdb.schema import POSITION
from collector.engine.duckdb.stream import write_stream
from collector.engine.whole_hours import Edge, WholeHours
from collector.errors import CalledOff, QueryTimeout, QueryTooLarge
from collector.projects import PROJECT


class Running(Protocol):
    """Something that can be interrupted from another thread."""

    def interrupt(self) -> None: ...


class CallOff:
    """Set in `CALL_OFF`, interrupts the work of that context: what is running, and what would begin later."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[Running] = set()
        self.called = False

    def now(self) -> None:
        """May be called from any thread."""
        with self._lock:
            self.called = True
            for work in self._running:
                work.interrupt()

    @contextmanager
    def over(self, work: Running) -> Iterator[None]:
        """Interrupts `work` if called off while the block runs. Raises CalledOff, also if it was called off before."""
        with self._lock:
            if self.called:
                raise CalledOff
            self._running.add(work)
        try:
            yield
        except duckdb.InterruptException:
            if self.called:
                raise CalledOff from None
            raise
        finally:
            with self._lock:
                self._running.discard(work)


CALL_OFF: ContextVar[CallOff | None] = ContextVar("CALL_OFF", default=None)


STREAMED = re.compile(r"ArrowArrayStream::get_next\(\) failed \(\d+\): (.*)", re.DOTALL)
STREAMED_KINDS = {
    "INTERRUPT": duckdb.InterruptException,
    "Out of Memory": duckdb.OutOfMemoryException,
    "IO": duckdb.IOException,
    "Invalid Input": duckdb.InvalidInputException,
}


@contextmanager
def of_the_engine() -> Iterator[None]:
    """Turns an error that came through an Arrow stream, which passes only its text, into the engine's own."""
    try:
        yield
    except RuntimeError as error:
        if not (found := STREAMED.match(str(error))):
            raise
        kind = found[1].partition(" Error: ")[0]
        raise STREAMED_KINDS.get(kind, duckdb.Error)(found[1]) from None


@contextmanager
def bound(cursor: duckdb.DuckDBPyConnection, sql: str, params: Mapping[str, Any] | None) -> Iterator[dict[str, Any]]:
    """The parameters that a statement uses. If edges of whole hours are among them, this is a transaction: what was
    counted when they were found is still counted when the statement runs.

    They are found first, because of constants the engine knows what it need not read; of a subquery that finds the same
    it does not (docs/decisions/0008).
    """
    given = dict(params or {})
    needed = used(sql, given)
    edges = {name: value for name, value in needed.items() if isinstance(value, Edge)}
    if not edges:
        yield needed
        return
    with all_or_nothing(cursor):
        found = _found(cursor, dict.fromkeys(edge.hours for edge in edges.values()), given)
        yield needed | {name: found[edge.hours][edge.last] for name, edge in edges.items()}


def _found(
    cursor: duckdb.DuckDBPyConnection, hours: Collection[WholeHours], given: Mapping[str, Any]
) -> dict[WholeHours, tuple[int, int]]:
    """First and last moment of the counted run of each."""
    found: dict[WholeHours, tuple[int, int]] = {}
    for of_chains in (False, True):
        alike = [each for each in hours if each.of_chains == of_chains]
        spans = [(int(given.get(each.start, each.start)), int(given.get(each.until, each.until))) for each in alike]
        if alike:
            found |= zip(alike, whole_hours(cursor, spans, chains=of_chains), strict=True)
    return found


class Reader:
    """Queries to one database, from any thread."""

    materializes = True

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._confining = Confining()

    def rows(self, sql: str, params: Mapping[str, Any] | None = None, *, timeout_s: float = 30) -> list[dict[str, Any]]:
        """The result as one dict per row. Parameters are `$name`, and may be more than it uses. Raises QueryTimeout."""
        with self._cursor(timeout_s) as cursor, bound(cursor, sql, params) as given:
            cursor.execute(sql, given)
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def arrow(self, sql: str, params: Mapping[str, Any] | None = None, *, timeout_s: float = 30) -> bytes:
        """The result as an Arrow IPC stream. Parameters are `$name`. Raises QueryTimeout."""
        out = io.BytesIO()
        self.stream(sql, params, out, timeout_s=timeout_s)
        return out.getvalue()

    def stream(self, sql: str, params: Mapping[str, Any] | None, out: IO[bytes], *, timeout_s: float = 30) -> None:
        """Writes the result to `out` as an Arrow IPC stream, batch by batch. Raises QueryTimeout."""
        with (
            self._cursor(timeout_s) as cursor,
            bound(cursor, sql, params) as given,
            of_the_engine(),
        ):
            # A relation exports its stream as a capsule; a cursor would need pyarrow.
            write_stream(cursor.query(sql, params=given), out)

    def behind(self) -> int:
        """The number of sessions that changed since `keep_up` last updated them."""
        counted = self.rows("select count(*) as n from (select distinct project, service, session from changed)")
        return int(counted[0]["n"])

    def is_empty(self) -> bool:
        """Whether no request was ever stored."""
        return not self.rows("select 1 from requests limit 1") and not self.rows("select 1 from events limit 1")

    def position(self) -> int:
        """The position in the journal of the last batch that is stored."""
        asked = "select value from meta where name = $name"
        return int(self.rows(asked, {"name": POSITION})[0]["value"])

    def accounting(self) -> dict[str, int]:
        """The number of records ever accepted, and how many were stored, duplicate, or dropped by reason."""
        return {
            row["reason"]: int(row["records"])
            for row in self.rows("select reason, sum(records) as records from accounting group by reason")
        }

    def count(self, table: str) -> int:
        """How many rows a table has."""
        return int(self.rows(f"select count(*) as n from {table}")[0]["n"])

    @contextmanager
    def _cursor(self, timeout_s: float, *, confined: bool = True) -> Iterator[duckdb.DuckDBPyConnection]:
        project = PROJECT.get() if confined else None
        with self._connection.cursor() as cursor, self._confining.to(project, cursor):
            timer = threading.Timer(timeout_s, cursor.interrupt)
            timer.daemon = True
            timer.start()
            call_off = CALL_OFF.get()
            try:
                with call_off.over(cursor) if call_off else nullcontext():
                    yield cursor
            except duckdb.InterruptException:
                raise QueryTimeout(f"the query took longer than {timeout_s:g} s") from None
            except duckdb.OutOfMemoryException:
                raise QueryTooLarge("the query needs more memory than MISSTEP_MEMORY allows") from None
            finally:
                timer.cancel()
