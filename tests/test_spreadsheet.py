"""CSV for spreadsheets: no text of an agent is a formula, and numbers stay numbers."""

from __future__ import annotations

import csv
import io

import msgspec
import polars as pl
import pytest

from collector.commands.sql import Found, _table
from dashboard.parts import share
from dashboard.parts.spreadsheet import inert

FORMULAS = (
    "=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\rx", "\nx", "  =1", '"=1', "'=1", "\u00a0=1",
    "\ufeff=1", "\u200b=1", "\x00=1", "\uff1d1", "\uff0b1+1", "\uff0d1+1", "\uff20SUM(1)", "=HYPERLINK(\"http://evil.example\")",
    "-", "-h", "-1-1", "+1e", "=2", "-5\n=1", "--5", "-5 ;=1",
)  # fmt: skip
TEXTS = (
    "bash", "a=b", "a@b.example", "5-3", "", "[=1]", '{"a":"=1"}', "“=1”", "é=1", "日本=", "0", "-5", "+3.2e1", "-.5",
    "-5.", " -5", "-1E-9", "3", None,
)  # fmt: skip


@pytest.mark.parametrize("kind", [pl.String, pl.Categorical])
def test_a_text_that_would_run_has_an_apostrophe_and_others_stay(kind: type[pl.DataType]) -> None:
    rows = pl.DataFrame({"text": [*FORMULAS, *TEXTS]}, {"text": pl.String}).cast(kind)
    assert inert(rows)["text"].to_list() == [*(f"'{text}" for text in FORMULAS), *TEXTS]


def test_columns_of_numbers_stay_as_they_are_and_names_of_columns_do_not_run() -> None:
    rows = pl.DataFrame({"whole": [-5, None], "float": [-0.5, 32.0], "flag": [True, False], "=own": ["x", "@y"]})
    shown = inert(rows)
    assert shown.columns == ["whole", "float", "flag", "'=own"]
    assert shown.select("whole", "float", "flag").equals(rows.select("whole", "float", "flag"))
    assert shown["'=own"].to_list() == ["x", "'@y"]
    assert inert(pl.DataFrame({"n": [-1]})).equals(pl.DataFrame({"n": [-1]}))


def test_what_the_dashboard_and_sql_write_as_csv_runs_nothing() -> None:
    rows = pl.DataFrame({"tool": ["=1+1", "bash"], "n": [-5, 3], "trend": [["=1"], ["2"]]})
    read = list(csv.reader(io.StringIO(share.as_file(rows, "csv").decode())))
    assert read == [["tool", "n", "trend"], ["'=1+1", "-5", "[=1]"], ["bash", "3", "[2]"]]
    assert pl.read_parquet(share.as_file(rows, "parquet")).equals(rows)
    found = Found([msgspec.Raw(b'{"tool":"=1+1","n":-5,"f":3.2e1}')], ["tool", "n", "f"], False)
    assert _table(found, "csv").splitlines() == ["tool,n,f", "'=1+1,-5,32.0"]
