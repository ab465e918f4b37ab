"""One session: what happened to this agent, step by step?"""

from datetime import datetime

import polars as pl
import streamlit as st

from dashboard.data.client import MOST
from dashboard.page import Page, open_page, refreshing
from dashboard.parts import components, sentences, session_story, words

WHO = ("service", "service_version", "agent", "model")


def body(page: Page) -> None:
    """Sentence, timeline, list, and one event in full."""
    session = page.filters.only("session")
    if not session:
        components.link(page, "sessions", "Choose a session on the Sessions page →")
        return
    st.subheader(words.plain(session), anchor=False)
    with components.part():
        rows, more = session_story.events(page, session)
        wanted = page.filters.state("event")
        near = {"", *rows["event_id"].head(session_story.MOST_EVENTS // 2)} if more else set()
        if more and wanted not in near and (since := session_story.before(page, wanted)):
            around, later = session_story.events(page, session, since)
            if around.height and wanted in around["event_id"]:
                rows, more = around, later
        if rows.is_empty():
            components.quiet("No event of this session is kept: it never existed, or retention has removed it.")
            components.link(page, "sessions", "Choose a session on the Sessions page →")
            return
        longest = {"kind": "mistake", "min_length": "2", "sort": "-length", "limit": MOST}
        answer = page.ask("streaks", **session_story.whole(page) | longest)
        streaks = answer.rows
        part = more or rows["order"][0] > 1
        whole = page.ask("breakdown", **session_story.whole(page)).first() if part else None
        said = sentences.session(rows, streaks, whole, more=answer.cut)
        began: datetime = whole["first_seen"] if whole else rows["time"].min()  # type: ignore[assignment]
        components.quiet(" · ".join(filter(None, (_who(rows), words.began(began, page.now, page.zone)))))
        st.markdown(said)
        if wanted not in {"", *rows["event_id"]}:
            components.quiet("The event of the link is not in this session.")
        if part:
            _pages(page, session, rows, more)
        session_story.show(page, rows, streaks, said)


def _pages(page: Page, session: str, rows: pl.DataFrame, more: bool) -> None:
    """Says which of the session's events are shown, with links to those around the first and the last of them."""
    first, last = rows.row(0, named=True), rows.row(-1, named=True)
    about = {"session": session, "service": page.filters.only("service") or None}
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(f"Shown: events {words.count(first['order'])} to {words.count(last['order'])}.", width="content")
        if first["order"] > 1:
            components.link(page, "session", "Earlier ones →", **about, event=str(first["event_id"]))
        if more:
            components.link(page, "session", "Later ones →", **about, event=str(last["event_id"]))


def _who(rows: pl.DataFrame) -> str:
    """Service, version, agent and model of the events, each once."""
    values = (rows[name].drop_nulls().unique(maintain_order=True) for name in WHO if name in rows.columns)
    return " · ".join(words.plain(", ".join(map(str, each)), 60) for each in values if len(each))


page = open_page("session", "Session", "What happened to this agent, step by step?", bar="none", view={"event": None})
refreshing(body, page)
