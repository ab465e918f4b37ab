"""One session step by step: its timeline, its list of events, and the selected event."""

from datetime import datetime
from typing import Any

import polars as pl
import streamlit as st

from dashboard.charts import attempts
from dashboard.data import frames
from dashboard.data.client import Problem, path
from dashboard.data.filters import EVER
from dashboard.menu import SUBJECTS
from dashboard.page import Page
from dashboard.parts import components, tables, words
from dashboard.parts.card import event_card

MOST_EVENTS = 1000
SCOPES, KINDS = ("session", "tool", "target"), ("mistake", "error", "denied")  # of streaks


def whole(page: Page) -> dict[str, str | None]:
    """What queries about a session override: it is told whole, whatever filters the link brought from another page."""
    others = (condition.dimension for condition in page.filters.conditions)
    return {"from": EVER, "to": None, "q": None} | {name: None for name in others if name not in SUBJECTS["session"]}


def events(page: Page, session: str, since: datetime | None = None) -> tuple[pl.DataFrame, bool]:
    """The events of a session in order, from its first or from a time on, and whether later ones are left out.

    Each has its place in the whole session as `order`.
    """
    span = {"from": since.isoformat()} if since else {}
    asking = page.later("breakdown", **whole(page) | {"to": since.isoformat()}) if since else None
    answer = page.ask(path("sessions", session), limit=str(MOST_EVENTS), **whole(page) | span | {"session": None})
    if answer.rows.is_empty():
        return answer.rows, False
    before = int(asking().first().get("calls") or 0) if asking else 0
    return frames.ordered(answer.rows, before), bool(answer.rest.get("next"))


def before(page: Page, event: str) -> datetime | None:
    """The time from which on to show events, so that as many before as after this one are among them; None if there is
    no such event.
    """
    try:
        at: datetime | None = page.ask_all(path("events", event)).first().get("time")
    except Problem as problem:
        if problem.state in {"away", "token", "slow"}:
            raise
        at = None
    if at is None:
        return None
    earlier = page.ask("events", limit=str(MOST_EVENTS // 2), **whole(page) | {"to": at.isoformat()}).pick("time")
    first: datetime | None = earlier["time"].min()  # type: ignore[assignment]
    return first or at


def show(page: Page, rows: pl.DataFrame, streaks: pl.DataFrame, said: str) -> None:
    """Shows these ordered events as a timeline and a list, and the selected one in full."""
    key = f"at-{page.name}-{components.key_of(page)}-{page.filters.state('event')}"
    picture = attempts.session_line(_marks(rows), page.palette, frames.brackets(rows, streaks), small=page.small)
    clicked = components.clicked(picture, f"line-{key}", said)
    if rows["outcome"].eq("error").any():
        components.quiet("Lines under the calls join an error with its retry; bars above span mistakes in a row.")
    left, right = components.pair("session-detail")
    with left:
        picked = _steps(page, rows)
    # The last click counts: in the timeline, in the list, or on an arrow.
    for source, order in (("line", clicked and clicked.get("order")), ("list", picked and picked["order"])):
        if order != st.session_state.get(f"{key}-{source}"):
            st.session_state[f"{key}-{source}"] = order
            if order is not None:
                st.session_state[key] = int(str(order))
    places = rows["order"].to_list()
    if st.session_state.get(key) not in places:
        st.session_state[key] = _first(page, rows)
    at = int(st.session_state[key])
    with right:
        _arrows(rows, at, key)
        event_card(page, rows.row(places.index(at), named=True), rows)


def _first(page: Page, rows: pl.DataFrame) -> int:
    wanted = page.filters.state("event")
    asked = rows.filter(pl.col("event_id") == wanted) if wanted else rows.filter(pl.col("outcome") == "error")
    return int((asked if asked.height else rows)["order"][0])


def _arrows(rows: pl.DataFrame, at: int, key: str) -> None:
    errors = rows.filter(pl.col("outcome") == "error")["order"].to_list()
    before = [order for order in errors if order < at]
    after = [order for order in errors if order > at]

    def go(order: int) -> None:
        st.session_state[key] = order

    with st.container(horizontal=True, vertical_alignment="center"):
        st.button("← error", key=f"{key}-back", disabled=not before, on_click=go, args=(before[-1] if before else at,))
        st.button("error →", key=f"{key}-on", disabled=not after, on_click=go, args=(after[0] if after else at,))
        components.quiet(f"call {at}")


def _marks(rows: pl.DataFrame) -> pl.DataFrame:
    tool = pl.coalesce("tool", pl.col("operation").replace(frames.NO_TOOL)).str.slice(0, 40)
    about = pl.col("error_class").fill_null("").alias("about")
    marks = rows.select("order", tool.alias("tool"), "outcome", about, frames.again(rows))
    return marks.with_columns(lane=pl.Series(frames.lanes(marks), dtype=pl.Int64))


def _steps(page: Page, rows: pl.DataFrame) -> dict[str, Any] | None:
    shown = rows.with_columns(
        tool=pl.coalesce("tool", pl.col("operation").replace(frames.NO_TOOL)),
        result=pl.coalesce("error_class", "outcome"),
        duration_ms=pl.Series([words.duration(ms) for ms in rows["duration_ms"]], dtype=pl.String),
    )
    columns = {
        "order": tables.number("call", width=45), "time": tables.when("time", page, day=False),
        "tool": tables.text("tool", 125), "result": tables.text("outcome", 175),
        "duration_ms": tables.text("took", 65),
    }  # fmt: skip
    return tables.table(page, shown, columns, key="steps", alt_text="The events in order.", select=True, rows_shown=14)
