"""`misstep sql`: one SELECT over the events of a range, answered by the collector."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import httpx
import msgspec

from collector.commands.client import check, collector, filters
from collector.visible import say
from dashboard.parts.spreadsheet import inert


class Found(msgspec.Struct):
    """The fields of an answer that are needed here."""

    rows: list[msgspec.Raw]
    columns: list[str]
    truncated: bool


def sql(url: str, statement: str, where: Sequence[str], form: str, token: str = "") -> str:
    """The rows, with the values of the API's JSON, as a table, csv or jsonl; says on standard error if there are more.
    Raises OSError if the collector does not answer or refuses.
    """
    params = httpx.QueryParams(tuple(filters(where)))
    with collector(url, token) as client:
        answer = client.post("/api/v1/sql", params=params, json={"sql": statement})
    check(answer)
    found = msgspec.json.decode(answer.content, type=Found)
    if found.truncated:
        said = f"misstep: there are more rows than these {len(found.rows)}; --limit gives more, 10,000 at most"
        say(said, file=sys.stderr)
    return _lines(found) if form == "jsonl" else _table(found, form)


def _lines(found: Found) -> str:
    return b"\n".join(map(bytes, found.rows)).decode()


def _table(found: Found, form: str) -> str:
    import polars as pl

    rows = (msgspec.json.decode(row) for row in found.rows)
    cells = [[_cell(row[name]) for name in found.columns] for row in rows]
    frame = pl.DataFrame(cells, dict.fromkeys(found.columns, pl.String), orient="row")
    if form == "csv":
        return inert(frame).write_csv().rstrip("\n")
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True,
                   fmt_str_lengths=80, tbl_width_chars=200, tbl_formatting="MARKDOWN"):  # fmt: skip
        return str(frame)


def _cell(value: Any) -> str | None:
    """A value as text: what is no text as JSON."""
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()
