"""Opening: which file a store URL names, whether it can be written to, and why it cannot be opened."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from collector.errors import StoreError, StoreInUse
from collector.loop import WRITING, native_threads, step_back

if TYPE_CHECKING:
    import duckdb

    from collector.engine.duckdb.connection import Connection

DATABASE = "misstep"  # the name by which statements can refer to the store's file, whatever that is called
# Each checkpoint compresses the rows of the last, incomplete row group again. A quarter of DuckDB's own 122,880 saves
# half of that work, and lets retention give space back in smaller pieces (docs/decisions/0018).
ROW_GROUP = 30_720

# A checkpoint holds up the writer, the longer the more log there is, and until then DuckDB has the log's rows in memory
# as well. Its own 16 MB makes too many of them (docs/decisions/0018).
# An ASOF join of what looks like few rows is planned as two nested loops, and the estimate behind windows is wrong
# by thousands: a backtest of streaks over a day of 10 million events took minutes instead of 2 s.
SETTINGS = {
    "memory_limit": "200MB",
    "checkpoint_threshold": "32MB",
    "preserve_insertion_order": "false",
    "asof_loop_join_threshold": "0",
}


def connect(url: str, settings: Mapping[str, str]) -> tuple[Connection, Path | None]:
    """Opens or creates the database that a URL names; the connection and its file, None for one in memory.

    Raises StoreError where the file is locked, damaged or not ours.
    """
    import duckdb  # late: workers are forked from a process that has not loaded DuckDB

    from collector.engine.duckdb.connection import Connection

    path = path_of(url)
    left: list[Path] = []
    if path is not None:
        make_folder(path)
        left += Path(f"{path}.tmp").glob("*")  # of a process that crashed, with rows in them
        left += (Path(f"{path.resolve()}{end}") for end in (".fresh", ".fresh.wal"))
        left += (Path(f"{path}{end}") for end in (".backup", ".backup.wal"))
        settings = {"temp_directory": f"{path}.tmp", **settings}

    def opened() -> duckdb.DuckDBPyConnection:
        others = native_threads()
        engine = duckdb.connect(":memory:", config=dict(settings))
        for thread in native_threads() - others:  # the engine's own work for all, mostly for the writer and the keeper
            step_back(WRITING, thread)
        try:
            # Else the machine's; not known before its extension is loaded.
            engine.execute("set global TimeZone = 'UTC'")
            attach(engine, path or ":memory:")
        except BaseException:
            engine.close()
            raise
        return engine

    try:
        connection = Connection(opened, path)
    except duckdb.Error as error:
        raise unopened(path, error) from None
    for one in left:  # not before the file is ours: a running collector may be using these
        one.unlink(missing_ok=True)
    if path is not None:
        _narrow(path)
    return connection, path


def _narrow(path: Path) -> None:
    """Takes others' rights away from a store, and from what is named after it: its log, journal, key and copies."""
    for one in path.parent.glob("*"):
        if one.name == path.name or one.name.startswith(f"{path.name}."):
            with suppress(OSError):  # of another user, who decides
                one.chmod(one.stat().st_mode & ~0o077)


def attach(engine: duckdb.DuckDBPyConnection, path: Path | str) -> None:
    """Opens or creates the store's file, for statements to refer to."""
    attach_as(DATABASE, engine, path)
    engine.execute(f"use {DATABASE}")


def attach_as(name: str, cursor: duckdb.DuckDBPyConnection, path: Path | str, *, read_only: bool = False) -> None:
    """Opens or creates a database file as `name`; new row groups have ROW_GROUP rows, which no file can say itself."""
    quoted = str(path).replace("'", "''")
    how = "read_only" if read_only else f"row_group_size {ROW_GROUP}"
    cursor.execute(f"attach '{quoted}' as \"{name}\" (type duckdb, {how})")


def detach(engine: duckdb.DuckDBPyConnection) -> None:
    """Closes the store's file; tables in memory stay."""
    engine.execute("use memory")
    engine.execute(f"detach {DATABASE}")


def path_of(url: str) -> Path | None:
    """The file that a store URL names; None for a database in memory. Raises StoreError for any other URL."""
    scheme, there, place = url.partition("://")
    if not there or scheme != "duckdb":
        raise StoreError(
            f"store: {scheme if there else 'a URL without a scheme'} is not known, events are kept in a DuckDB file "
            "alone; set MISSTEP_STORE (or --store) to duckdb:///data/misstep.duckdb"
        )
    if place in (":memory:", "/:memory:"):
        return None
    host, _, name = place.partition("/")  # as in SQLAlchemy: three slashes are a relative path, four an absolute one
    if host:
        raise StoreError(
            f"store: {url} has {host!r} where other databases have a host; set MISSTEP_STORE (or --store) to "
            f"duckdb:///{place} for a relative path, duckdb:////{place} for an absolute one"
        )
    if not name:
        raise StoreError(
            "store: the URL names no file; set MISSTEP_STORE (or --store) to duckdb:///data/misstep.duckdb"
        )
    return Path(os.path.expanduser(name))  # here, since DuckDB would do so by itself


def existing(url: str) -> Path:
    """The file of a store that is there. Raises OSError if it is not, StoreError for a URL that names none."""
    path = path_of(url)
    if path is None or not path.exists():
        raise OSError(f"there is no store at {path or url}")
    return path


def file_id(path: Path) -> str:
    """What tells this file from any other on the machine."""
    found = path.stat()
    return f"{found.st_dev:x}-{found.st_ino:x}"


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


def unopened(path: Path | None, error: Exception) -> StoreError:
    """Why a file cannot be opened, and what to do about it."""
    text = str(error)
    if "Could not set lock" in text:
        return StoreInUse(f"{path} is in use by another process: stop that collector, or give this one another --store")
    if "not a valid DuckDB database" in text:
        return StoreError(f"{path} is not a DuckDB file: move it away, or give another --store")
    if any(sign in text for sign in ("Permission denied", "Read-only")):
        return StoreError(f"{path} cannot be written to: let this user write to it, or give another --store")
    if any(sign in text for sign in ("No space left", "File too large")):
        return StoreError(f"{path} cannot be opened, its disk is full: make room, or give another --store")
    if "WAL file" in text:
        return StoreError(
            f"{path}.wal, the log of {path}, is damaged: move the log away to start with what is in the file alone, or "
            f"put a backup in its place ({text.splitlines()[0][:300]})"
        )
    return StoreError(
        f"{path} cannot be opened, it seems to be damaged: move it and its .wal away, or put a backup in its place "
        f"({text.splitlines()[0][:300]})"
    )
