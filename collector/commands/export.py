"""Events out of the query API into a file, page by page, whatever their number."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import polars as pl

from collector.commands.client import bearer
from collector.commands.progress import progress
from collector.store.batch import COLUMNS

PAGE = 5_000

_KINDS: dict[str, Any] = {
    "bigint": pl.Int64, "ubigint": pl.UInt64, "integer": pl.Int64, "smallint": pl.Int64, "double": pl.Float64,
    "boolean": pl.Boolean,
}  # fmt: skip
_TIMES = {"time_ns": "time", "received_ns": "received_time"}


def export(url: str, path: Path, form: str, where: Sequence[str], token: str = "") -> int:
    """Writes the events that `where` (`name=value`) chooses, newest first, as parquet, csv or jsonl; returns how many.

    Raises OSError where the collector does not answer, refuses a filter, or the file cannot be written.
    """
    unfit = [each for each in where if "=" not in each]
    if unfit:
        raise OSError(f"{unfit[0]!r} is no filter; write name=value, such as tool=apply_diff")
    filters = [(name, value) for name, _, value in (each.partition("=") for each in where)]
    pages = _pages(url, filters, token)
    return _lines(path, pages) if form == "jsonl" else _frames(path, form, pages)


def _pages(url: str, filters: Sequence[tuple[str, str]], token: str) -> Iterator[list[dict[str, Any]]]:
    headers = bearer(token)
    cursor: list[tuple[str, str]] = []
    with progress("export", None) as advance, httpx.Client(base_url=url, headers=headers, timeout=60) as client:
        while True:
            try:
                answer = client.get("/api/v1/events", params=[*filters, ("limit", str(PAGE)), *cursor])
            except httpx.TransportError as error:
                raise ConnectionError(f"the collector at {url} does not answer: {error}") from None
            if not answer.is_success:
                raise OSError(f"the collector at {url} answered {answer.status_code}: {answer.text[:300]}")
            page = answer.json()
            if page["rows"]:
                yield page["rows"]
                advance(len(page["rows"]))
            if not page["next"]:
                return
            cursor = [("cursor", page["next"])]


def _lines(path: Path, pages: Iterator[list[dict[str, Any]]]) -> int:
    rows = 0
    with path.open("w", encoding="utf-8") as out:
        for page in pages:
            out.writelines(json.dumps(row, separators=(",", ":"), ensure_ascii=False) + "\n" for row in page)
            rows += len(page)
    return rows


def _frames(path: Path, form: str, pages: Iterator[list[dict[str, Any]]]) -> int:
    """Each page becomes a file of its own first: polars joins these in constant memory."""
    rows = 0
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        for number, page in enumerate(pages):
            frame(page).write_parquet(Path(folder, f"{number:08}.parquet"))
            rows += len(page)
        if not rows:
            frame([]).write_parquet(Path(folder, "none.parquet"))
        whole = pl.scan_parquet(Path(folder, "*.parquet"))
        whole.sink_parquet(path) if form == "parquet" else whole.sink_csv(path)
    return rows


def frame(rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """Events of the API with the types of the store: times as timestamps, ids as numbers, objects as JSON text."""
    schema: dict[str, Any] = {
        _TIMES.get(name, name): pl.Datetime("ns", "UTC") if name in _TIMES else _KINDS.get(kind, pl.String)
        for name, kind in COLUMNS.items()
    } | {"recovered": pl.Boolean}
    own = [name for name in (rows[0] if rows else ()) if name not in schema]  # MISSTEP_DIMENSIONS of the collector
    schema |= dict.fromkeys(own, pl.String)
    return pl.DataFrame([_column(name, kind, [row.get(name) for row in rows]) for name, kind in schema.items()])


def _column(name: str, kind: Any, values: list[Any]) -> pl.Series:
    if isinstance(kind, pl.Datetime):
        return pl.Series(name, values, dtype=pl.String).str.to_datetime(time_unit="ns", time_zone="UTC")
    if kind == pl.UInt64:
        return pl.Series(name, [None if value is None else int(value) for value in values], dtype=kind)
    if kind == pl.String:
        values = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    return pl.Series(name, values, dtype=kind)
