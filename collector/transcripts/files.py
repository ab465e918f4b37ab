"""Reads a transcript's records: lines of JSON, one document, or rows of a database. Never writes or locks it.

A record comes with its position: the offset of its line, its number in a document, or its row. Lines may be many
megabytes long: one is in memory at a time. What cannot be read is counted, never quoted.
"""

from __future__ import annotations

import fnmatch
import io
import json
import shutil
import sqlite3
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from collector import zstd
from collector.decode.mending import readable
from collector.transcripts import exports, markdown
from collector.transcripts.find import Found

Records = Iterator[tuple[int, int, Any]]  # place, size in bytes, record
CHUNK = 1 << 20
LONGEST_LINE = 256 << 20  # of a line that is decoded; no agent writes such
WHOLE_DOCUMENT = 512 << 20
ZSTANDARD_MEMBER = 93  # how a member of a zip archive is compressed (APPNOTE.TXT 6.3.8, 4.4.5)
LOCAL_HEAD = struct.Struct("<26xHH")  # of a member, with the lengths of its name and of what follows that
ZSTANDARD = b"\x28\xb5\x2f\xfd"

LEFT_BEHIND = b" \t\r\n\0"  # around a text; a crash leaves bytes that are 0

EMPTY = object()
_decode = msgspec.json.Decoder().decode


def records(found: Found, start: int, unreadable: Callable[[], None]) -> Records:
    """The records of a file from a position on. `unreadable` is called for each that is no JSON."""
    if found.store.form == "sqlite":
        return _rows(found.path, found.store.query)
    if found.store.form in exports.READ:
        return exports.rows(found.path, found.store.form, found.store.columns)
    if found.store.form == "markdown":
        return _markdown(found.path)
    if found.store.form == "json":
        return _below(found.store.below, _documents(found.path, found.store.records, unreadable))
    if found.store.form == "mutations":
        return _within(_replayed(found.path, unreadable), found.store.records)
    if found.store.form == "folder":
        return _files(sorted(found.folder.glob("*.json"), key=_numbered), unreadable)
    if found.store.form == "zip":
        return _members(found.path, found.store.members, found.store.records, unreadable)
    return _lines(found.path, start, unreadable)


def _below(name: str, of: Records) -> Records:
    """The records under a name, where the same is a column elsewhere."""
    return ((place, size, {name: record}) for place, size, record in of) if name else of


def _markdown(path: Path) -> Records:
    with path.open("rb") as file:
        yield from markdown.lines(iter(lambda: file.readline(LONGEST_LINE), b""))


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    with path.open("rb") as file:
        if path.suffix == ".zst":
            with zstd.ZstdFile(file) as plain:
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
            size = len(line)
            record = _value(line)
            del line  # it may be large, and so may be what was read from it
            if isinstance(record, dict):
                yield place, size, record
            elif record is not EMPTY:
                unreadable()
            place += size


def _value(line: bytes) -> Any:
    """The value of a line; EMPTY for one that holds nothing, such as what a crash leaves."""
    try:
        return _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        text = line.strip(LEFT_BEHIND)
        return parsed(text) if text else EMPTY


def _is_whole(line: bytes) -> bool:
    return isinstance(parsed(line), dict)


def parsed(text: bytes) -> Any:
    """The value of a JSON text, mended where a strict decoder refuses it; None where it is none."""
    try:
        return _decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return json.loads(readable(text.strip(LEFT_BEHIND), lambda _: None))
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
    yield from _within(document, within)


def _within(document: Any, within: tuple[str, ...]) -> Records:
    if not within:
        for place, item in enumerate(document if isinstance(document, list) else [document]):
            if isinstance(item, dict):
                yield place, 0, item
        return
    for place, (item, around) in enumerate(_items(document, within, {})):
        yield place, 0, {**item, "document": around}


def _items(
    value: Any, within: tuple[str, ...], around: dict[str, Any]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The items of a list at a path, in which `*` stands for each item of a list, with what stands around it."""
    if not within:
        for item in value if isinstance(value, list) else ():
            if isinstance(item, dict):
                yield item, around
    elif within[0] == "*":
        for item in value if isinstance(value, list) else ():
            yield from _items(item, within[1:], around)
    elif isinstance(value, dict):
        rest = {key: one for key, one in value.items() if key != within[0]}
        yield from _items(value.get(within[0]), within[1:], {**rest, "document": around} if around else rest)


def _replayed(path: Path, unreadable: Callable[[], None]) -> Any:
    """A document from the log of its changes: 0 the whole, 1 a value set, 2 values added (behind the first `i`), 3 a
    value taken away; `k` is the path.
    """
    document: Any = None
    for _, _, change in _lines(path, 0, unreadable):
        keys = change.get("k") or []
        if change.get("kind") == 0:
            document = change.get("v")
            continue
        place = document
        try:
            for key in keys[:-1]:
                place = place[key]
            _change(place, keys[-1], change)
        except (LookupError, TypeError, ValueError):
            unreadable()
    return document


def _change(place: Any, key: Any, change: dict[str, Any]) -> None:
    if change.get("kind") == 1:
        place[key] = change.get("v")
    elif change.get("kind") == 2:
        if (first := change.get("i")) is not None:
            del place[key][first:]
        place[key].extend(change.get("v") or [])
    elif change.get("kind") == 3:
        del place[key]


def _numbered(path: Path) -> tuple[int, str]:
    """So that `10.json` comes after `9.json`."""
    return (int(path.stem), "") if path.stem.isdecimal() else (0, path.name)


def _files(paths: list[Path], unreadable: Callable[[], None]) -> Records:
    """One record a file."""
    for place, path in enumerate(paths):
        if path.stat().st_size > WHOLE_DOCUMENT or not isinstance(record := parsed(path.read_bytes()), dict):
            unreadable()
        else:
            yield place, path.stat().st_size, record


def _members(path: Path, pattern: str, within: tuple[str, ...], unreadable: Callable[[], None]) -> Records:
    """The records of each member of a zip archive whose name fits, which is a document; numbered through."""
    place = 0
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not fnmatch.fnmatchcase(member.filename, pattern):
                continue
            try:
                document = parsed(_member(path, archive, member)) if member.file_size <= WHOLE_DOCUMENT else None
            except (NotImplementedError, zipfile.BadZipFile):
                document = None
            if not isinstance(document, dict):
                unreadable()
                continue
            for _, size, record in _within(document, within):
                yield place, size, record
                place += 1


def _member(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """The content of a member, also of one that is compressed with zstd, which zipfile can read from Python 3.14 on."""
    if member.compress_type != ZSTANDARD_MEMBER:
        return archive.read(member)
    with path.open("rb") as file:
        file.seek(member.header_offset)
        head = file.read(LOCAL_HEAD.size)
        if len(head) < LOCAL_HEAD.size:
            raise zipfile.BadZipFile
        name, extra = LOCAL_HEAD.unpack(head)
        file.seek(name + extra, 1)
        packed = file.read(member.compress_size)
    try:
        with zstd.ZstdFile(io.BytesIO(packed)) as plain:
            content = plain.read(member.file_size)
    except (zstd.ZstdError, EOFError):
        raise zipfile.BadZipFile from None
    if zlib.crc32(content) != member.CRC:
        raise zipfile.BadZipFile
    return content


def _rows(path: Path, query: str) -> Records:
    """The rows of a query that names its columns; of texts that are JSON a table reads parts."""
    with _database(path) as database, closing(database.execute(query)) as cursor:
        names = [column[0] for column in cursor.description]
        for place, row in enumerate(cursor):
            values = map(_column, row)
            record = dict(zip(names, values, strict=True))
            yield place, sum(len(value) for value in record.values() if isinstance(value, str)), record


def _column(value: Any) -> Any:
    """A column as text; what is compressed is taken apart."""
    if not isinstance(value, bytes):
        return value
    if value.startswith(ZSTANDARD):
        value = zstd.decompress(value)
    return value.decode("utf-8", "replace")


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
