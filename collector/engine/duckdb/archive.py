"""Old events in Parquet files, one folder for each day, read by the same questions as those in the database.

The table `archived` says which files belong to the store. A file is whole and in its place before the transaction that
takes its events out of `events` and lists it: a kill at any moment leaves each event in one of the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import structlog

from collector.columns import EVENT_COLUMNS, Report
from collector.engine.duckdb.derive import doubt
from collector.engine.duckdb.open import DATABASE
from collector.engine.duckdb.read import FAILED, ArchiveView, Reader, Stamp, damaged, stamps
from collector.engine.duckdb.retention import forget_events
from collector.files import synchronise
from collector.times import DAY

MOST_EVENTS = 1_000_000  # per file, which takes about five seconds to write
SLICE_EVENTS = 20_000  # per slice when a file is rewritten: each slice reads a whole row group

log = structlog.get_logger()


def view(cursor: duckdb.DuckDBPyConnection, left_out: Mapping[Path, Stamp]) -> ArchiveView:
    """The view by which a cursor sees all events as `events`, and which archive files are missing or damaged.

    Files with the stamps of `left_out` are known to be damaged.
    """
    listed = cursor.execute("select file, events from archived order by received_ns").fetchall()
    known = {Path(file): events for file, events in listed}
    reached = stamps(known)  # before they are read: what changes meanwhile is looked at again
    found = [str(file) for file, stamp in reached.items() if left_out.get(file) != stamp]
    counted = set(_counted(cursor, found) or [one for file in found for one in _counted(cursor, [file])])
    files = [file for file, events in listed if (file, events) in counted]
    alike = _by_columns(cursor, files)  # files written before a column was added do not have it
    files = [file for each in alike.values() for file in each]
    missing = frozenset(known).difference(map(Path, files))
    if missing:
        events, first = sum(map(known.__getitem__, missing)), str(min(missing))
        log.error(
            "archived files are missing or damaged: put them back", files=len(missing), events=events, first=first
        )
    for place in map(Path, files):  # left by a kill while a file was rewritten
        for older in place.parent.glob(f"{place.name.split('.')[0]}.*"):
            if older != place and (older.suffix == ".part" or _generation(older) < _generation(place)):
                with suppress(OSError):
                    older.unlink()
    if not files:
        return ArchiveView("", known, reached, missing)
    columns = [row[0] for row in cursor.execute(f"describe {DATABASE}.main.events").fetchall()]
    parts = [f"from {DATABASE}.main.events"]
    for there, some in alike.items():
        named = (f'"{name}"' if name in there else f'{_absent(name)} as "{name}"' for name in columns)
        parts.append(f"select {', '.join(named)} from {_read(some)}")
    return ArchiveView(
        f"create or replace temporary view events as {' union all '.join(parts)}",
        known,
        reached,
        missing,
    )


def _absent(name: str) -> str:
    """A column that files do not have, as SQL: null, or what the event's attributes have for a dimension."""
    return "null" if name in EVENT_COLUMNS else f"""attributes ->> '$."{name}"'"""


def _by_columns(cursor: duckdb.DuckDBPyConnection, files: Sequence[str]) -> dict[frozenset[str], list[str]]:
    """The files by the columns that they have; without those that cannot be read."""
    found: dict[frozenset[str], list[str]] = {}
    for file in files:
        if columns := frozenset(name for name, *_ in _tried(cursor, f"describe from {_read([file])}")):
            found.setdefault(columns, []).append(file)
    return found


def follow(cursor: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Lists each file that is in this folder too, as it was copied or moved there, at its place there; in the caller's
    transaction. A copy that is not complete lacks the directory at its end.
    """
    for file, size, events in cursor.execute("select file, bytes, events from archived").fetchall():
        place = folder.absolute() / Path(file).parent.name / Path(file).name
        if str(place) == file or stamps([place]).get(place, (None, 0))[0] != size:
            continue
        if (str(place), events) not in _counted(cursor, [str(place)]):
            continue
        for table, column in (("archived", "file"), ("meta", "value")):  # where doubts about it are noted
            cursor.execute(f"update {table} set {column} = ? where {column} = ?", [str(place), file])


class Moving(NamedTuple):
    """A file with all events that were received up to a time."""

    place: Path
    last_ns: int
    events: int


def write_oldest(cursor: duckdb.DuckDBPyConnection, folder: Path, before_ns: int) -> Moving | None:
    """Writes the oldest events received before a time into a file: all of a day, or the first MOST_EVENTS of it. They
    are still in the database. None where there are neither: every query opens every file, so that few are better.
    """
    found = cursor.execute("select min(received_ns) from events where received_ns < ?", [before_ns]).fetchone()
    if not found or found[0] is None:
        return None
    first = found[0]
    night = (first // DAY + 1) * DAY
    [[last]] = cursor.execute(
        "select max(received_ns) from"
        " (select received_ns from events where received_ns < $end order by received_ns limit $most)",
        {"end": min(before_ns, night), "most": MOST_EVENTS},
    ).fetchall()
    [[events]] = cursor.execute("select count(*) from events where received_ns <= ?", [last]).fetchall()
    if before_ns < night and events < MOST_EVENTS:
        return None
    day = datetime.fromtimestamp(first // 10**9, UTC)
    place = folder.absolute() / f"day={day:%Y-%m-%d}" / f"{first}-{last}-{events}.parquet"
    _write(cursor, f"from events where received_ns <= {last}", place)
    return Moving(place, last, events)


def take_out(cursor: duckdb.DuckDBPyConnection, moving: Moving) -> None:
    """Removes the events of a file from the database and lists the file, in the caller's transaction.

    Concurrent queries must see both changes or neither.
    """
    cursor.execute("delete from events where received_ns <= ?", [moving.last_ns])
    _list(cursor, moving.place, moving.last_ns, moving.events)


class Dropped(NamedTuple):
    """Files that were taken out of the store, and the number of their events."""

    files: list[Path]
    events: int


def drop_files(cursor: duckdb.DuckDBPyConnection, before_ns: int) -> Dropped:
    """Takes files out of the store whose events were all received before a time.

    In the caller's transaction; the files are to be removed after it, and what is derived from those that cannot be
    read is in doubt.
    """
    gone = cursor.execute("select file, events from archived where received_ns < ?", [before_ns]).fetchall()
    for file, _ in gone:
        columns = "service, session, time_ns, event_id, operation, duration_ms"  # of which `forget_events` asks
        if _tried(cursor, f"select bit_xor(hash({columns})) from {_read([file])}"):
            forget_events(cursor, _read([file]))
        else:
            doubt(cursor, [file])
    cursor.execute("delete from archived where received_ns < ?", [before_ns])
    return Dropped([Path(file) for file, _ in gone], sum(events for _, events in gone))


def slices(store: Reader, file: str) -> Iterator[list[Report]]:
    """The events of a file, in the order in which they were received."""
    after_ns = -1
    while True:
        [found] = store.rows(
            f"select max(received_ns) as until from (select received_ns from {_read([file])}"
            " where received_ns > $after order by received_ns limit $most)",
            {"after": after_ns, "most": SLICE_EVENTS},
        )
        if found["until"] is None:
            return
        between = {"after": after_ns, "until": found["until"]}
        yield store.rows(f"from {_read([file])} where received_ns > $after and received_ns <= $until", between)
        after_ns = found["until"]


def begin_anew(cursor: duckdb.DuckDBPyConnection) -> None:
    """Makes the temporary table `anew` for events that are to take the places of those in a file."""
    cursor.execute("create or replace temporary table anew as from events limit 0")


def put_in_place(cursor: duckdb.DuckDBPyConnection, file: str) -> None:
    """Lists a new file for an old one, with the events of `anew` in the place of those with their ids.

    In the caller's transaction; the old file is to be removed after it.
    """
    [[received_ns, events]] = cursor.execute(
        "select received_ns, events from archived where file = ?", [file]
    ).fetchall()
    old = Path(file)
    place = old.with_name(f"{old.name.split('.')[0]}.{_generation(old) + 1}.parquet")
    others = f"from {_read([file])} where event_id not in (select event_id from anew)"
    _write(cursor, f"{others} union all by name from anew", place)
    cursor.execute("delete from archived where file = ?", [file])
    _list(cursor, place, received_ns, events)


def sweep(folder: Path, before_ns: int) -> int:
    """Removes files of events that were all received before a time, which a kill or a lost disk may have left; how
    many. Raises OSError.
    """
    gone = 0
    for place in folder.glob("day=*/*"):
        _, last, _ = (*place.name.split(".")[0].split("-"), "", "")[:3]
        if last.isdecimal() and int(last) < before_ns:
            place.unlink(missing_ok=True)
            gone += 1
    return gone


def _counted(cursor: duckdb.DuckDBPyConnection, files: Sequence[str]) -> list[tuple[Any, ...]]:
    """The number of events of each file, as its directory tells; none if one of them cannot be read."""
    return _tried(cursor, f"select file_name, num_rows from parquet_file_metadata({_texts(files)})") if files else []


def _tried(cursor: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query of a file, none if that is missing or damaged. Leaves the transaction of `cursor` alone."""
    with closing(cursor.cursor()) as aside:
        try:
            return aside.execute(query).fetchall()
        except FAILED as error:
            if not damaged(error) and not isinstance(error, duckdb.IOException):
                raise
            return []


def _generation(place: Path) -> int:
    middle = place.name.split(".")[1]
    return int(middle) if middle.isdecimal() else 1


def _write(cursor: duckdb.DuckDBPyConnection, query: str, place: Path) -> None:
    """Writes a file completely and synchronises it, or leaves none of that name."""
    place.parent.mkdir(parents=True, exist_ok=True)
    part = place.with_suffix(".part")
    cursor.execute(f"copy ({query}) to {_text(part)} (format parquet, compression zstd)")
    synchronise(part)
    part.rename(place)
    synchronise(place.parent)


def _list(cursor: duckdb.DuckDBPyConnection, place: Path, received_ns: int, events: int) -> None:
    cursor.execute("insert into archived values (?, ?, ?, ?)", [str(place), received_ns, events, place.stat().st_size])


def _read(files: Sequence[str]) -> str:
    return f"read_parquet({_texts(files)}, hive_partitioning = false)"


def _texts(files: Sequence[str]) -> str:
    return f"[{', '.join(map(_text, files))}]"


def _text(path: str | Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
