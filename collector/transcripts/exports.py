"""Reads exports that are tables: Parquet and CSV. Only the columns that a table of transcripts names are read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb

READ = {"parquet": "read_parquet($path)", "csv": "read_csv($path, header = true, all_varchar = true)"}
SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "memory_limit": "200MB",
    "threads": "1",
    "autoload_known_extensions": "false",
}
ROWS = 256


def rows(path: Path, form: str, columns: tuple[str, ...]) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Number, size and values of each row, as far as the file has these columns. Raises duckdb.Error."""
    source, given = READ[form], {"path": _plain(path)}
    with closing(duckdb.connect(config=SETTINGS)) as database:
        database.execute("set TimeZone = 'UTC'")
        described = database.execute(f"describe select * from {source}", given).fetchall()  # names, and no row
        names = [row[0] for row in described if row[0] in columns]
        if not names:
            return
        quoted = ", ".join(f'"{name}"' for name in names)
        found = database.execute(f"select {quoted} from {source}", given)
        place = 0
        while lot := found.fetchmany(ROWS):
            for row in lot:
                record = {name: _value(value) for name, value in zip(names, row, strict=True)}
                yield place, sum(len(value) for value in record.values() if isinstance(value, str)), record
                place += 1


def _plain(path: Path) -> str:
    """The path as one file: the engine would take some letters in it for a pattern."""
    return "".join(f"[{one}]" if one in "*?[" else one for one in str(path))


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    if isinstance(value, date | bytes):
        return str(value)
    return value if isinstance(value, str | int | float | bool | dict | list) or value is None else str(value)
