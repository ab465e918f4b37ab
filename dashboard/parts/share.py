"""What readers can take from a page: links, downloads of its rows, and the queries behind it as curl commands."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from io import BytesIO
from urllib.parse import urlencode

import polars as pl
import streamlit as st

from dashboard.data.client import COUNTS, Answer, Collector
from dashboard.data.filters import Filters
from dashboard.parts.spreadsheet import inert

_ASKED = "share-asked"
FORMATS: Mapping[str, str] = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet"}
VERSION = version("misstep")


@dataclass(frozen=True, slots=True)
class ApiQuery:
    """A query that a page sent to the API."""

    path: str
    params: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        """A name for downloaded files."""
        by = dict(self.params).get("by", "").replace(",", "-")
        return "-".join(part for part in (self.path.replace("/", "-"), by) if part)

    def __str__(self) -> str:
        by = dict(self.params).get("by", "")
        return f"{self.path} by {by}" if by else self.path


def forget(page: str, filters: Filters) -> None:
    """Forgets the queries of another page, or of other filters, when a page begins."""
    if st.session_state.get(_ASKED, ("", None, {}))[:2] != (page, filters):
        st.session_state[_ASKED] = (page, filters, {})


def remember(path: str, params: Mapping[str, str], answer: Answer) -> None:
    """Notes a query of the page, the number of rows in its answer, and when that was fetched."""
    if _ASKED in st.session_state:
        noted = (answer.rows.height, answer.fetched)
        st.session_state[_ASKED][2][ApiQuery(path, tuple(params.items()))] = noted


def fetched() -> datetime | None:
    """When the oldest of the page's answers was fetched; None if it has none."""
    return min((when for _, when in _noted().values()), default=None)


def asked() -> list[ApiQuery]:
    """The queries of the page, the longest answer first."""
    queries = _noted()
    return sorted(queries, key=lambda query: -queries[query][0])


def _noted() -> dict[ApiQuery, tuple[int, datetime]]:
    noted: dict[ApiQuery, tuple[int, datetime]] = st.session_state.get(_ASKED, ("", None, {}))[2]
    return dict(noted)  # parts that load in parallel add to it


def download(collector: Collector, query: ApiQuery, form: str) -> Callable[[], bytes]:
    """Makes a file of an answer's rows when the button is clicked."""

    def content() -> bytes:
        rows = collector.ask(query.path, dict(query.params)).rows
        return as_file(rows, form)

    return content


def as_file(rows: pl.DataFrame, form: str) -> bytes:
    """Rows as CSV or Parquet; CSV has lists as text in brackets, counts as whole numbers, and no formulas."""
    out = BytesIO()
    if form == "parquet":
        rows.write_parquet(out)
        return out.getvalue()
    lists = [name for name, kind in rows.schema.items() if isinstance(kind, pl.List)]
    flat = (
        (pl.lit("[") + pl.col(name).cast(pl.List(pl.String)).list.join(",") + pl.lit("]")).alias(name) for name in lists
    )
    counts = [
        name for name, kind in rows.schema.items() if name.removeprefix("previous_") in COUNTS and kind.is_float()
    ]
    whole = [name for name in counts if (rows[name] == rows[name].round()).all()]
    inert(rows.with_columns(flat).with_columns(pl.col(whole).cast(pl.Int64))).write_csv(out)
    return out.getvalue()


def curl(url: str, query: ApiQuery) -> str:
    """The query as a shell command; the token is a variable."""
    asked = _asked_of(f"{url.rstrip('/')}/api/v1/{query.path}", query.params)
    return f"curl -H \"Authorization: Bearer $MISSTEP_QUERY_TOKEN\" '{asked}'"


def address(base: str, filters: Filters) -> str:
    """The link to a view."""
    return _asked_of(base, tuple(filters.query().items()))


def _asked_of(base: str, params: tuple[tuple[str, str], ...]) -> str:
    return f"{base}?{urlencode(params)}" if params else base
