"""Reads a transcript's records: lines of JSON, one document, or rows of a database. Never writes or locks it.

A record comes with its place: the offset of its line, its number in a document, or its row. Lines may be many megabytes
long: one is in memory at a time. What cannot be read is counted, never quoted.
"""

from __future__ import annotations

import io
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from collector.decode.mending import readable
from collector.recognise.readers import at_path
from collector.transcripts.find import Found

Records = Iterator[tuple[int, int, Any]]  # place, size in bytes, record
CHUNK = 1 << 20
LONGEST_LINE = 256 << 20  # of a line that is decoded; no agent writes such
WHOLE_DOCUMENT = 512 << 20

_decode = msgspec.json.Decoder().decode


def records(found: Found, start: int, unreadable: Callable[[], None]) -> Records:
    """The records of a file from a place on. `unreadable` is called for each that is no JSON."""
    if found.store.form == "sqlite":
        return _rows(found.path, found.store.query)
    if found.store.form == "json":
        return _documents(found.path, found.store.records, unreadable)
    return _lines(found.path, start, unreadable)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    with path.open("rb") as file:
        if path.suffix == ".zst":
            import zstandard

            with zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as plain:
                yield io.BufferedReader(plain)
        else:
            yield file


def _lines(path: Path, start: int, unreadable: Callable[[], None]) -> Records:
    """Complete lines only: the last one may be half written."""
    with _opened(path) as file:
        if start and path.suffix != ".zst":
            file.seek(start)
        else:
            start = 0
        place = start
        while line := file.readline(LONGEST_LINE):
            if not line.endswith(b"\n") and not (line.rstrip(b" \r\0").endswith(b"}") and _is_whole(line)):
                return
            if text := line.strip(b" \t\r\n\0"):
                record = parsed(text)
                if isinstance(record, dict):
                    yield place, len(line), record
                else:
                    unreadable()
            place += len(line)


def _is_whole(line: bytes) -> bool:
    return isinstance(parsed(line.strip(b" \t\r\n\0")), dict)


def parsed(text: bytes) -> Any:
    """The value of a JSON text, mended where a strict decoder refuses it; None where it is none."""
    try:
        return _decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return json.loads(readable(text, lambda _: None))
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return None


def _documents(path: Path, within: tuple[str, ...], unreadable: Callable[[], None]) -> Records:
    """The items of the list at a path in the document, each with the rest of the document as `document`; the document
    itself without a path.
    """
    if path.stat().st_size > WHOLE_DOCUMENT:
        unreadable()
        return
    document = parsed(path.read_bytes())
    if not isinstance(document, (dict, list)):
        unreadable()
        return
    if not within:
        for place, item in enumerate(document if isinstance(document, list) else [document]):
            if isinstance(item, dict):
                yield place, 0, item
        return
    items = at_path(document, within)
    around = {key: value for key, value in document.items() if key != within[0]} if isinstance(document, dict) else {}
    for place, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, dict):
            yield place, 0, {**item, "document": around}


def _rows(path: Path, query: str) -> Records:
    """The rows of a query that names its columns; of texts that are JSON a table reads parts."""
    with _database(path) as database, closing(database.execute(query)) as cursor:
        names = [column[0] for column in cursor.description]
        for place, row in enumerate(cursor):
            values = (value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in row)
            record = dict(zip(names, values, strict=True))
            yield place, sum(len(value) for value in record.values() if isinstance(value, str)), record


@contextmanager
def _database(path: Path) -> Iterator[sqlite3.Connection]:
    """A database that others may have open, read only; of one that cannot be opened so, a private copy is read."""
    try:
        database = _connected(path)
    except sqlite3.Error:
        with tempfile.TemporaryDirectory(prefix="misstep-") as folder:  # for this user alone, and removed on errors
            for end in ("", "-wal", "-shm"):
                if (part := path.with_name(path.name + end)).exists():
                    shutil.copyfile(part, Path(folder) / part.name)
            with closing(_connected(Path(folder) / path.name)) as copied:
                yield copied
        return
    with closing(database):
        yield database


def _connected(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=5)
    try:
        database.execute("pragma query_only = on")
        database.execute("select name from sqlite_master limit 1").fetchall()
    except sqlite3.Error:
        database.close()
        raise
    return database
