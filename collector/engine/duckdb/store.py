"""The store: one DuckDB file, opened by this process alone. Only this folder and the sandbox use DuckDB.

DuckDB lets one process write and locks all others out. Writes come from one thread; each read has its own cursor and
sees the last commit. A commit is durable when `write` returns: DuckDB has written and synchronised its log.
"""

from __future__ import annotations

import shutil
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import duckdb

from collector.columns import EVENT_COLUMNS, Row
from collector.correlate.changes import Changes
from collector.correlate.in_order import Sessions
from collector.engine.duckdb.arrow import ArrowColumns, columns_of
from collector.engine.duckdb.connection import Busy, Connection, all_or_nothing
from collector.engine.duckdb.copy import OWED, copy, discard
from collector.engine.duckdb.counted import Counted
from collector.engine.duckdb.derive import Slice, count_hours, forget, keep_up, slices
from collector.engine.duckdb.export import NotExported, ends_of_days, export
from collector.engine.duckdb.lookup import Lookup
from collector.engine.duckdb.notes import note_all, note_changes
from collector.engine.duckdb.open import DATABASE, SETTINGS, connect, unopened
from collector.engine.duckdb.read import Reader, bound
from collector.engine.duckdb.retention import FULL, ROOM, SIZE, Space, drop, oldest_hours
from collector.engine.duckdb.schema import add_column, make_tables
from collector.engine.duckdb.write import put
from collector.errors import CalledOff, Unavailable
from collector.times import DAY

CLUSTER = "cluster"  # in `meta` while what changes is noted: the name of the cluster that lacks nothing else

WRITING = "there are other write transactions active"  # why there is no checkpoint now: one of our own writes
KEEP_UP_S = 600  # far longer than it ever takes
MOST_ADDED = 3_000_000  # events, and what belongs to them: the engine has 20 MB about their row groups by then
MOST_SESSIONS = 2_000  # in one transaction of `keep_up`: about half a second
PATIENCE_S = 2.0  # wait for running queries, where it can be tried again later
MOMENT_S = 0.2  # the same, where it does not matter when
REBUILD_SESSIONS = 2_500  # more would exceed `memory_limit`


class Store(Reader):
    """One database file. Reading and `execute` are for any thread, `write` and `prune` for one only."""

    def __init__(self, connection: Connection, path: Path | None) -> None:
        super().__init__(connection)
        self.path = path
        self.dimensions: tuple[str, ...] = ()  # columns for MISSTEP_DIMENSIONS, also those no longer set
        self._executing = threading.Lock()
        self._writing = threading.Lock()  # rows of `events` are changed by one at a time: the engine refuses the second
        self._versions = count()
        self._keeping = threading.Lock()
        self.open_sessions = Sessions()  # what is open in them; changed by who has the lock of keeping
        self._copying = threading.RLock()  # the name of the new file is known to all cursors; taken before the others
        self.not_exported = ""  # why old events could not be exported and so were kept, at the last try
        self._interrupted = False
        self._added = 0  # events since the file was opened
        self.unlogged = False  # somebody removed the log, and what was in it may not be in the file
        self.publishing = False  # what changes is noted for a cluster
        self.rebuilding = False  # derived tables are being recomputed, and incomplete
        self.version = f"{uuid.uuid4()}.{next(self._versions)}"
        self.counted = Counted()  # changed by who has the lock of writing

    def _changed(self) -> None:
        """To be called after every write: while `version` stays the same, nothing was written."""
        self.version = f"{self.version.partition('.')[0]}.{next(self._versions)}"

    @classmethod
    def open(cls, url: str, settings: Mapping[str, str] = SETTINGS, dimensions: Sequence[str] = ()) -> Store:
        """Opens or creates the database of `duckdb:///relative`, `duckdb:////absolute` or `duckdb://:memory:`.

        Raises StoreError where the file is locked, damaged, not ours or of another version.
        """
        connection, path = connect(url, settings)
        store = cls(connection, path)
        try:
            with store.transaction() as cursor:
                make_tables(cursor, path)
            known = {row["column_name"] for row in store.rows("describe events")}
            for name in dimensions:
                if name not in known:
                    with store.transaction() as cursor:
                        add_column(cursor, name)
            store.publishing = bool(store.rows("select 1 from meta where name = $name", {"name": CLUSTER}))
            store.dimensions = tuple(sorted(known.union(dimensions) - EVENT_COLUMNS))
            store.count_again()
        except (duckdb.Error, Unavailable) as error:
            connection.close()
            raise unopened(path, error) from None
        except BaseException:
            connection.close()
            raise
        return store

    def interrupt(self) -> None:
        """Ends what the writing connection does now, and a rebuild; either can be done again later. From any thread."""
        self._interrupted = True
        self._connection.interrupt()

    def close(self) -> None:
        """Writes the log into the file and closes it."""
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A transaction of the writing connection, rolled back if the block raises. For the writer's thread only, as a
        connection has one transaction at a time. Raises Unavailable.
        """
        with self._writing, self._connection.use() as cursor:
            with all_or_nothing(cursor):
                yield cursor
                self._connection.check_file()
            self._changed()

    def execute(self, sql: str, params: Mapping[str, Any] | None = None) -> None:
        """One small write outside the ingest path, in a transaction of its own; to all of the store, so that who may
        write what is to be known before.
        """
        with self._executing, self._cursor(30, confined=False) as cursor:
            cursor.execute(sql, dict(params or {}))
        self._changed()

    def execute_all(self, statements: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        """Several small writes outside the ingest path, in one transaction: all of them or none."""
        with self._executing, self._cursor(30, confined=False) as cursor, all_or_nothing(cursor):
            for sql, params in statements:
                cursor.execute(sql, dict(params))
        self._changed()

    def try_to_write(self) -> None:
        """Writes a meaningless row as a trial, from any thread. Raises Unavailable if that fails."""
        with self._executing, self._connection.cursor() as cursor, all_or_nothing(cursor):
            cursor.execute("delete from meta where name = 'written'")
            cursor.execute("insert into meta values ('written', '')")
            self._connection.check_file()

    def keep(self, name: str, sql: str, params: Mapping[str, Any] | None = None) -> str:
        """Saves a result as a table in memory, outside the file; returns the table's name."""
        self.execute("attach if not exists ':memory:' as kept")
        with self._executing, self._cursor(30) as cursor, bound(cursor, sql, params) as given:
            cursor.execute(f"create or replace table kept.{name} as {sql}", given)
        return f"kept.{name}"

    def drop_kept(self) -> None:
        """Drops all tables made by `keep`."""
        for row in self.rows("select table_name from duckdb_tables() where database_name = 'kept'"):
            self.execute(f"drop table kept.{row['table_name']}")

    @contextmanager
    def temporary(
        self, tables: Mapping[str, tuple[Sequence[Row], dict[str, str]]]
    ) -> Iterator[Callable[[str, Mapping[str, Any]], object]]:
        """Runs statements that also see these small tables (rows, types), each in a transaction of its own."""
        with self._connection.cursor() as cursor:
            for name, (rows, types) in tables.items():
                cursor.register("incoming", ArrowColumns(columns_of(rows, types), types))
                cursor.execute(f"create temporary table {name} as select * from incoming")
            yield lambda sql, params: cursor.execute(sql, dict(params))

    def write(self, changes: Changes) -> None:
        """Writes all changes or none; durable when it returns, unless then `unlogged`."""
        with self.transaction() as cursor:
            put(cursor, changes)
            counts = self.counted.corrected(cursor, changes)
            if self.publishing:
                note_changes(cursor, changes)
        self.counted.take(counts)
        self._added += len(changes.events)
        self.unlogged = self.unlogged or self._connection.log_is_gone()
        if self.unlogged:  # DuckDB still has the log's rows in memory; after a checkpoint this does nothing
            self.unlogged = not self._checkpoint()

    def _checkpoint(self) -> bool:
        """Writes the log into the file; False if another transaction writes, and this is for later."""
        try:
            self.execute("checkpoint")
        except Unavailable as error:
            if WRITING not in str(error):
                raise
            return False
        return True

    def checkpointed(self) -> bool:
        """Whether there was a checkpoint since the last call."""
        return self._connection.log_shrank()

    def rewrite_file(self) -> bool:
        """If rows were rewritten, recomputes the derived tables, which repeat their texts, and replaces the file by a
        new copy, so that no old contents are left. Does nothing and returns False while a backup is made.

        Reading goes on meanwhile. For the writer's thread only.
        """
        if not self.rows("select 1 from meta where name = $name", {"name": OWED}):
            return True
        if not self._copying.acquire(timeout=MOMENT_S):
            return False
        try:
            for _ in self.rebuild():
                pass
            if self.path is None:
                self.execute("delete from meta where name = $name", {"name": OWED})
            else:
                self._copy_file(without=OWED)
        finally:
            self._copying.release()
        return True

    def give_back(self, most_bytes: int = 0) -> bool:
        """Rewrites the file if most of it is empty, or if that makes it fit into `most_bytes`; whether it did.

        For the writer's thread, which is blocked meanwhile. Reading goes on.
        """
        if self.path is None:
            return False
        space = self.space()
        if not space.is_wasted(most_bytes) or shutil.disk_usage(self.path.resolve().parent).free < space.used:
            return False
        self._copy_file()
        return True

    def reopen(self) -> bool:
        """Closes the file and opens it again if much was added since it was opened; whether it did.

        The engine keeps in memory what it knows of every row group that it wrote, but of a file that it opens only what
        it needs. For the writer's thread. There is a next time, if others are busy with it.
        """
        if self.path is None or self._added < MOST_ADDED:
            return False
        with self._executing:
            if not self._keeping.acquire(blocking=False):
                return False
            try:
                with self._connection.closed(MOMENT_S):
                    pass
            except Busy:
                return False
            finally:
                self._keeping.release()
        self._added = 0
        return True

    def _copy_file(self, without: str = "") -> None:
        assert self.path
        fresh = Path(f"{self.path.resolve()}.fresh")  # a link stays a link, and the file it names is replaced
        if not self._copying.acquire(timeout=MOMENT_S):
            raise Busy("the store cannot be written anew while a backup is made", 5)
        try:
            with self._executing, self._keeping:
                with self._connection.use() as connection:
                    copy(connection, fresh, without)
                self._connection.swap(fresh)
        finally:
            discard(fresh)
            self._copying.release()

    def copy_to(self, place: Path) -> None:
        """Copies everything committed so far into a new file, while reading and writing go on; waits while the file is
        written anew.

        From any thread. Raises Unavailable if the disk is full; then nothing is left of the copy.
        """
        place.unlink(missing_ok=True)
        with self._copying, self._connection.cursor() as cursor:
            copy(cursor, place)

    def keep_up(self, most: int = MOST_SESSIONS, part: Slice | None = None) -> int:
        """Updates streaks, retry chains and the like for up to `most` changed sessions, or for `part` while nobody
        writes; returns the number of sessions. From any thread.
        """
        with self._keeping, self._cursor(KEEP_UP_S) as cursor:
            done = keep_up(cursor, self._writing, self.open_sessions, most, part, noting=self.publishing)
        if done:
            self._changed()
        return done

    def count_settled(self, until_ns: int) -> bool:
        """Counts events received up to then, once each; whether there were any. From any thread."""
        with self._writing, self._cursor(KEEP_UP_S) as cursor:
            with all_or_nothing(cursor):
                counts = self.counted.advanced(cursor, until_ns)
            self.counted.take(counts, until_ns)
        return bool(counts)

    def count_again(self) -> None:
        """Reads again what is counted, after its texts may have changed."""
        with self._writing, self._cursor(KEEP_UP_S) as cursor:
            self.counted.read(cursor)

    def count_hours(self) -> int:
        """Recounts some of the hours in which something changed; returns how many. From any thread."""
        with self._keeping, self._cursor(KEEP_UP_S) as cursor:
            return count_hours(cursor)

    def rebuild(self) -> Iterator[int]:
        """Recomputes all derived tables from scratch; yields how many sessions are left to do."""
        self.rebuilding = True
        try:
            self._forget()
            with self._cursor(KEEP_UP_S) as cursor:
                parts = slices(cursor, REBUILD_SESSIONS)
            yield (left := sum(part.sessions for part in parts))
            for part in parts:
                if self._interrupted:
                    raise CalledOff
                left -= self.keep_up(part=part)
                yield left
            while self.count_hours():
                yield 0
        finally:
            self.rebuilding = False
            self._changed()

    def _forget(self) -> None:
        with self._keeping, self._cursor(KEEP_UP_S) as cursor, all_or_nothing(cursor):
            if self.publishing:
                note_all(cursor, "kept_streaks", "kept_chains")
            forget(cursor)
            self.open_sessions.clear()
        self._changed()

    def lookup(self) -> Lookup:
        """What correlation may look up."""
        return Lookup(self)

    def check_file(self) -> None:
        """Raises Unavailable if the file is no longer the one that was opened."""
        self._connection.check_file()

    def prune(self, now_ns: int, retention_ns: int, folder: Path | None = None) -> int:
        """Removes what is older than the retention, and identities older than a day. Returns the number of events
        removed.

        With a folder, events go in whole UTC days, each day after it was written there. Raises NotExported.
        """
        before_ns = now_ns - retention_ns
        with self.transaction() as cursor:
            gone = drop(cursor, now_ns, 0 if folder else before_ns, published=self.publishing)
        if folder is None:
            return gone
        with self._connection.use() as cursor:
            ends = list(ends_of_days(cursor, before_ns // DAY * DAY))
        for end_ns in ends:
            with self._exporting(), self.transaction() as cursor:
                export(cursor, folder, end_ns)
                gone += drop(cursor, now_ns, end_ns)
        return gone

    def fit(self, now_ns: int, most_bytes: int, folder: Path | None = None) -> int:
        """Removes the oldest whole hours where all fills nearly `most_bytes`, and gives the space back; with a folder,
        after they were written there.

        Returns how many events went. To be called from the thread that writes. Raises Unavailable while queries run on,
        and NotExported.
        """
        used = self.space().used
        if self.path is None or used <= FULL * most_bytes:
            return 0
        with self._exporting(), self._undisturbed() as connection:
            # A running query would keep removed rows in the file, and the next turn would remove more.
            before_ns = oldest_hours(connection, 1 - ROOM * most_bytes / used, now_ns)
            if folder:
                for end_ns in ends_of_days(connection, before_ns):
                    export(connection, folder, end_ns)
            gone = drop(connection, now_ns, before_ns, published=self.publishing)
        if self.space().used > FULL * most_bytes:  # a few rows left in each row group can keep a small file full
            self._copy_file()
        return gone

    @contextmanager
    def _exporting(self) -> Iterator[None]:
        """Notes why events could not be exported, for Health; forgets it once they could."""
        try:
            yield
        except NotExported as error:
            self.not_exported = str(error)
            raise
        self.not_exported = ""

    @contextmanager
    def _undisturbed(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A transaction while nobody reads, so that the space is freed at once."""
        with self._executing, self._keeping, self._connection.alone(PATIENCE_S) as connection:
            with all_or_nothing(connection):
                yield connection
            connection.execute("checkpoint")
        self._changed()

    def space(self) -> Space:
        """The size of the file, and the bytes in use."""
        [row] = self.rows(SIZE, {"database": DATABASE})
        size = self.path.stat().st_size if self.path else row["file"]  # a file has a head beside its blocks
        return Space(size, row["used"])
