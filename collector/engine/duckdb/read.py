"""Reading: every question has a cursor of its own, ends when its time is over or nobody waits for it, and sees the last
commit.
"""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, NamedTuple, Protocol

import duckdb
from nanoarrow.ipc import StreamWriter

from collector.engine.duckdb.connection import Connection, all_or_nothing, used
from collector.engine.duckdb.derive import whole_hours
from collector.engine.whole_hours import Edge, WholeHours
from collector.errors import CalledOff, QueryTimeout, QueryTooLarge, Unavailable

Stamp = tuple[int, int]  # a file's size, and when it was changed


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


class ArchiveView(NamedTuple):
    """What every cursor begins with, so that it sees archived events too; all files with how many events each holds,
    the stamps of those that were there, and those that were not, or could not be read.
    """

    sql: str = ""
    files: Mapping[Path, int] = MappingProxyType({})
    stamps: Mapping[Path, Stamp] = MappingProxyType({})
    missing: frozenset[Path] = frozenset()

    def stale(self) -> bool:
        """Whether a file came, went or changed since."""
        return stamps(self.files) != self.stamps

    def missing_events(self) -> int:
        """The number of events in files that are not there now, or could not be read and are as they were."""
        there = stamps(self.files)
        return sum(
            events
            for file, events in self.files.items()
            if file not in there or (file in self.missing and there[file] == self.stamps.get(file))
        )


def stamps(files: Iterable[Path]) -> dict[Path, Stamp]:
    """The stamps of those files that can be reached."""
    found = {}
    for file in files:
        with suppress(OSError):
            stat = file.stat()
            found[file] = (stat.st_size, stat.st_mtime_ns)
    return found


STREAMED = re.compile(r"ArrowArrayStream::get_next\(\) failed \(\d+\): (.*)", re.DOTALL)
STREAMED_KINDS = {
    "INTERRUPT": duckdb.InterruptException,
    "Out of Memory": duckdb.OutOfMemoryException,
    "IO": duckdb.IOException,
    "Invalid Input": duckdb.InvalidInputException,
}
FAILED = (duckdb.Error, UnicodeDecodeError)  # the latter where an error's text quotes damaged bytes
VAST = re.compile(r"allocate data of size [0-9.]+ [GT]iB")


def damaged(error: Exception) -> bool:
    """Whether a damaged Parquet file may be why: the engine's reader throws errors of no class or of this one, quotes
    bytes that are no text, or believes a length of gigabytes. A disk that cannot be read now is no damage.
    """
    if isinstance(error, duckdb.OutOfMemoryException):
        return VAST.search(str(error)) is not None
    nameless = type(error) is duckdb.Error or isinstance(error, (duckdb.InvalidInputException, UnicodeDecodeError))
    return nameless or (isinstance(error, duckdb.IOException) and "Could not read enough bytes" in str(error))


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
    cursor: duckdb.DuckDBPyConnection, hours: Iterable[WholeHours], given: Mapping[str, Any]
) -> dict[WholeHours, tuple[int, int]]:
    """First and last moment of the counted run of each."""
    found: dict[WholeHours, tuple[int, int]] = {}
    for of_chains, alike in groupby(sorted(hours, key=attrgetter("of_chains")), attrgetter("of_chains")):
        wanted = list(alike)
        spans = [(int(given.get(each.start, each.start)), int(given.get(each.until, each.until))) for each in wanted]
        found |= zip(wanted, whole_hours(cursor, spans, chains=of_chains), strict=True)
    return found


See = Callable[[duckdb.DuckDBPyConnection, Mapping[Path, Stamp]], ArchiveView]


class Reader:
    """Queries to one database, from any thread."""

    def __init__(self, connection: Connection, see: See) -> None:
        self._connection = connection
        self._see = see
        self._view = ArchiveView()
        self._read: dict[Path, Stamp] = {}  # files that were read from beginning to end
        self._left_out: dict[Path, Stamp] = {}  # files that cannot be

    @property
    def missing_events(self) -> int:
        """The number of archived events that no query sees because their files are missing or damaged."""
        return self._view.missing_events()

    def rows(
        self, sql: str, params: Mapping[str, Any] | None = None, *, timeout_s: float = 30, archived: bool = True
    ) -> list[dict[str, Any]]:
        """The result as one dict per row. Parameters are `$name`; there may be more than it uses. Raises QueryTimeout.

        Without `archived`, `events` has only those in the database, which may still change.
        """
        with self._cursor(timeout_s, archived=archived) as cursor, bound(cursor, sql, params) as given:
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
            StreamWriter.from_writable(out) as writer,
            of_the_engine(),
        ):
            # A relation exports its stream as a capsule; a cursor would need pyarrow.
            writer.write_stream(cursor.query(sql, params=given))

    @contextmanager
    def _cursor(self, timeout_s: float, *, archived: bool = True) -> Iterator[duckdb.DuckDBPyConnection]:
        with self._seeing(timeout_s, archived=archived) as (cursor, _):
            yield cursor

    @contextmanager
    def _seeing(
        self, timeout_s: float, *, archived: bool = True
    ) -> Iterator[tuple[duckdb.DuckDBPyConnection, ArchiveView]]:
        """A cursor, and what it sees of the archive."""
        with self._connection.cursor() as cursor:
            timer = threading.Timer(timeout_s, cursor.interrupt)
            timer.daemon = True
            timer.start()
            call_off = CALL_OFF.get()
            try:
                with call_off.over(cursor) if call_off else nullcontext():
                    yield cursor, self._look(cursor) if archived else ArchiveView()
            except duckdb.InterruptException:
                raise QueryTimeout(f"the query took longer than {timeout_s:g} s") from None
            except FAILED as error:
                file = self._damaged_file(cursor) if archived and damaged(error) else None
                if file:
                    raise Unavailable(
                        f"{file} is damaged: put it back; until then its events are left out", 5
                    ) from None
                if isinstance(error, duckdb.OutOfMemoryException):
                    raise QueryTooLarge("the query needs more memory than MISSTEP_MEMORY allows") from None
                raise
            finally:
                timer.cancel()

    def _look(self, cursor: duckdb.DuckDBPyConnection) -> ArchiveView:
        """Lets a cursor see archived events, in the files that exist now: disks are unplugged and plugged in again."""
        view = self._view
        if view.stale():
            self._view = view = self._see(cursor, self._left_out)
        if view.sql:
            cursor.execute(view.sql)
        return view

    def _damaged_file(self, cursor: duckdb.DuckDBPyConnection, among: Collection[Path] = ()) -> Path | None:
        """The first file, of all or of these, that can be opened but not read to its end, which is left out from now on
        until it changes.

        Ends with the time limit of the query that failed; the next that fails goes on from there.
        """
        view = self._view
        for file in among or view.files:
            stamp = view.stamps.get(file)
            if stamp is None or file in view.missing or self._read.get(file) == stamp:
                continue
            try:
                cursor.execute("select bit_xor(hash(found)) from read_parquet(?) found", [str(file)]).fetchall()
            except FAILED as error:
                if not damaged(error):
                    return None
                self._left_out[file] = stamp
                self._view = self._see(cursor, self._left_out)
                return file
            self._read[file] = stamp
        return None
