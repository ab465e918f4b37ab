"""The tables of a database, migrated to the present version when it is opened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb

from collector.columns import ALERTS_DDL, ARCHIVE_DDL, EVENTS_DDL, GROUPS_DDL, INGEST_DDL, KEPT_DDL
from collector.correlate.fold import GUESSED
from collector.engine.duckdb.derive import HOURS, KEPT, doubt, forget, forget_hours
from collector.engine.duckdb.open import DATABASE, attach_as, unopened
from collector.errors import StoreError, StoreInUse
from collector.times import HOUR, MAX_NS

SCHEMA_VERSION = 23
POSITION = "journal"  # in `meta`: the position of the last batch that is stored

_META = "create table if not exists meta (name varchar not null, value varchar not null)"


def migrate(cursor: duckdb.DuckDBPyConnection, path: Path | None) -> None:
    """Creates or migrates all tables, in the caller's transaction. Raises StoreError if their version is newer."""
    version = version_of(cursor, path)
    cursor.execute(_META)
    for step in MIGRATIONS[version:] if version else MIGRATIONS[:1]:
        step(cursor)
    if version < SCHEMA_VERSION:  # the steps see no archived events, which tables that they emptied may lack
        doubt(cursor, [file for (file,) in cursor.execute("select file from archived").fetchall()])
    cursor.execute("insert into meta select $name, '0' where $name not in (select name from meta)", {"name": POSITION})
    cursor.execute("delete from meta where name = 'schema_version'")
    cursor.execute("insert into meta values ('schema_version', ?)", [str(SCHEMA_VERSION)])


def version_of(cursor: duckdb.DuckDBPyConnection, path: Path | None) -> int:
    """The version of a database's tables; 0 if it has none. Raises StoreError if they are another program's, or newer
    than this one.
    """
    told = cursor.execute(
        "select table_name, column_name from duckdb_columns() where not internal and database_name = $database",
        {"database": DATABASE},
    ).fetchall()
    found = None
    if ("meta", "value") in told and ("meta", "name") in told:
        found = cursor.execute("select value from meta where name = 'schema_version'").fetchone()
    if told and found is None:
        raise StoreError(f"{path} is no store of Misstep: move it away, or give another --store")
    version = int(found[0]) if found else 0
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{path} was written by a later Misstep (schema {version}, this one knows {SCHEMA_VERSION}): "
            "use that version or another file"
        )
    return version


def unfit(path: Path) -> str:
    """Why a collector would not open this file, and what to do; empty if it would, or if one has it open."""
    try:
        with duckdb.connect(":memory:") as engine:
            attach_as(DATABASE, engine, path, read_only=True)
            engine.execute(f"use {DATABASE}")
            version_of(engine, path)
    except StoreError as error:
        return str(error)
    except duckdb.Error as error:
        why = unopened(path, error)
        return "" if isinstance(why, StoreInUse) else str(why)
    return ""


def add_column(cursor: duckdb.DuckDBPyConnection, name: str) -> None:
    """Adds a column to `events`, filled from the attributes of stored events."""
    path = f"""'$."{name}"'"""
    cursor.execute(f'alter table events add column "{name}" varchar')
    cursor.execute(f'alter table events alter column "{name}" set data type varchar using attributes ->> {path}')


def _first(cursor: duckdb.DuckDBPyConnection) -> None:
    for tables in (EVENTS_DDL, INGEST_DDL, ALERTS_DDL, GROUPS_DDL, KEPT_DDL, ARCHIVE_DDL):
        cursor.execute(tables)


def _tables(cursor: duckdb.DuckDBPyConnection) -> None:
    cursor.execute(INGEST_DDL)


def _marks(cursor: duckdb.DuckDBPyConnection) -> None:
    cursor.execute(GROUPS_DDL)


def _kept(cursor: duckdb.DuckDBPyConnection) -> None:
    for table in KEPT:  # derived from the events: nothing is lost
        cursor.execute(f"drop table if exists {table}")
    cursor.execute(KEPT_DDL)
    forget(cursor)


def _accepted(cursor: duckdb.DuckDBPyConnection) -> None:
    cursor.execute(
        "insert into accounting select 'accepted', sum(records), max(received_ns) from accounting having count(*) > 0"
    )


def _archived(cursor: duckdb.DuckDBPyConnection) -> None:
    cursor.execute(ARCHIVE_DDL)


def _hours(cursor: duckdb.DuckDBPyConnection) -> None:
    for table in HOURS:
        cursor.execute(f"drop table if exists {table}")
    cursor.execute(KEPT_DDL)
    forget_hours(cursor)


def _rule_labels(cursor: duckdb.DuckDBPyConnection) -> None:
    cursor.execute("alter table alerts add column if not exists rule_labels varchar default '{}'")


def _orphans(cursor: duckdb.DuckDBPyConnection) -> None:
    cursor.execute("alter table reports add column if not exists orphan varchar")
    cursor.execute(
        "update reports set orphan = report->>'trace_id'"
        " where report->>'session_source' in (select unnest($guessed::varchar[]))",
        {"guessed": list(GUESSED)},
    )


def _guesses(cursor: duckdb.DuckDBPyConnection) -> None:
    cursor.execute("alter table events add column if not exists target_guessed boolean")
    _kept(cursor)


def _named(cursor: duckdb.DuckDBPyConnection) -> None:
    cursor.execute("alter table trace_session add column if not exists named_ns bigint")
    cursor.execute("update trace_session set named_ns = $latest where named_ns is null", {"latest": MAX_NS})


def _chained(cursor: duckdb.DuckDBPyConnection) -> None:
    cursor.execute(KEPT_DDL)
    cursor.execute("insert into stale_chains select distinct time_ns - time_ns % ? from kept_chains", [HOUR])


def _modelled(cursor: duckdb.DuckDBPyConnection) -> None:
    for column, kind in (
        ("model_from", "varchar"), ("asked_by", "ubigint"), ("asked", "varchar"), ("purpose", "varchar")
    ):  # fmt: skip
        cursor.execute(f"alter table events add column if not exists {column} {kind}")
    cursor.execute("update events set model_from = 'record' where model is not null")
    cursor.execute("alter table changed add column if not exists modelled boolean")
    forget(cursor)


# Step n brings a database from version n to n + 1. A new one needs the first alone: it makes all tables as of now.
MIGRATIONS: tuple[Callable[[duckdb.DuckDBPyConnection], None], ...] = (
    _first,
    _tables,
    _tables,
    _marks,
    _kept,
    _accepted,
    _kept,
    _archived,
    _hours,
    _hours,
    _rule_labels,
    _orphans,
    _kept,
    _kept,
    _guesses,
    _named,
    _chained,
    _tables,
    _tables,
    _kept,
    _modelled,
    _kept,
    _tables,
)
