"""Errors: what goes wrong, and is it new?"""

import streamlit as st

from dashboard import charts, components, frames, tables, words
from dashboard.components import Page


def body(page: Page) -> None:
    """Chart, tree and group stream."""
    with components.part("Errors over time"):
        rows, step = components.over_time(page, outcome="error")
        if rows.is_empty():
            components.nothing(page, "errors")
            return
        picture = charts.errors_over_time(rows, page.palette, page.axis, step, brush=True)
        text = f"{words.plural(components.total(rows, 'errors'), 'error')} over time by category."
        components.brushed(page, picture, "errors", text)
        components.sampled(page)
    with components.part("By class"):
        _tree(page)
    with components.part("Groups", words.HELP["spread"]):
        _groups(page)


def _tree(page: Page) -> None:
    rows = page.ask("breakdown", by=",".join(frames.LEVELS), outcome="error", limit="1000").pick(
        *frames.LEVELS, "errors"
    )
    columns = {
        "name": tables.text("domain, category, class", "large"),
        "errors": tables.number("errors"),
        "share": tables.share("share of errors"),
    }
    picked = tables.table(
        page, frames.tree(rows), columns, key="tree", alt_text="Errors by domain, category and class.", select=True
    )
    if picked:
        query = {picked["dimension"]: picked["value"]}
        components.link(page, "errors", f"Only {words.plain(picked['value'])} →", **query)


def _groups(page: Page) -> None:
    state = st.segmented_control("State", ["new", "ongoing"], key="groups-state", label_visibility="collapsed")
    chosen = {"state": state} if state else {}
    answer = page.ask("groups", limit="500", **chosen)
    names = (
        "state", "error_class", "template", "tool", "events", "sessions", "spread", "last_seen", "fingerprint",
    )  # fmt: skip
    rows = answer.pick(*names, "sample")
    if rows.is_empty():
        components.nothing(page, "groups")
        return
    columns = {
        "state": tables.text("state", "small"),
        "error_class": tables.text("class", 180),
        "template": tables.text("message", 270),
        "tool": tables.text("tool", 120),
        "events": tables.number("events"),
        "sessions": tables.number("sessions"),
        "spread": tables.share("spread", words.HELP["spread"], width=110),
        "last_seen": tables.when("last seen", page),
    }
    picked = tables.table(
        page, rows, columns, key="groups", alt_text=f"{rows.height} groups of equal errors.", select=True
    )
    if picked:
        with st.container(border=True):
            st.text(picked["sample"] or picked["template"] or "")
            components.link(page, "group", "Open the group →", fingerprint=picked["fingerprint"])
    else:
        st.caption("Select a row to see its newest message and open its page.")


page = components.open_page("errors", "Errors", "What goes wrong, and is it new?")
components.refreshing(body, page)
