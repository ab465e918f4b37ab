"""One session: what happened to this agent, step by step?"""

import polars as pl
import streamlit as st

from dashboard import charts, components, frames, sentences, tables, words
from dashboard.client import path
from dashboard.components import Page

MOST_EVENTS = 1000
EVER = "1970-01-01T00:00:00Z"


def body(page: Page) -> None:
    """Sentence, timeline, list, and one event in full."""
    session = page.filters.only("session")
    if not session:
        components.quiet("Choose a session on the Sessions page.")
        return
    st.subheader(words.plain(session), anchor=False)
    with components.part():
        about = {"service": page.filters.only("service") or None, "session": None, "from": EVER, "to": None}
        answer = page.ask(path("sessions", session), limit=str(MOST_EVENTS), **about)
        rows = answer.rows
        if rows.is_empty():
            components.quiet("No event of this session is kept.")
            return
        streaks = page.ask("streaks", kind="mistake", min_length="2", **{"from": EVER, "to": None}).rows
        st.markdown(sentences.session(rows, streaks))
        if answer.rest.get("next"):
            components.quiet(f"The first {MOST_EVENTS} events.")
        rows = frames.ordered(rows)
        picture = charts.session_line(_marks(rows), page.palette, frames.brackets(rows, streaks))
        components.chart(picture, "session-line", sentences.session(rows, streaks))
        _steps(page, rows)


def _marks(rows: pl.DataFrame) -> pl.DataFrame:
    tool = pl.coalesce("tool", pl.col("operation").replace(frames.NO_TOOL)).str.slice(0, 40)
    return rows.select("order", tool.alias("tool"), "outcome", pl.col("error_class").fill_null("").alias("about"))


def _steps(page: Page, rows: pl.DataFrame) -> None:
    names = ("order", "time", "outcome", "tool", "error_class", "target", "duration_ms", "message")
    shown = rows.with_columns(
        tool=pl.coalesce("tool", pl.col("operation").replace(frames.NO_TOOL)),
        duration_ms=pl.Series([words.duration(ms) for ms in rows["duration_ms"]]),
    )
    columns = dict(zip(names, (
        tables.number("call"), tables.when("time", page), tables.text("outcome", "small"), tables.text("tool"),
        tables.text("class", 190), tables.text("target"), tables.text("took", "small"), tables.text("message", "large"),
    ), strict=True))  # fmt: skip
    wanted = page.filters.state("event")
    left, right = components.pair("session-detail")
    with left:
        picked = tables.table(
            page, shown, columns, key="steps", alt_text="The events in order.", select=True, rows_shown=14
        )
    asked = rows.filter(pl.col("event_id") == wanted) if wanted else rows.filter(pl.col("outcome") == "error")
    chosen = picked or (asked if asked.height else rows).row(0, named=True)
    with right:
        components.event_card(page, chosen)


page = components.open_page("session", "Session", "What happened to this agent, step by step?", bar="none")
components.refreshing(body, page)
