"""`misstep sql`: one SELECT over the events of a range, answered by the collector."""

from __future__ import annotations

import io
from collections.abc import Sequence

import polars as pl

from collector.commands.client import ARROW, check, collector, filters


def sql(url: str, statement: str, where: Sequence[str], form: str, token: str = "") -> str:
    """The rows as a table, csv or jsonl. Raises OSError if the collector does not answer or refuses."""
    params = dict(filters(where))
    with collector(url, token) as client:
        answer = client.post("/api/v1/sql", params=params, json={"sql": statement}, headers={"accept": ARROW})
    check(answer)
    frame = pl.read_ipc_stream(io.BytesIO(answer.content))
    match form:
        case "csv":
            return frame.write_csv().rstrip("\n")
        case "jsonl":
            return frame.write_ndjson().rstrip("\n")
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True,
                   fmt_str_lengths=80, tbl_width_chars=200, tbl_formatting="MARKDOWN"):  # fmt: skip
        return str(frame)
