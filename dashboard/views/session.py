"""One session: what happened to this agent, step by step?"""

import polars as pl
import streamlit as st

from dashboard import components, sentences, story, words
from dashboard.components import Page

WHO = ("service", "service_version", "agent", "model")


def body(page: Page) -> None:
    """Sentence, timeline, list, and one event in full."""
    session = page.filters.only("session")
    if not session:
        components.link(page, "sessions", "Choose a session on the Sessions page →")
        return
    st.subheader(words.plain(session), anchor=False)
    with components.part():
        rows, more = story.events(page, session)
        if rows.is_empty():
            components.quiet("No event of this session is kept: it never existed, or retention has removed it.")
            components.link(page, "sessions", "Choose a session on the Sessions page →")
            return
        streaks = page.ask("streaks", kind="mistake", min_length="2", **story.whole(page)).rows
        said = sentences.session(rows, streaks)
        components.quiet(_who(rows))
        st.markdown(said)
        if more:
            components.quiet(f"The first {story.MOST_EVENTS} events.")
        story.show(page, rows, streaks, said)


def _who(rows: pl.DataFrame) -> str:
    """Service, version, agent and model of the events, each once."""
    values = (rows[name].drop_nulls().unique(maintain_order=True) for name in WHO if name in rows.columns)
    return " · ".join(words.plain(", ".join(map(str, each)), 60) for each in values if len(each))


page = components.open_page("session", "Session", "What happened to this agent, step by step?", bar="none")
components.refreshing(body, page)
