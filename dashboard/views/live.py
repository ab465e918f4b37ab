"""Live: what is happening right now?"""

import polars as pl
import streamlit as st

from dashboard import components, frames, tables, words
from dashboard.components import Page

NEWEST = 200
COLUMNS = ("time", "outcome", "tool", "error_class", "service", "session", "message", "event_id", "operation")


def body(page: Page) -> None:
    """The newest events; while one is selected the table stands still."""
    outcome = "error" if st.session_state.get("live-errors") else None
    chosen = {"outcome": outcome} if outcome else {}
    with components.part():
        rows = page.ask("events", limit=str(NEWEST), **chosen).pick(*COLUMNS)
        rows = rows.with_columns(shown_tool=pl.coalesce("tool", pl.col("operation").replace(frames.NO_TOOL)))
        if rows.is_empty():
            components.nothing(page, "events")
            return
        newest = rows["time"][0]
        st.caption(f"{words.plural(rows.height, 'event')}, the newest {words.age(newest, page.now, page.zone)}.")
        columns = {
            "time": tables.when("time", page),
            "outcome": tables.text("outcome", "small"),
            "shown_tool": tables.text("tool"),
            "error_class": tables.text("class", 190),
            "service": tables.text("service", "small"),
            "session": tables.text("session", "small"),
            "message": tables.text("message", "large"),
        }
        picked = tables.table(
            page, rows, columns, key="live", alt_text="The newest events.", select=True, rows_shown=22
        )
        if picked:
            components.event_card(page, picked)


page = components.open_page("live", "Live", "What is happening right now?")
with st.container(horizontal=True):
    paused = st.toggle("Pause", key="live-pause")
    st.toggle("Errors only", key="live-errors")
components.refreshing(body, page, 2.0, paused=paused)
