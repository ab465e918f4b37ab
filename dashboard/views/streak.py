"""One streak: what went wrong again and again, and what ended it?"""

from datetime import datetime
from typing import Any

import polars as pl
import streamlit as st

from dashboard.data.client import MOST
from dashboard.page import Page, open_page, refreshing
from dashboard.parts import components, sentences, session_story, words


def body(page: Page) -> None:
    """The part of the session with the streak and what ended it."""
    session, started = page.filters.only("session"), page.filters.state("started")
    if not session:
        components.link(page, "streaks", "Choose a streak on the Streaks page →")
        return
    with components.part():
        scope, kind = page.filters.state("scope", "session"), page.filters.state("kind", "mistake")
        asked = {"scope": scope, "kind": kind, "sort": "-length", "limit": MOST}
        streaks = page.ask("streaks", **session_story.whole(page) | asked).rows
        if streaks.is_empty():
            components.quiet(f"Session {words.plain(session, 60)} has no such streak.")
            components.link(page, "streaks", "Choose a streak on the Streaks page →")
            return
        same = streaks.filter(pl.Series([begun == _moment(started) for begun in streaks["started"]]))
        streak = (same if same.height else streaks).row(0, named=True)
        st.subheader(f"{words.count(streak['length'])} in a row", anchor=False)
        components.quiet(words.began(streak["started"], page.now, page.zone))
        st.markdown(sentences.streak(streak))
        if started and same.is_empty():
            components.quiet("No streak of this session began when the link says: this is its longest.")
        story = session_story.told(page, session, "tool", "target")
        part = _part(story.index, streak) if story.index.height else story.index
        if part.is_empty():
            components.quiet("Its events are no longer kept.")
            return
        at = story.order_of(page.filters.state("event")) or 0
        at = at if at in part["order"] else int(part["order"][0])
        session_story.show(page, story, part, same if same.height else streaks.head(1), at, sentences.streak(streak))
        components.link(page, "session", "The whole session →", **components.session_of(streak))


def _moment(text: str) -> datetime | None:
    """A time of the link, as the page or the API writes it; None if it is none."""
    try:
        return components.moment(text)
    except ValueError:
        return None


def _part(rows: pl.DataFrame, streak: dict[str, Any]) -> pl.DataFrame:
    """The calls from the first mistake of the streak to what ended it."""
    return rows.filter(pl.col("time").dt.cast_time_unit("us").is_between(streak["started"], _last(rows, streak)))


def _last(rows: pl.DataFrame, streak: dict[str, Any]) -> datetime:
    """The time of the success that ended the streak, or else of its last mistake."""
    ended: datetime = streak["ended"]
    if streak["state"] != "recovered":
        return ended
    good = (pl.col("time") > ended) & (pl.col("operation") == "tool") & (pl.col("outcome") == "ok")
    for name in ("tool", "target"):
        if streak["scope"] == name:
            good &= pl.col(name).eq_missing(pl.lit(streak[name]))
    after = rows.filter(good)
    return after["time"][0] if after.height else ended


page = open_page(
    "streak", "Streak", "What went wrong again and again, and what ended it?", bar="none",
    named=lambda page: f"Streak in {page.filters.only('session')}",
    view={"event": None, "started": None, "scope": session_story.SCOPES, "kind": session_story.KINDS},
)  # fmt: skip
refreshing(body, page)
