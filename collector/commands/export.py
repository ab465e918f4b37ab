"""Writes events from the query API to a file, page by page, however many they are."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import httpx
import msgspec
import polars as pl
from polars.io.plugins import register_io_source

from collector.columns import COLUMNS
from collector.commands.client import ARROW, check, collector, filters
from collector.commands.naming import naming
from collector.commands.progress import progress
from collector.query.queries import token as position
from dashboard.parts.spreadsheet import inert

RFC3339 = "%Y-%m-%dT%H:%M:%S%.9fZ"
PAGE = 4_999  # plus the one that shows whether there are more, this is the most for which DuckDB never sorts all rows
Page = TypeVar("Page", list[msgspec.Raw], pl.DataFrame)

_KINDS: dict[str, Any] = {
    "bigint": pl.Int64, "ubigint": pl.UInt64, "integer": pl.Int64, "smallint": pl.Int64, "double": pl.Float64,
    "boolean": pl.Boolean,
}  # fmt: skip
_TIMES = {"time_ns": "time", "received_ns": "received_time"}
_SCHEMA: dict[str, Any] = {
    _TIMES.get(name, name): pl.Datetime("ns", "UTC") if name in _TIMES else _KINDS.get(kind, pl.String)
    for name, kind in COLUMNS.items()
} | {"recovered": pl.Boolean}


def export(url: str, path: Path, form: str, where: Sequence[str], token: str = "") -> int:
    """Writes the events that `where` (`name=value`) selects, newest first, as parquet, csv or jsonl; returns how many.
    In CSV no text is a formula.

    An existing file is replaced once everything is written. Says on standard error if events are missing. Raises
    OSError if the collector does not answer or refuses a filter, or if the file cannot be written.
    """
    chosen = filters(where)
    with collector(url, token) as client, _replacing(path) as place:
        chosen = _fixed(client, chosen)
        if form == "jsonl":
            return _lines(place, _pages(client, chosen, "application/json", lines))
        pages = _pages(client, chosen, ARROW, frame)
        return _frames(place, form, map(inert, pages) if form == "csv" else pages)


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A file to write, which replaces `path` at the end of the block, and is removed if the block raises."""
    if path.exists() and not path.is_file():  # such as /dev/stdout
        with naming(path, path):
            yield path
        return
    asked, path = path, path.resolve()  # a symbolic link stays
    part = path.with_name(f".{path.name}.part")
    try:
        with naming(asked, part):
            yield part
            part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _fixed(client: httpx.Client, chosen: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The filters with the range as the collector understands it now: a relative start would move from page to page.

    An end of `now` stays: pages go back from the newest event, and it includes events of clocks that are ahead.
    """
    answer = client.get("/api/v1/events", params=httpx.QueryParams([*chosen, ("limit", "1")]))
    check(answer)
    fixed = msgspec.json.decode(answer.content, type=JsonPage)
    times = {"from": fixed.start}
    if dict(chosen).get("to", "now") != "now":
        times["to"] = fixed.to
    return [*(pair for pair in chosen if pair[0] not in times), *times.items()]


def _pages(
    client: httpx.Client, chosen: Sequence[tuple[str, str]], accept: str, read: Callable[[bytes], tuple[Page, str]]
) -> Iterator[Page]:
    """The pages that `read` makes of answers: at least one, which may be empty."""
    after: str = ""
    with progress("export", None) as advance:
        while True:
            asked = httpx.QueryParams([*chosen, ("limit", str(PAGE)), *([("cursor", after)] if after else [])])
            answer = client.get("/api/v1/events", params=asked, headers={"accept": accept})
            check(answer)
            page, after = read(answer.content)
            yield page
            advance(len(page))
            if not after:
                return


class JsonPage(msgspec.Struct):
    """The fields of a JSON answer that are needed here."""

    rows: list[msgspec.Raw]
    next: str | None
    to: str
    start: str = msgspec.field(name="from")


def lines(body: bytes) -> tuple[list[msgspec.Raw], str]:
    """Events as the API returns them, and the cursor of the next page."""
    answer = msgspec.json.decode(body, type=JsonPage)
    return answer.rows, answer.next or ""


def _lines(path: Path, pages: Iterator[list[msgspec.Raw]]) -> int:
    rows = 0
    with path.open("wb") as out:
        for page in pages:
            out.writelines(bytes(row) + b"\n" for row in page)
            rows += len(page)
    return rows


def frame(body: bytes) -> tuple[pl.DataFrame, str]:
    """Events of an Arrow stream with the types of the store, and the cursor of the next page if this one is full.

    Times are timestamps, ids numbers, objects JSON text; the user's own attributes (`MISSTEP_DIMENSIONS`) come last.
    """
    received = pl.read_ipc_stream(body)
    known = [name for name in _SCHEMA if name in received.columns]
    own = [name for name in received.columns if name not in _SCHEMA]
    found = received.select(pl.col(name).cast(_SCHEMA.get(name, pl.String)) for name in known + own)
    if found.height < PAGE:
        return found, ""
    return found, position(found["time"].to_physical()[-1], found["event_id"][-1])


def _frames(path: Path, form: str, pages: Iterator[pl.DataFrame]) -> int:
    """Polars writes each page before it takes the next. It would pass on only the text of an error of `pages`.

    It does so in another thread: as long as this one is in Polars, Python handles no signal but Ctrl-C.
    """
    rows, first, ended = 0, next(pages), False
    errors: list[Exception] = []

    def taken(*_: object) -> Iterator[pl.DataFrame]:
        nonlocal rows
        try:
            for page in chain([first], pages):
                if ended:
                    return
                rows += page.height
                yield page
        except Exception as error:
            errors.append(error)

    whole = register_io_source(taken, schema=first.schema)
    sink = whole.sink_parquet if form == "parquet" else partial(whole.sink_csv, datetime_format=RFC3339)
    with ThreadPoolExecutor(1) as apart:
        try:
            apart.submit(sink, path).result()
        except (OSError, pl.exceptions.ComputeError) as error:
            _raise_as_the_system(error, path)
        finally:
            ended = True
    if errors:
        raise errors.pop()
    return rows


def _raise_as_the_system(error: Exception, path: Path) -> NoReturn:
    """Raises what the system said when `path` was written to: Polars has its number in a text, or not at all."""
    if found := re.search(r"\(os error (\d+)\)", str(error)):
        raise OSError(int(found[1]), os.strerror(int(found[1])), str(path)) from None
    with path.open("wb", buffering=0) as file:
        file.write(b"\0")
    raise error
