"""The one connection to the database, reopened when DuckDB has invalidated it.

A checkpoint that fails (no space, a disk that became read-only) makes DuckDB refuse everything until the database is
reopened. Everything committed is in its log, so it is reopened here as soon as possible, and no restart is needed.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import structlog

from collector import telemetry
from collector.engine.duckdb.open import DATABASE, attach, detach
from collector.errors import CalledOff, OutOfMemory, Unavailable
from collector.files import synchronise

AGAIN_S = 3.0  # between attempts to reopen the database: each may have to read a long log
USED_UP = re.compile(r"[KMGT]iB used\)")
IDLE_S = 30.0  # for users of the old connection to finish

log = structlog.get_logger()


class Busy(Unavailable):
    """Queries run, and did not end in time."""


class Connection:
    """Lends the connection to `open()`; raises Unavailable while there is none that works."""

    def __init__(self, open: Callable[[], duckdb.DuckDBPyConnection], path: Path | None) -> None:
        self._open = open
        self._path = path
        self._connection = open()
        self._file = _file(path)
        self._users = 0
        self._log = 0
        self._change = threading.Condition()
        self._broken = False
        self._alone = False
        self._tried = 0.0

    @contextmanager
    def use(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """The connection, for as long as the block lasts."""
        with self._change:
            self._change.wait_for(lambda: not self._alone)
            if self._broken:
                self._repair()
            connection = self._connection
            self._users += 1
        try:
            with self._translated():
                yield connection
        finally:
            with self._change:
                self._users -= 1
                self._change.notify_all()

    @contextmanager
    def cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor of its own, for as long as the block lasts."""
        with self.use() as connection, closing(connection.cursor()) as cursor:
            cursor.execute(f"use {DATABASE}")  # a new cursor is not where its connection is
            yield cursor

    def check_file(self) -> None:
        """Raises Unavailable if the file is no longer the one that was opened: writes to it would be lost."""
        if self._path and _file(self._path) != self._file:
            try:
                os.stat(self._path)
            except PermissionError as error:
                raise Unavailable(f"{self._path} cannot be reached: {error.strerror}", 5) from None
            except OSError:
                pass
            raise Unavailable(
                f"{self._path} was moved or removed: put it back, or restart the collector to begin a new one", 5
            )

    def log_is_gone(self) -> bool:
        """Whether the log file is missing: after a checkpoint, or because somebody removed it."""
        return self._path is not None and not os.path.exists(f"{self._path}.wal")

    def log_shrank(self) -> bool:
        """Whether the log is shorter than at the last call, as after a checkpoint."""
        if self._path is None:
            return False
        try:
            size = os.stat(f"{self._path}.wal").st_size
        except OSError:
            size = 0
        before, self._log = self._log, size
        return size < before

    @contextmanager
    def alone(self, patience_s: float = IDLE_S) -> Iterator[duckdb.DuckDBPyConnection]:
        """The connection for exclusive use; others wait. Raises Unavailable if queries do not end in time."""
        with self._change:
            self._alone = True
            try:
                if not self._change.wait_for(lambda: self._users == 0, patience_s):
                    raise Busy("the store cannot be written anew while queries run", 5)
                with self._translated():
                    yield self._connection
            finally:
                self._alone = False
                self._change.notify_all()

    @contextmanager
    def closed(self, patience_s: float = IDLE_S) -> Iterator[None]:
        """The file is closed while the block lasts, then opened again. Raises Busy if queries do not end in time."""
        assert self._path
        with self.alone(patience_s) as engine:
            try:
                detach(engine)
                try:
                    yield
                finally:
                    self._file = _file(self._path)
                    attach(engine, self._path)
            except duckdb.Error as error:  # `use` tries to open it again
                self._give_up(first_line(error))
                raise

    def swap(self, fresh: Path) -> None:
        """Replaces the database file by another and opens that. Raises Unavailable if queries do not end in time."""
        assert self._path
        with self.closed():
            fresh.replace(self._path.resolve())
            Path(f"{self._path}.wal").unlink(missing_ok=True)
            with suppress(OSError):  # not every file system can synchronise a folder
                synchronise(fresh.parent)

    def interrupt(self) -> None:
        """Ends the statement that this connection, and none of its cursors, runs now. From any thread."""
        self._connection.interrupt()

    def close(self) -> None:
        """Closes the database."""
        with self._change:
            self._connection.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turns the errors that are not the statement's fault into our own, of which Unavailable says to try again."""
        try:
            yield
        except duckdb.InterruptException:
            raise CalledOff from None
        except RuntimeError as error:
            if str(error) == "Query interrupted":  # what the engine makes of Ctrl-C
                raise KeyboardInterrupt from None
            raise
        except duckdb.Error as error:
            if _lost(error):
                self._give_up(str(error))
                raise Unavailable(f"the store must be opened again: {first_line(error)}", 5) from None
            if _out_of_memory(error):
                raise OutOfMemory(first_line(error), 5) from None
            if isinstance(error, duckdb.OperationalError) or type(error) is duckdb.Error:  # the latter: "Corrupt …"
                raise Unavailable(first_line(error), 5) from None
            raise

    def _give_up(self, reason: str) -> None:
        with self._change:
            if self._broken:
                return
            self._broken = True
        telemetry.FAILED.labels("store").inc()
        log.error("the store must be opened again", store=str(self._path), error=reason.splitlines()[0][:300])

    def _repair(self) -> None:
        if time.monotonic() - self._tried < AGAIN_S:
            raise Unavailable("the store is being opened again", 5)
        # DuckDB keeps a database open for as long as it has any cursor.
        if not self._change.wait_for(lambda: self._users == 0, IDLE_S):
            raise Unavailable("the store cannot be opened again while queries run", 5)
        if not self._broken:  # another thread reopened it meanwhile
            return
        self._tried = time.monotonic()
        try:
            self.check_file()
            self._connection.close()
            self._connection = self._open()
        except duckdb.Error as error:
            raise Unavailable(f"the store cannot be opened again: {first_line(error)}", 5) from None
        self._file = _file(self._path)
        self._broken = False
        log.info("the store is open again", store=str(self._path))


@contextmanager
def all_or_nothing(cursor: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """A transaction of a cursor, rolled back if the block raises."""
    try:
        cursor.begin()
    except duckdb.TransactionException:  # an earlier one is still open: rolling back takes memory, and there was none
        cursor.rollback()
        cursor.begin()
    try:
        yield
        cursor.commit()
    except BaseException:
        with suppress(duckdb.Error):  # DuckDB may have rolled back already
            cursor.rollback()
        raise


def used(sql: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """The `params` that a statement uses: DuckDB refuses others."""
    names = set(re.findall(r"\$(\w+)", sql))
    return {name: value for name, value in params.items() if name in names}


def _out_of_memory(error: duckdb.Error) -> bool:
    """Whether the engine's memory is used up. A commit that fails for this has another class: "failed to pin block of
    size 256.0 KiB (192.1 MiB/190.7 MiB used)".
    """
    return isinstance(error, duckdb.OutOfMemoryException) or USED_UP.search(first_line(error)) is not None


def _lost(error: duckdb.Error) -> bool:
    """Whether the engine refuses this database until it is opened again, for which it has no class of its own."""
    return isinstance(error, duckdb.FatalException) or "has been invalidated" in first_line(error)


def first_line(error: Exception) -> str:
    """The first line of DuckDB's error message; data may follow in the others."""
    return str(error).splitlines()[0][:300] if str(error) else type(error).__name__


def _file(path: Path | None) -> tuple[int, int] | None:
    try:
        found = os.stat(path) if path else None
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if found else None
