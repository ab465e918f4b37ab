"""One session: how it ended, what it cost, and what happened step by step."""

import polars as pl
import streamlit as st

from dashboard.data.client import MOST
from dashboard.page import Page, open_page, refreshing
from dashboard.parts import components, endings, session_story, words

WHO = ("service", "agent", "model")


def body(page: Page) -> None:
    """How it ended, its figures, the recorder, and one call in full."""
    session = page.filters.only("session")
    if not session:
        components.link(page, "sessions", "Choose a session on the Sessions page →")
        return
    with components.part():
        story = session_story.told(page, session)
        if story.index.is_empty():
            components.quiet("No event of this session is kept: it never existed, or retention has removed it.")
            components.link(page, "sessions", "Choose a session on the Sessions page →")
            return
        said = _summary(page, story)
        wanted = page.filters.state("event")
        at = story.order_of(wanted) if wanted else None
        if wanted and at is None:
            components.quiet("The event of the link is not in this session.")
        longest = {"kind": "mistake", "min_length": "2", "sort": "-length", "limit": MOST}
        streaks = page.ask("streaks", **session_story.whole(page) | longest).rows
        session_story.show(page, story, story.index, streaks, at or _first(story), said)


def _summary(page: Page, story: session_story.Story) -> str:
    """Shows how it ended, and returns that."""
    began = words.began(story.index["time"].min(), page.now, page.zone)  # type: ignore[arg-type]
    row = story.summary
    if not row:
        components.quiet(f"Several services have a session of this name · {began}")
        return f"{words.plural(story.index.height, 'call')} of several services."
    said = endings.ended(row, page.now)
    who = " · ".join(words.plain(row[name], 60) for name in WHO if row[name])
    components.quiet(" · ".join(filter(None, (who, began))))
    st.markdown(said)
    components.figures(page, endings.figures(row))
    if story.cut:
        components.quiet(f"The first {words.count(story.index.height)} calls are shown.")
    return said.replace("*", "")


def _first(story: session_story.Story) -> int:
    """The call to begin with: the one that the session ended in if it failed, else the first error, else the last."""
    row, errors = story.summary, story.index.filter(pl.col("outcome") == "error")["order"]
    ended = story.order_of(str(row["last_event_id"])) if row and row["last_outcome"] == "error" else None
    return ended or int(errors[0] if errors.len() else story.index["order"][-1])


page = open_page(
    "session", "Session", "How did it end, and what happened before?", bar="none",
    view={"event": None},
)  # fmt: skip
refreshing(body, page)
