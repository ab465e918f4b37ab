"""Copies of the database file: whole, and with the rows in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from collector.engine.duckdb.open import DATABASE, SETTINGS, attach_as, connect, unopened
from collector.engine.duckdb.schema import POSITION, has_tables
from collector.errors import StoreError, Unavailable

OWED = "rewrite_file"  # in `meta` while the file still contains what was cut from its rows
COPY = "copy"  # by which statements refer to the new file, whose own name may be any


def copy(connection: duckdb.DuckDBPyConnection, into: Path, without: str = "") -> None:
    """Copies the database into a new file, rows in order, except for one entry of `meta`. A failed copy is removed."""
    connection.execute("set preserve_insertion_order = true")
    try:
        attach_as(COPY, connection, into)
        try:
            connection.execute(f'copy from database {DATABASE} to "{COPY}"')
            connection.execute(f'delete from "{COPY}".meta where name = ?', [without])
        finally:
            connection.execute(f'detach "{COPY}"')
    except BaseException:
        discard(into)
        raise
    finally:
        connection.execute("set preserve_insertion_order = false")


def owe(cursor: duckdb.DuckDBPyConnection) -> None:
    """Notes that the file still contains what was cut from its rows, in the transaction that cuts it."""
    cursor.execute("insert into meta select $name, '' where $name not in (select name from meta)", {"name": OWED})


def discard(copy: Path) -> None:
    """Removes a copy of the database, with its log."""
    for left in (copy, Path(f"{copy}.wal")):
        left.unlink(missing_ok=True)


def copy_closed(url: str, into: Path, check: Callable[[Path | None, int], None]) -> None:
    """Copies a store that nobody has open; DuckDB's log is written into its file.

    `check` gets its file and its position in the journal, and may refuse. Raises StoreError.
    """
    with _unchanged(url) as (cursor, path):
        found = cursor.execute("select value from meta where name = ?", [POSITION]).fetchone()
        check(path, int(found[0]) if found else 0)
        copy(cursor, into)


@contextmanager
def _unchanged(url: str) -> Iterator[tuple[duckdb.DuckDBPyConnection, Path | None]]:
    """A cursor of a store as it is, and its file."""
    connection, path = connect(url, SETTINGS)
    try:
        with connection.cursor() as cursor:
            if not has_tables(cursor, path):
                raise StoreError(f"{path} is empty: name the file of a store")
            yield cursor, path
    except (duckdb.Error, Unavailable) as error:
        raise unopened(path, error) from None
    finally:
        connection.close()
