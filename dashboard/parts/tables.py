"""Tables: the kinds of columns, and a table that keeps its selection while the page refreshes."""

from collections.abc import Collection, Mapping
from typing import Any

import polars as pl
import streamlit as st

from dashboard.data import frames
from dashboard.page import Page
from dashboard.parts import words

ROW_HEIGHT = 32
ROWS_SHOWN = 12
MAY_LAST = {"lasting", "not_known_yet"}
SIZES = {"small": 75, "medium": 200, "large": 400}  # pixels, as Streamlit has them
SMALL_PX = {"text": 130, "number": 62}  # widest columns on a phone


def table(
    page: Page, rows: pl.DataFrame, columns: Mapping[str, Any], *, key: str, alt_text: str, select: bool = False,
    wide: Collection[str] = (), rows_shown: int = ROWS_SHOWN,
) -> dict[str, Any] | None:  # fmt: skip
    """Shows a table of these columns, those in `wide` only in wide windows; returns the whole selected row.

    In narrow windows, lasting errors are a range instead of two columns.
    While a row is selected the table does not change, because Streamlit remembers row numbers, not rows.
    """
    key = f"{key}-{page.asked}"
    held = f"{key}-held"
    chosen = _chosen(key) if select else None
    if chosen is not None and held in st.session_state:
        rows = st.session_state[held]
    elif select:
        st.session_state[held] = rows
    selecting: dict[str, Any] = {"on_select": "rerun", "selection_mode": "single-row"} if select else {}
    if page.narrow:
        columns = {name: column for name, column in columns.items() if name not in wide}
    drawn = rows
    if page.narrow and columns.keys() >= MAY_LAST:
        columns, drawn = _as_range(columns, rows)
    if page.small:
        columns = {name: _smaller(column) for name, column in columns.items()}
    shown, configs = _with_share_words(drawn, columns)
    st.dataframe(
        shown,
        column_config=configs,
        hide_index=True,
        row_height=ROW_HEIGHT,
        height=ROW_HEIGHT * (min(max(rows.height, 1), rows_shown) + 1) + 4,
        key=key,
        alt=alt_text,
        placeholder="",
        **selecting,
    )
    return rows.row(chosen, named=True) if chosen is not None and chosen < rows.height else None


def held(page: Page, key: str) -> pl.DataFrame | None:
    """The rows that a table with a selection shows; None if nothing is selected."""
    key = f"{key}-{page.asked}"
    return st.session_state.get(f"{key}-held") if _chosen(key) is not None else None


def _as_range(columns: Mapping[str, Any], rows: pl.DataFrame) -> tuple[dict[str, Any], pl.DataFrame]:
    """The columns and rows with lasting errors as a range, so that a 0 is not taken for good news."""
    said = [words.may_last(*counts) for counts in rows.select("lasting", "not_known_yet").iter_rows()]
    kept = {name: column for name, column in columns.items() if name != "not_known_yet"}
    kept["lasting"] = text("lasting", 75, words.HELP["lasting errors"])
    return kept, rows.with_columns(lasting=pl.Series(said, dtype=pl.String))


def _smaller(column: Mapping[str, Any]) -> dict[str, Any]:
    """A column as wide as a phone has room for."""
    most = SMALL_PX.get(column["type_config"]["type"], column["width"])
    width = SIZES.get(column["width"], column["width"])
    return {**column, "width": most if width is None else min(width, most) if most else width}


def _with_share_words(rows: pl.DataFrame, columns: Mapping[str, Any]) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Adds shares as text beside their bars: the number in a bar would be 0 % for small ones."""
    configs: dict[str, Any] = {}
    series: list[pl.Series] = []
    for name, column in columns.items():
        if column["type_config"]["type"] == "progress" and column["label"]:
            said = f"{name} in words"
            configs[said] = text(column["label"], 75, column["help"])
            series.append(pl.Series(said, [words.rate(value) for value in rows[name]], dtype=pl.String))
            column = {**column, "label": " "}
        configs[name] = column
        series.append(rows[name])
    return pl.DataFrame(series), configs


def _chosen(key: str) -> int | None:
    picked = st.session_state.get(key, {}).get("selection", {}).get("rows", [])
    return int(picked[0]) if picked else None


def with_rate_words(rows: pl.DataFrame) -> pl.DataFrame:
    """Adds `rate` (the error rate with its denominator, as text) and `uncertain`, from error_rate and rated."""
    doubtful = [words.uncertain(of) for of in rows["rated"]]
    return rows.with_columns(
        frames.rates(rows, "rate", "error_rate", "rated"), pl.Series("uncertain", doubtful, dtype=pl.Boolean)
    )


def text(label: str, width: Any = None, help: str | None = None) -> Any:
    """A column of plain text."""
    return st.column_config.TextColumn(label, width=width, help=help)


def number(label: str, help: str | None = None, *, width: Any = "small") -> Any:
    """A column of counts, written as elsewhere on the pages."""
    # Not `localized`: the browser then makes a number format for each cell, each time it draws it.
    return st.column_config.NumberColumn(label, format="%,d", help=help, width=width)


def share(label: str, help: str | None = None, *, colour: str | None = None, width: int = 90) -> Any:
    """A column of shares of 1 as bars; if it has a label, `table` adds them as text before it."""
    return st.column_config.ProgressColumn(
        label, format=" ", min_value=0, max_value=1, help=help, color=colour, width=width
    )


def rate() -> Any:
    """The column that `with_rate_words` adds."""
    return text("error rate", 130, words.HELP["error rate"])


def strip(width: int | None = None) -> Any:
    """A column of sessions' last calls as small bars (see `frames.strips`)."""
    said = "ok is low, cancelled, denied or unknown half, error full height"
    return st.column_config.BarChartColumn("last 60 calls", help=said, y_min=0, y_max=4, width=width)


def trend(label: str) -> Any:
    """A column of counts over time as small bars, each row on its own scale."""
    return st.column_config.BarChartColumn(label, help="The range in 24 equal parts.", y_min=0, width=75)


def when(label: str, page: Page, *, day: bool = True) -> Any:
    """A column of times in the reader's zone, with or without the day, and its year if the range begins in another."""
    form, width = ("D MMM HH:mm:ss", 125) if day else ("HH:mm:ss", 75)
    if day and page.span[0].astimezone(page.zone).year != page.now.astimezone(page.zone).year:
        form, width = "D MMM YYYY HH:mm:ss", 155
    return st.column_config.DatetimeColumn(label, format=form, timezone=str(page.zone), width=width)
