"""Marks on the time axis, such as deploys: on the charts, and where people add and remove them."""

from datetime import datetime
from typing import Any

import polars as pl
import streamlit as st

from dashboard.data.client import Problem, path
from dashboard.data.filters import rfc3339
from dashboard.page import Page
from dashboard.parts import words

MOST = 30  # in one chart; further ones would only cover each other
AGE_S = 10.0
COLUMNS = ("mark_id", "time", "text", "service", "version", "url")
_REFUSED = "marks-refused"


def rows(page: Page) -> pl.DataFrame:
    """The newest marks of the page's range, and of its service if it has one: `COLUMNS`, and `label`."""
    start, end = page.span
    asked = {"from": rfc3339(start), "to": rfc3339(end), "service": page.filters.only("service"), "sort": "-time"}
    try:
        found = page.ask_all("marks", {**asked, "limit": str(MOST)}, AGE_S).pick(*COLUMNS)
    except Problem:
        found = pl.DataFrame(schema={**dict.fromkeys(COLUMNS, pl.String), "time": pl.Datetime("ns", "UTC")})
    labels = [_label(row) for row in found.iter_rows(named=True)]
    return found.with_columns(label=pl.Series(labels, dtype=pl.String)).sort("time")


def _label(row: dict[str, Any]) -> str:
    """What is marked, with whose it is, where the text does not say so itself."""
    beside = (word for word in (row["service"], row["version"]) if word and word not in row["text"])
    return words.line(" ".join([row["text"], *beside]))


def on_axis(page: Page, others: pl.DataFrame | None = None) -> pl.DataFrame:
    """Marks as charts draw them, with others: `time`, `label`, and `about` for the tooltip."""
    mine = rows(page).select("time", "label", about="label")
    both = mine if others is None else pl.concat([mine, others], how="diagonal_relaxed")
    return page.drawn(both.sort("time"))


def manage(page: Page) -> None:
    """Where the marks of the range are listed, added and removed."""
    with st.popover("Marks", key="marks"):
        with st.form("mark-form", border=False, clear_on_submit=True):
            st.text_input("Mark this moment", max_chars=500, key="mark-text", placeholder="the new prompt is out")
            st.form_submit_button("Add", on_click=_add, args=(page,))
        for row in rows(page).sort("time", descending=True).iter_rows(named=True):
            _listed(page, row)
        st.caption("Deploys come from CI: docs/api.md has the line.")
    if refused := st.session_state.pop(_REFUSED, ""):
        st.caption(refused)


def _listed(page: Page, row: dict[str, Any]) -> None:
    at: datetime = row["time"]
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(f"{words.clock(at, page.zone, now=page.now)} {words.plain(row['label'], 100)}", width="stretch")
        if str(row["url"] or "").startswith("https://"):
            st.link_button("↗", row["url"], type="tertiary", help="Open what the mark links to")
        removing: tuple[Any, ...] = (page, "DELETE", path("marks", row["mark_id"]), {})
        st.button("Remove", key=f"unmark-{row['mark_id']}", type="tertiary", on_click=_change, args=removing)


def _add(page: Page) -> None:
    _change(page, "POST", "marks", {"text": st.session_state["mark-text"], "service": page.filters.only("service")})


def _change(page: Page, method: str, place: str, said: dict[str, str]) -> None:
    try:
        page.collector.change(method, place, said)
    except Problem as problem:
        st.session_state[_REFUSED] = words.plain(problem.sentence, 300)
