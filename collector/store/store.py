"""The store: everything that touches the database engine, and nothing else does.

One DuckDB file, opened by this process alone: DuckDB lets one process write and locks all others out. Writes come from
one thread; each read has its own cursor and sees the last commit. A commit is durable when `write` returns: DuckDB has
written and synchronised its log.
"""

from __future__ import annotations

import io
import os
import shutil
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from itertools import count
from pathlib import Path
from typing import IO, Any, Protocol
from urllib.parse import urlsplit

import duckdb
import msgspec
from nanoarrow.ipc import StreamWriter

from collector.errors import Unavailable
from collector.store.batch import (
    ALERTS_DDL,
    COLUMNS,
    EVENTS_DDL,
    GROUPS_DDL,
    INGEST_DDL,
    KEPT_DDL,
    TABLES,
    ArrowRows,
    Report,
)
from collector.store.connection import Connection, first_line
from collector.store.correlate import Changes
from collector.store.kept import compute, forget
from collector.store.senders import Sender
from collector.store.twins import Span

SCHEMA_VERSION = 5
DAY_NS = 86_400_000_000_000
MAX_NS = 2**63 - 1

# 256 MB of log before a checkpoint: at DuckDB's 16 MB a checkpoint holds up acknowledgements for up to a second.
SETTINGS = {"memory_limit": "200MB", "checkpoint_threshold": "256MB", "preserve_insertion_order": "false"}

# Whole events, of those with a report near in time the nearest: a row of equal errors must not make each commit slow.
TWINS_NEAR = """
  with asked as (
    select unnest($identities::ubigint[]) as identity, unnest($low::bigint[]) as low, unnest($high::bigint[]) as high
  ),
  near as (
    select t.event_id from twins t join asked using (identity) where t.time_ns between low and high
    qualify row_number() over (partition by identity order by abs(2 * t.time_ns - low - high), t.unit) <= 256
    union select event_id from twins where unit in (select unnest($units::ubigint[]))
  )
  select distinct unit, event_id from twins semi join near using (event_id)
"""

NOTE_SENDERS = """
  insert into seen
  select unnest($sources::varchar[]), unnest($services::varchar[]), $now, $now, unnest($metrics::varchar[])
  on conflict (source, service) do update set last_ns = excluded.last_ns, metrics = excluded.metrics
"""

NOTE_SAMPLED = """
  insert into sampled
  select unnest($sources::varchar[]), unnest($services::varchar[]), $now, $now, unnest($kept::double[]),
    unnest($signs::varchar[])
  on conflict (source, service) do update
    set last_ns = excluded.last_ns, kept = excluded.kept, signs = excluded.signs
"""

OWED = "rewrite_file"  # in `meta` while the file holds what was cut from its rows

KEEP_UP_S = 600  # far more than it ever takes
MOST_SESSIONS = 2_000  # in one transaction of `keep_up`: about half a second
REBUILD_SESSIONS = 2_500  # more of them need more memory than `memory_limit`

NOTE_PRUNED = """
  insert into changed select service, session, min(time_ns) from events where received_ns < ? group by all
"""

_META = "create table if not exists meta (name varchar not null, value varchar not null)"


class StoreError(Exception):
    """The store cannot be opened; the message says why and what to do."""


class StoreInUse(StoreError):
    """Another process has the file open."""


class QueryTimeout(Unavailable):
    """A query took longer than it may."""


class QueryTooLarge(QueryTimeout):
    """A query needs more memory than it may."""


class CalledOff(Exception):
    """A query was interrupted because nobody waits for it any more."""


class Running(Protocol):
    """What can be interrupted from another thread."""

    def interrupt(self) -> None: ...


class CallOff:
    """Interrupts the work of whoever set it in `CALL_OFF`: what runs, and what would still begin."""

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
        """Raises CalledOff where it was called before, or is while the block runs."""
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


class Store:
    """One database file. `rows`, `arrow`, `execute` may be called from any thread, `write`, `prune` from one only."""

    def __init__(self, connection: Connection, path: Path | None) -> None:
        self._connection = connection
        self.path = path
        self._executing = threading.Lock()
        self._versions = count()
        self._keeping = threading.Lock()
        self.version = f"{uuid.uuid4()}.{next(self._versions)}"

    def _changed(self) -> None:
        """After every write: the same version twice means that nothing was written in between."""
        self.version = f"{self.version.partition('.')[0]}.{next(self._versions)}"

    @classmethod
    def open(cls, url: str, settings: Mapping[str, str] = SETTINGS, dimensions: Sequence[str] = ()) -> Store:
        """Opens or creates the database of `duckdb:///relative`, `duckdb:////absolute` or `duckdb://:memory:`.

        Raises StoreError where the file is locked, damaged, not ours or of a later version.
        """
        path = path_of(url)
        if path is not None:
            make_folder(path)
            # DuckDB leaves its temporary files behind after a crash, and they hold rows.
            shutil.rmtree(f"{path}.tmp", ignore_errors=True)
            for left in (f"{path}.fresh", f"{path}.fresh.wal"):
                Path(left).unlink(missing_ok=True)
        try:
            connection = Connection(
                lambda: duckdb.connect(str(path) if path else ":memory:", config=dict(settings)), path
            )
        except duckdb.Error as error:
            raise _unopened(path, error) from None
        store = cls(connection, path)
        try:
            store._migrate()
            store._add_columns(dimensions)
        except BaseException:
            connection.close()
            raise
        return store

    def close(self) -> None:
        """Writes the log into the file and closes it."""
        self._connection.close()

    def _migrate(self) -> None:
        with self._transaction() as cursor:
            cursor.execute(_META)
            found = cursor.execute("select value from meta where name = 'schema_version'").fetchone()
            version = int(found[0]) if found else 0
            if version > SCHEMA_VERSION:
                raise StoreError(
                    f"{self.path} was written by a later Misstep (schema {version}, this one knows {SCHEMA_VERSION}): "
                    "use that version or another file"
                )
            for step in MIGRATIONS[version:]:
                step(cursor)
            cursor.execute("delete from meta where name = 'schema_version'")
            cursor.execute("insert into meta values ('schema_version', ?)", [str(SCHEMA_VERSION)])

    def _add_columns(self, dimensions: Sequence[str]) -> None:
        """Gives `events` the columns that it lacks, filled from the attributes of what is stored already."""
        known = {row["column_name"] for row in self.rows("describe events")}
        for name in dimensions:
            if name not in known:
                path = f"""'$."{name}"'"""
                with self._transaction() as cursor:
                    cursor.execute(f'alter table events add column "{name}" varchar')
                    cursor.execute(
                        f'alter table events alter column "{name}" set data type varchar using attributes ->> {path}'
                    )

    @contextmanager
    def _transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        with self._connection.use() as cursor:
            try:
                cursor.begin()
                try:
                    yield cursor
                    self._connection.check_file()
                except BaseException:
                    with suppress(duckdb.Error):  # the engine may have given up the transaction itself
                        cursor.rollback()
                    raise
                cursor.commit()
                self._changed()
            except (duckdb.IOException, duckdb.TransactionException) as error:  # the disk, not the rows
                raise Unavailable(first_line(error), 5) from None

    def rows(self, sql: str, params: Mapping[str, Any] | None = None, *, timeout_s: float = 30) -> list[dict[str, Any]]:
        """The result as one dict per row. Parameters are `$name`. Raises QueryTimeout."""
        with self._cursor(timeout_s) as cursor:
            cursor.execute(sql, dict(params or {}))
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def arrow(self, sql: str, params: Mapping[str, Any] | None = None, *, timeout_s: float = 30) -> bytes:
        """The result as an Arrow IPC stream. Parameters are `$name`. Raises QueryTimeout."""
        out = io.BytesIO()
        self.stream(sql, params, out, timeout_s=timeout_s)
        return out.getvalue()

    def stream(self, sql: str, params: Mapping[str, Any] | None, out: IO[bytes], *, timeout_s: float = 30) -> None:
        """Writes the result to `out` as an Arrow IPC stream, batch by batch. Raises QueryTimeout."""
        with self._cursor(timeout_s) as cursor, StreamWriter.from_writable(out) as writer:
            # A relation hands its stream over as a capsule; a cursor would need pyarrow for it.
            writer.write_stream(cursor.query(sql, params=dict(params or {})))

    def execute(self, sql: str, params: Mapping[str, Any] | None = None) -> None:
        """One small write outside the ingest path, in a transaction of its own."""
        with self._executing, self._cursor(30) as cursor:
            cursor.execute(sql, dict(params or {}))
        self._changed()

    def keep(self, name: str, sql: str, params: Mapping[str, Any] | None = None) -> str:
        """Keeps an answer in memory, outside of the file; the name under which statements find it."""
        self.execute("attach if not exists ':memory:' as kept")
        self.execute(f"create or replace table kept.{name} as {sql}", params)
        return f"kept.{name}"

    def drop_kept(self) -> None:
        """Forgets what was kept."""
        for row in self.rows("select table_name from duckdb_tables() where database_name = 'kept'"):
            self.execute(f"drop table kept.{row['table_name']}")

    @contextmanager
    def temporary(
        self, tables: Mapping[str, tuple[Sequence[Report], dict[str, str]]]
    ) -> Iterator[Callable[[str, Mapping[str, Any]], object]]:
        """Runs statements that also see these small tables (rows, types), each in a transaction of its own."""
        with self._connection.use() as connection, closing(connection.cursor()) as cursor:
            for name, (rows, types) in tables.items():
                cursor.register("incoming", ArrowRows(rows, types))
                cursor.execute(f"create temporary table {name} as select * from incoming")
            yield lambda sql, params: cursor.execute(sql, dict(params))

    @contextmanager
    def _cursor(self, timeout_s: float) -> Iterator[duckdb.DuckDBPyConnection]:
        with self._connection.use() as connection:
            cursor = connection.cursor()
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
                raise QueryTooLarge("the query needs more memory than it may have") from None
            finally:
                timer.cancel()
                cursor.close()

    def known_requests(self, identities: Sequence[bytes]) -> set[bytes]:
        """Those of these request identities that were stored."""
        found = self.rows(
            "select identity from requests where identity in (select unnest($ids::uuid[]))",
            {"ids": [str(uuid.UUID(bytes=identity)) for identity in identities]},
        )
        return {row["identity"].bytes for row in found}

    def known_keys(self, keys: Sequence[int]) -> dict[int, int]:
        """The event of each of these keys that has one; merged events answer with the one that is left."""
        found = self.rows(
            "select k.key, coalesce(r.event_id, k.event_id) as event_id from keys k left join redirects r"
            " on r.old_id = k.event_id where k.key in (select unnest($keys::ubigint[]))",
            {"keys": list(keys)},
        )
        return {row["key"]: row["event_id"] for row in found}

    def known_sessions(self, traces: Sequence[str]) -> dict[str, str]:
        """The session of each of these traces that has one."""
        found = self.rows(
            "select trace_id, min(session) as session from trace_session"
            " where trace_id in (select unnest($t::varchar[])) group by trace_id",
            {"t": list(traces)},
        )
        return {row["trace_id"]: row["session"] for row in found}

    def known_senders(self, table: str) -> dict[Sender, int]:
        """Who sent metrics (`seen`) or was `sampled`, and when each was last noted."""
        return {(row["source"], row["service"]): row["last_ns"] for row in self.rows(f"from {table}")}

    def sessionless(self, traces: Sequence[str]) -> set[int]:
        """Events and waiting reports of these traces whose session was a guess."""
        found = self.rows(
            "select event_id from events where trace_id in (select unnest($t::varchar[]))"
            " and session_source in ('trace', 'trace_id', 'instance') union"
            " select event_id from reports where report->>'trace_id' in (select unnest($t::varchar[]))"
            " and report->>'session_source' in ('trace', 'trace_id', 'instance')",
            {"t": list(traces)},
        )
        return {row["event_id"] for row in found}

    def awaiting(self, keys: Sequence[int]) -> set[int]:
        """Events that refer to a call by one of these keys."""
        found = self.rows(
            "select coalesce(r.event_id, w.event_id) as event_id from waiting w left join redirects r"
            " on r.old_id = w.event_id where w.key in (select unnest($keys::ubigint[]))",
            {"keys": list(keys)},
        )
        return {row["event_id"] for row in found}

    def twins_near(self, spans: Mapping[int, Span], units: Sequence[int]) -> dict[int, int]:
        """Units that may be twins of reports with these identities and times, or are one with `units`: the event of
        each.
        """
        low, high = ([span[side] for span in spans.values()] for side in (0, 1))
        asked = {"identities": list(spans), "low": low, "high": high, "units": list(units)}
        return {row["unit"]: row["event_id"] for row in self.rows(TWINS_NEAR, asked)}

    def reports_of(self, event_ids: Sequence[int]) -> dict[int, list[Report]]:
        """The reports that each of these events is the fold of."""
        ids = {"ids": list(event_ids)}
        found: dict[int, list[Report]] = {}
        for row in self.rows("select * from reports where event_id in (select unnest($ids::ubigint[]))", ids):
            found.setdefault(row["event_id"], []).append(msgspec.json.decode(row["report"]))
        for row in self.rows("select * from events where event_id in (select unnest($ids::ubigint[]))", ids):
            if row["event_id"] not in found:
                found[row["event_id"]] = [_report_of(row)]
        return found

    def write(self, changes: Changes) -> None:
        """Writes everything or nothing; durable when it returns."""
        now = changes.received_ns
        changed = [(event.get("service"), event.get("session"), event["time_ns"]) for event in changes.events]
        with self._transaction() as cursor:
            if changes.identities:
                cursor.execute(
                    "insert into requests select unnest($ids::uuid[]), $now",
                    {"ids": [str(uuid.UUID(bytes=identity)) for identity in changes.identities], "now": now},
                )
            if changes.replaced:
                gone = {"ids": changes.replaced}
                changed += cursor.execute(
                    "delete from events where event_id in (select unnest($ids::ubigint[]))"
                    " returning service, session, time_ns",
                    gone,
                ).fetchall()
                cursor.execute("delete from reports where event_id in (select unnest($ids::ubigint[]))", gone)
                cursor.execute("delete from twins where unit in (select unnest($ids::ubigint[]))", gone)
            _insert(cursor, "events", changes.events)
            _insert(cursor, "changed", _earliest(changed))
            _insert(cursor, "reports", _report_rows(changes))
            _insert(cursor, "keys", _pairs(changes.keys, "key", "event_id", now))
            _insert(cursor, "trace_session", _pairs(changes.sessions, "trace_id", "session", now))
            _insert(cursor, "redirects", _pairs(changes.redirects, "old_id", "event_id", now))
            _insert(cursor, "waiting", [{"key": k, "event_id": e, "received_ns": now} for k, e in changes.waiting])
            _insert(cursor, "twins", changes.twins)
            _insert(cursor, "accounting", _pairs(changes.accounting, "reason", "records", now))
            if changes.senders:
                metrics = {"metrics": list(changes.senders.values())}
                cursor.execute(NOTE_SENDERS, {**_senders(changes.senders), **metrics, "now": now})
            if changes.sampled:
                kept, signs = zip(*changes.sampled.values(), strict=True)
                told = {"kept": list(kept), "signs": list(signs)}
                cursor.execute(NOTE_SAMPLED, {**_senders(changes.sampled), **told, "now": now})
            if changes.redirects:
                cursor.execute(
                    "update redirects set event_id = n.event_id from redirects n where redirects.event_id = n.old_id"
                )

    def checkpointed(self) -> bool:
        """Whether the log has become shorter since this was last asked."""
        return self._connection.log_shrank()

    def count(self, table: str) -> int:
        """How many rows a table has."""
        return int(self.rows(f"select count(*) as n from {table}")[0]["n"])

    def slice_end(self, table: str, after_ns: int, rows: int) -> int | None:
        """Up to when the next `rows` rows were received after `after_ns`; None where there are none."""
        found = self.rows(
            f"select max(received_ns) as n from"
            f" (select received_ns from {table} where received_ns > $after order by received_ns limit $rows)",
            {"after": after_ns, "rows": rows},
        )
        end: int | None = found[0]["n"]
        return end

    def slice_rows(self, table: str, after_ns: int, until_ns: int) -> list[Report]:
        """The rows received after one time, up to the other."""
        between = {"after": after_ns, "until": until_ns}
        return self.rows(f"select * from {table} where received_ns > $after and received_ns <= $until", between)

    def rewrite(self, table: str, ids: Sequence[int], rows: Sequence[Report], after_ns: int, until_ns: int) -> None:
        """Puts `rows` in the place of those that these events have between the two times; durable when it returns.

        What they held is still in the file until `rewrite_file`, which is owed from now on.
        """
        with self._transaction() as cursor:
            _owe(cursor)
            cursor.execute(
                f"delete from {table} where event_id in (select unnest($ids::ubigint[]))"
                " and received_ns > $after and received_ns <= $until",
                {"ids": list(ids), "after": after_ns, "until": until_ns},
            )
            _insert(cursor, table, rows)
            if table == "events":
                told = ((row.get("service"), row.get("session"), row["time_ns"]) for row in rows)
                _insert(cursor, "changed", _earliest(told))

    def text_columns(self) -> list[tuple[str, str]]:
        """Tables other than `events` and `reports` with their columns of text."""
        found = self.rows(
            "select table_name, column_name from duckdb_columns()"
            " where not internal and data_type in ('VARCHAR', 'JSON')"
            " and schema_name = 'main' and database_name = current_database()"
            " and table_name in (select table_name from duckdb_tables())"
            " and table_name not in ('events', 'reports', 'meta') order by all"
        )
        return [(row["table_name"], row["column_name"]) for row in found]

    def distinct(self, table: str, column: str) -> list[str]:
        """The texts in a column."""
        found = self.rows(f"select distinct {column}::varchar as text from {table} where {column} is not null")
        return [row["text"] for row in found]

    def replace_text(self, table: str, column: str, old: str, new: str) -> None:
        """Writes `new` for `old`; where a row of that name is there already, the old one goes."""
        with self._transaction() as cursor:
            _owe(cursor)
            cursor.execute(
                f"create or replace temp table moved as from {table} where {column}::varchar = $old", {"old": old}
            )
            cursor.execute(f"delete from {table} where {column}::varchar = $old", {"old": old})
        with self._transaction() as cursor:  # a key is free for an insertion only after the commit of its deletion
            keyed = cursor.execute(
                "select 1 from duckdb_constraints() where table_name = $table and constraint_type in"
                " ('PRIMARY KEY', 'UNIQUE')",
                {"table": table},
            ).fetchone()
            verb = "insert or ignore" if keyed else "insert"
            cursor.execute(
                f"{verb} into {table} by name from (select * replace ($new as {column}) from moved)", {"new": new}
            )
            cursor.execute("drop table moved")

    def rewrite_file(self) -> None:
        """Where rows were rewritten, copies the database into a new file and takes that: nothing of the old is left.

        Reading goes on meanwhile. To be called from the thread that writes.
        """
        if self.path is None or not self.rows("select 1 from meta where name = $name", {"name": OWED}):
            return
        fresh = Path(f"{self.path}.fresh")
        for _ in self.rebuild():  # what is kept beside the events repeats their texts
            pass
        with self._executing, self._keeping:
            for left in (fresh, Path(f"{fresh}.wal")):
                left.unlink(missing_ok=True)
            with self._connection.use() as connection:
                connection.execute("delete from meta where name = ?", [OWED])
                try:
                    _copy(connection, fresh)
                except BaseException:
                    _owe(connection)
                    raise
            self._connection.swap(fresh)

    def keep_up(self, most: int = MOST_SESSIONS) -> int:
        """Brings streaks, retry chains and the like up to date for up to `most` sessions that changed; how many it
        did. From any thread.
        """
        with self._keeping, self._cursor(KEEP_UP_S) as cursor:
            done = compute(cursor, most)
        if done:
            self._changed()
        return done

    def rebuild(self) -> Iterator[int]:
        """Computes all that is kept beside the events from nothing; yields how many sessions are left to do."""
        with self._keeping, self._transaction() as cursor:
            forget(cursor)
        yield (left := self.behind())
        while left:
            self.keep_up(REBUILD_SESSIONS)
            yield (left := self.behind())

    def behind(self) -> int:
        """How many sessions changed since `keep_up` last did them."""
        counted = self.rows("select count(*) as n from (select distinct service, session from changed)")
        return int(counted[0]["n"])

    def is_empty(self) -> bool:
        """Whether no request was ever stored."""
        return not self.rows("select 1 from requests limit 1") and not self.rows("select 1 from events limit 1")

    def accounting(self) -> dict[str, int]:
        """How many records were stored, duplicate, or dropped by reason, ever."""
        return {
            row["reason"]: int(row["records"])
            for row in self.rows("select reason, sum(records) as records from accounting group by reason")
        }

    def prune(self, now_ns: int, retention_ns: int) -> int:
        """Removes what is older than the retention, and identities older than a day. Returns how many events went."""
        day = now_ns - DAY_NS
        with self._transaction() as cursor:
            cursor.execute(NOTE_PRUNED, [now_ns - retention_ns])
            gone = cursor.execute("delete from events where received_ns < ?", [now_ns - retention_ns]).fetchone()
            for table in ("requests", "keys", "reports", "waiting", "twins", "trace_session"):
                cursor.execute(f"delete from {table} where received_ns < ?", [day])
            cursor.execute("delete from redirects where received_ns < ?", [now_ns - retention_ns])
            for table in ("seen", "sampled"):
                cursor.execute(f"delete from {table} where last_ns < ?", [now_ns - retention_ns])
            sums = cursor.execute("select reason, sum(records)::bigint from accounting group by reason").fetchall()
            cursor.execute("delete from accounting")
            if sums:
                cursor.executemany("insert into accounting values (?, ?, ?)", [(*row, now_ns) for row in sums])
        return int(gone[0]) if gone else 0


def _owe(cursor: duckdb.DuckDBPyConnection) -> None:
    cursor.execute("insert into meta select $name, '' where $name not in (select name from meta)", {"name": OWED})


def _copy(connection: duckdb.DuckDBPyConnection, into: Path) -> None:
    """The whole database into a new file, rows in their order."""
    name = connection.execute("select current_database()").fetchall()[0][0]
    connection.execute("set preserve_insertion_order = true")
    try:
        connection.execute(f"attach '{str(into).replace(chr(39), chr(39) * 2)}' as fresh")
        try:
            connection.execute(f'copy from database "{name}" to fresh')
        finally:
            connection.execute("detach fresh")
    finally:
        connection.execute("set preserve_insertion_order = false")


def path_of(url: str) -> Path | None:
    """The file that a store URL names; None for a database in memory. Raises StoreError for any other URL."""
    parts = urlsplit(url)
    if parts.scheme != "duckdb":
        raise StoreError(f"store: {parts.scheme or 'no scheme'} is not known; write duckdb:///data/misstep.duckdb")
    if parts.netloc == ":memory:":
        return None
    name = parts.path.removeprefix("/")  # as in SQLAlchemy: three slashes are a relative path, four an absolute one
    if not name:
        raise StoreError("store: the URL names no file; write duckdb:///data/misstep.duckdb")
    return Path(name)


def make_folder(path: Path) -> None:
    """Makes the folder of a file and tries to write there. Raises StoreError naming it and the remedy."""
    folder = path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=folder, prefix=".misstep-")
        os.close(descriptor)
        os.unlink(name)
    except OSError as error:
        raise StoreError(
            f"{folder} cannot be written to ({error.strerror}): make it a folder that this user may write to and that "
            "has room, or give another --store"
        ) from None
    if path.is_dir():
        raise StoreError(f"{path} is a folder: name a file in it with --store")


def _unopened(path: Path | None, error: duckdb.Error) -> StoreError:
    text = str(error)
    if "Could not set lock" in text:
        return StoreInUse(f"{path} is in use by another process: stop that collector, or give this one another --store")
    if "not a valid DuckDB database" in text:
        return StoreError(f"{path} is not a DuckDB file: move it away, or give another --store")
    if any(sign in text for sign in ("Permission denied", "Read-only")):
        return StoreError(f"{path} cannot be written to: let this user write to it, or give another --store")
    if any(sign in text for sign in ("No space left", "File too large")):
        return StoreError(f"{path} cannot be opened, its disk is full: make room, or give another --store")
    return StoreError(
        f"{path} cannot be opened, it seems to be damaged: move it and its .wal away, or put a backup in its place "
        f"({text.splitlines()[0][:300]})"
    )


def _first(cursor: duckdb.DuckDBPyConnection) -> None:
    cursor.execute(EVENTS_DDL)
    cursor.execute(INGEST_DDL)
    cursor.execute(ALERTS_DDL)


def _tables(cursor: duckdb.DuckDBPyConnection) -> None:
    cursor.execute(INGEST_DDL)


def _marks(cursor: duckdb.DuckDBPyConnection) -> None:
    cursor.execute(GROUPS_DDL)


def _kept(cursor: duckdb.DuckDBPyConnection) -> None:
    cursor.execute(KEPT_DDL)
    forget(cursor)


# Step n brings a database from version n to n + 1.
MIGRATIONS: tuple[Callable[[duckdb.DuckDBPyConnection], None], ...] = (_first, _tables, _tables, _marks, _kept)


def _insert(cursor: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Report]) -> None:
    if rows:
        incoming = ArrowRows(rows, TABLES[table])
        names = ", ".join(f'"{name}"' for name in incoming.names)
        cursor.execute(f"insert into {table} ({names}) select {names} from incoming")


def _pairs(values: Mapping[Any, Any], key: str, value: str, now: int) -> list[Report]:
    return [{key: one, value: other, "received_ns": now} for one, other in values.items()]


def _earliest(changed: Iterable[tuple[str | None, str | None, int]]) -> list[Report]:
    """The earliest time of each session, as rows of `changed`."""
    earliest: dict[tuple[str | None, str | None], int] = {}
    for service, session, time_ns in changed:
        key = (service, session)
        if time_ns < earliest.get(key, MAX_NS):
            earliest[key] = time_ns
    return [{"service": key[0], "session": key[1], "time_ns": time_ns} for key, time_ns in earliest.items()]


def _senders(told: Iterable[Sender]) -> dict[str, list[str]]:
    sources, services = zip(*told, strict=True)
    return {"sources": list(sources), "services": list(services)}


def _report_rows(changes: Changes) -> list[Report]:
    return [
        {
            "event_id": event_id,
            "received_ns": report["received_ns"],
            "report": msgspec.json.encode(report).decode(),
        }
        for event_id, report in changes.reports
    ]


def _report_of(row: Report) -> Report:
    """The one report of an event that has no rows in `reports`."""
    report = {name: row[name] for name in COLUMNS if row.get(name) is not None and name != "event_id"}
    report["_rank"] = row["report_rank"] or 0
    report["_strength"] = row["outcome_strength"] or 0
    return report
