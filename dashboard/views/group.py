"""Group: what is this error, and what do I do about it?"""

from typing import Any

import streamlit as st

from dashboard import charts, components, words
from dashboard.client import path
from dashboard.components import Page

DIMENSIONS = {"tool": "tools", "model": "models", "service_version": "versions", "agent": "agents"}
SAMPLES = 3
EVER = "1970-01-01T00:00:00Z"


def body(page: Page) -> None:
    """Header, advice, where it happens, samples."""
    fingerprint = page.filters.only("fingerprint")
    if not fingerprint:
        st.caption("Choose a group on the Errors page.")
        return
    group: dict[str, Any] = {}
    with components.part():
        group = page.ask("groups").first()
        if not group:  # not in this range: what it ever was
            group = page.collector.ask(path("groups", fingerprint)).first()
        _header(page, group)
    if not group:
        return
    left, right = components.pair("group-1")
    with left, components.part("Advice"):
        _advice(page)
    with right, components.part("Where"):
        _where(page)
    with components.part("When"):
        rows, step = components.over_time(page)
        if rows.is_empty():
            components.nothing(page, "errors")
        else:
            picture = charts.errors_over_time(rows, page.palette, page.axis, step)
            components.chart(picture, "when", "Errors of this group over time.")
    with components.part("Newest samples"):
        for row in page.ask("events", limit=str(SAMPLES)).rows.iter_rows(named=True):
            components.event_card(page, row)


def _header(page: Page, group: dict[str, Any]) -> None:
    tool = f" in **{words.plain(group['tool'])}**" if group.get("tool") else ""
    st.markdown(f"**{words.plain(group.get('error_class'))}**{tool} · {group.get('state') or ''}")
    st.text(group.get("template") or group.get("sample") or "")
    first, last = group.get("first_seen"), group.get("last_seen")
    items = [
        components.Figure("Events", words.count(group.get("events"))),
        components.Figure("Sessions", words.count(group.get("sessions"))),
        components.Figure("Spread", words.rate(group.get("spread")), words.HELP["spread"]),
        components.Figure("First seen", words.age(first, page.now, page.zone)),
        components.Figure("Last seen", words.age(last, page.now, page.zone)),
    ]
    components.figures(page, items)


def _advice(page: Page) -> None:
    event = page.ask("events", limit="1", **{"from": EVER, "to": None}).first()
    if turn := event.get("attribution"):
        st.markdown(f"Whose turn: **{words.plain(turn)}**", help=words.HELP["attribution"])
    told = event.get("retryable_declared")
    declared = "the agent does not say" if told is None else "yes" if told else "no"
    retries = page.ask("retries").first()
    observed = words.rate_of(retries.get("recovery_rate"), retries.get("rated"))
    st.markdown(
        f"Retryable, declared: **{declared}** · observed: **{observed}**", help=words.HELP["retryable, observed"]
    )
    if by := event.get("classified_by"):
        st.markdown(f"Classified by: {words.plain(by)}")
    if event.get("suggestion"):
        st.caption("What helps the model:")
        st.code(event["suggestion"], language=None, wrap_lines=True)


def _where(page: Page) -> None:
    total = page.ask("breakdown").first().get("errors") or 0
    for dimension, many in DIMENSIONS.items():
        rows = page.ask("breakdown", by=dimension, limit="5").pick(dimension, "errors").drop_nulls()
        said = [
            f"{words.plain(str(name), 40)} {words.rate(errors / total)}" for name, errors in rows.iter_rows() if total
        ]
        if said:
            st.markdown(f":gray[{many}] \u2002 {' · '.join(said)}")


page = components.open_page("group", "Group", "What is this error, and what do I do about it?")
components.refreshing(body, page)
