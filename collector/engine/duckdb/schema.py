"""The tables of a database, and their version."""

from __future__ import annotations

from pathlib import Path

import duckdb

from collector.columns import ALERTS_DDL, EVENTS_DDL, INGEST_DDL, KEPT_DDL, PEOPLE_DDL
from collector.engine.duckdb.open import DATABASE, attach_as, unopened
from collector.errors import StoreError, StoreInUse

SCHEMA_VERSION = 2
POSITION = "journal"  # in `meta`: the position of the last batch that is stored

_META = "create table meta (name varchar not null, value varchar not null)"


def make_tables(cursor: duckdb.DuckDBPyConnection, path: Path | None) -> None:
    """Creates all tables of a new database, in the caller's transaction. Raises StoreError as `has_tables` does."""
    if has_tables(cursor, path):
        return
    for tables in (_META, EVENTS_DDL, INGEST_DDL, ALERTS_DDL, PEOPLE_DDL, KEPT_DDL):
        cursor.execute(tables)
    cursor.execute("insert into meta values (?, '0'), ('schema_version', ?)", [POSITION, str(SCHEMA_VERSION)])


def has_tables(cursor: duckdb.DuckDBPyConnection, path: Path | None) -> bool:
    """Whether a database has the tables of this version; False if it has none.

    Raises StoreError if they are another program's, or of another version.
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
    if found and found[0] != str(SCHEMA_VERSION):
        raise StoreError(
            f"{path} has the tables of another version of Misstep (schema {found[0]}, this one reads {SCHEMA_VERSION} "
            "only): move it away or give another --store to start with a new file, or use the version that wrote it, "
            "whose misstep export writes its events for other programs"
        )
    return found is not None


def unfit(path: Path) -> str:
    """Why a collector would not open this file, and what to do; empty if it would, or if one has it open."""
    try:
        with duckdb.connect(":memory:") as engine:
            attach_as(DATABASE, engine, path, read_only=True)
            engine.execute(f"use {DATABASE}")
            has_tables(engine, path)
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
