"""Live: what is happening right now?"""

from typing import Any

import polars as pl
import streamlit as st

from dashboard.data import frames
from dashboard.data.filters import Condition
from dashboard.page import Page, open_page, refreshing
from dashboard.parts import components, filter_bar, share, tables, words
from dashboard.parts.card import event_card

NEWEST = 200
EVERY_S = 2.0
COLUMNS = (
    "time", "outcome", "tool", "error_class", "service", "session", "message", "event_id", "operation", "fingerprint",
    "params", "suggestion", "duration_ms", "attribution", "classified_by", "attempt", "redactions", "target",
    "trace_id",
)  # fmt: skip


def body(page: Page) -> None:
    """The newest events; while one is selected, the table does not change, and a line says how many wait."""
    with components.part():
        rows, waiting = _tail(page)
        if rows.is_empty():
            components.nothing(page, "events")
            return
        age = words.age(rows["time"].max(), page.now, page.zone)  # type: ignore[arg-type]
        with st.container(horizontal=True, vertical_alignment="center"):
            components.quiet(f"{words.plural(rows.height, 'event')}, the newest {age}. Select one to see it in full.")
            if waiting:
                st.button(f"{waiting} new, show", key="live-show", on_click=_let_go)
        # In narrow windows, one column has both outcome and class.
        name, title = ("result", "outcome") if page.narrow else ("error_class", "class")
        columns = {
            "time": tables.when("time", page, day=not page.narrow),
            "outcome": tables.text("outcome", 80),
            "shown_tool": tables.text("tool", 130),
            name: tables.text(title, 175),
            "service": tables.text("service", 120),
            "session": tables.text("session", 130),
            "message": tables.text("message", 240 if page.narrow else 265),
        }
        shown = rows.with_columns(
            shown_tool=pl.coalesce("tool", pl.col("operation").replace(frames.NO_TOOL)),
            result=pl.coalesce("error_class", "outcome"),
        )
        picked = tables.table(
            page,
            shown,
            columns,
            key=_table(page),
            alt_text="The newest events.",
            select=True,
            rows_shown=20,
            wide=("outcome", "service", "session"),
        )
        if picked:
            event_card(page, picked)


def _tail(page: Page) -> tuple[pl.DataFrame, int]:
    """The newest events, including those that came since, and how many of these are not shown."""
    asked = page.filters.api()
    tail: dict[str, Any] = st.session_state.setdefault("live-tail", {})
    if tail.get("asked") != asked:
        answer = page.ask("events", limit=str(NEWEST))
        tail.update(asked=asked, rows=answer.pick(*COLUMNS), after=answer.rest["after"])
    else:
        answer = page.collector.ask("events", asked | {"after": tail["after"], "limit": "1000"}, max_age=1.0)
        share.remember("events", asked | {"limit": str(NEWEST)}, answer)
        if answer.rows.height:
            joined = pl.concat([answer.pick(*COLUMNS), tail["rows"]], how="vertical_relaxed").unique(
                "event_id", maintain_order=True
            )
            tail["rows"] = joined.sort("time", descending=True).head(NEWEST)
        tail["after"] = answer.rest["after"]
    rows: pl.DataFrame = tail["rows"]
    held = tables.held(page, _table(page))
    waiting = rows.join(held, on="event_id", how="anti").height if held is not None else 0
    return rows, waiting


def _table(page: Page) -> str:
    return f"live-{st.session_state.get('live-turn', 0)}"


def _let_go() -> None:
    """Shows the waiting events, in a new table without a selection."""
    st.session_state["live-turn"] = st.session_state.get("live-turn", 0) + 1


def _errors_only() -> None:
    filter_bar.go(filter_bar.from_link().set("outcome", ["error"] if st.session_state["live-errors"] else []))


def _pause() -> None:
    filter_bar.go(filter_bar.from_link().showing(refresh="0" if st.session_state["live-pause"] else ""))


page = open_page("live", "Live", "What is happening right now?")
with st.container(horizontal=True):
    st.toggle("Pause", **filter_bar.bind("live-pause", page.filters.state("refresh") == "0", _pause, label="visible"))
    only = page.filters.on("outcome") == Condition("outcome", ("error",))
    st.toggle("Errors only", **filter_bar.bind("live-errors", only, _errors_only, label="visible"))
refreshing(body, page, EVERY_S, paused=page.every is None)
