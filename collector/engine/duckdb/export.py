"""Days written to Parquet before retention removes them (MISSTEP_RETENTION_EXPORT): one file for each UTC day of
receipt. Misstep does not read these files.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from collector.errors import Unavailable
from collector.files import synchronise
from collector.times import DAY


class NotExported(Unavailable):
    """A day could not be written; the message names the file, and says why and what to do."""


def ends_of_days(cursor: duckdb.DuckDBPyConnection, before_ns: int) -> Iterator[int]:
    """For each day with events received before a time, oldest first: the end of the day, or that time within it."""
    days = cursor.execute(
        "select distinct received_ns // $day from events where received_ns < $before order by all",
        {"day": DAY, "before": before_ns},
    ).fetchall()
    return (min((day + 1) * DAY, before_ns) for (day,) in days)


def export(cursor: duckdb.DuckDBPyConnection, folder: Path, end_ns: int) -> None:
    """Adds the events of one day of receipt, up to a time in it or at its end, to the file of that day.

    An event that is in the file already takes its place there: after a kill between this and the commit that removes
    the events, the same day is written again and has each event once. Leaves the caller's transaction unusable if it
    raises NotExported.
    """
    start_ns = (end_ns - 1) // DAY * DAY
    place = folder / f"{datetime.fromtimestamp(start_ns // 10**9, UTC):%Y-%m-%d}.parquet"
    part = place.with_suffix(".part")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        part.unlink(missing_ok=True)
        part.touch(mode=0o600)
        events = _events(start_ns, end_ns, place)
        cursor.execute(f"copy ({events}) to {_text(part)} (format parquet, compression zstd, use_tmp_file false)")
        synchronise(part)
        part.replace(place)
        synchronise(folder)
    except (OSError, duckdb.Error) as error:
        raise NotExported(
            f"{place} cannot be written ({str(error).splitlines()[0][:300]}): make room and let this user write there, "
            "or name another folder with MISSTEP_RETENTION_EXPORT; until then its events and newer ones stay",
            60,
        ) from None


def _events(start_ns: int, end_ns: int, place: Path) -> str:
    """The events to write as SQL, with those of a file that is there."""
    leaving = f"from events where received_ns >= {start_ns:d} and received_ns < {end_ns:d}"
    if not place.exists():
        return leaving
    others = f"from read_parquet({_text(place)}) where event_id not in (select event_id {leaving})"
    return f"{leaving} union all by name {others}"


def _text(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
