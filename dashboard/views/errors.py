"""Errors: what goes wrong, and is it new?"""

import polars as pl
import streamlit as st

from dashboard.charts import charts
from dashboard.data import frames
from dashboard.data.client import MOST
from dashboard.page import Page, open_page, refreshing
from dashboard.parts import components, tables, words

STATES = ("new", "regressed", "ongoing", "resolved")
SORTS = {"last_seen": "last seen", "events": "events", "sessions": "sessions", "lasting": "lasting", "growth": "growth"}
GROUPS = 500  # that are asked for at once
NAMES = (
    "state", "error_class", "template", "tool", "trend", "events", "sessions", "spread", "recovery_rate", "rated",
    "lasting", "not_known_yet", "growth", "first_seen", "last_seen", "fingerprint", "sample",
)  # fmt: skip


def body(page: Page) -> None:
    """Chart, tree of classes, and list of groups."""
    with components.part("Errors over time"):
        rows, step = components.over_time(page, outcome="error")
        if rows.is_empty():
            components.nothing(page, "errors")
            return
        picture = charts.errors_over_time(rows, page.palette, page.axis, step, narrow=page.narrow, small=page.small)
        text = f"{words.plural(components.total(rows, 'errors'), 'error')} over time by category."
        components.brushed(page, picture, "errors", text)
        components.sampled(page)
    components.beside("Groups", _groups, page, help=words.HELP["spread"])
    components.beside("By domain, category and class", _tree, page)


def _tree(page: Page) -> None:
    rows = page.ask("breakdown", by=",".join(frames.LEVELS), outcome="error", limit=MOST).pick(*frames.LEVELS, "errors")
    columns = {
        "name": tables.text("domain, category, class", 260),
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
    asked = {"limit": str(GROUPS), "measures": "recovery_rate"}
    rows = page.ask("groups", **asked).pick(*NAMES)
    if rows.is_empty():
        components.nothing(page, "groups")
        return
    counts = dict(rows.group_by("state").len().iter_rows())
    with st.container(horizontal=True, vertical_alignment="bottom"):
        more = "+" if rows.height == GROUPS else ""
        labels = {"all": f"All {rows.height}{more}"}
        for state in STATES:  # that none is among some of the groups does not tell how many there are
            number = f" {counts.get(state, 0)}{more}" if state in counts or not more else ""
            labels[state] = state.capitalize() + number
        state = components.switch(page, "state", "State", list(labels), labels)
        order = components.switch(page, "sort", "Sort by", list(SORTS), SORTS)
    if more:  # the first of all groups in this order, which need not be among those seen last
        rows = page.ask("groups", sort=f"-{order}", state=None if state == "all" else state, **asked).pick(*NAMES)
    rows = (rows if state == "all" else rows.filter(pl.col("state") == state)).sort(
        order, descending=True, nulls_last=True
    )
    if rows.is_empty():
        components.quiet(f"No group is {state}.")
        return
    _listed(page, _in_words(page, rows), state, order)


def _in_words(page: Page, rows: pl.DataFrame) -> pl.DataFrame:
    said = {
        "spread_words": [words.rate(share) for share in rows["spread"]],
        "first": [words.elapsed(moment, page.now) for moment in rows["first_seen"]],
        "last": [words.elapsed(moment, page.now) for moment in rows["last_seen"]],
    }
    texts = (pl.Series(name, each, dtype=pl.String) for name, each in said.items())
    return rows.with_columns(frames.rates(rows, "recovery", "recovery_rate", "rated"), *texts)


_LASTING = {
    "lasting": tables.number("lasting", words.HELP["lasting errors"], width=55),
    "not_known_yet": tables.number("not known yet", words.HELP["lasting errors"], width=90),
}


def _listed(page: Page, shown: pl.DataFrame, state: str, order: str) -> None:
    columns = {
        "state": tables.text("state", 65),
        "error_class": tables.text("class", 175),
        "template": tables.text("message", 210),
        "tool": tables.text("tool", 125),
        "trend": tables.trend("trend"),
        "events": tables.number("events", width=50),
        "sessions": tables.number("sessions", width=60),
        "spread_words": tables.text("spread", 55, words.HELP["spread"]),
        "recovery": tables.text("recovery", 115, words.HELP["recovery"]),
        **(_LASTING if order == "lasting" else {}),
        "first": tables.text("first", 55, "How long ago it was seen for the first time."),
        "last": tables.text("last", 55, "How long ago it was seen last."),
    }
    text = f"{words.plural(shown.height, 'group')} of equal errors; first: {shown['error_class'][0]}."
    picked = tables.table(page, shown, columns, key=f"groups-{state}-{order}", alt_text=text, select=True,
                          wide=("state", "trend", "sessions", "spread_words", "recovery", "first"))  # fmt: skip
    if picked:
        with st.container(border=True):
            st.text(picked["sample"] or picked["template"] or "")
            components.link(page, "group", "Open the group →", fingerprint=picked["fingerprint"])
    else:
        components.quiet("Select a row to see its newest message and open its page.")


page = open_page("errors", "Errors", "What goes wrong, and is it new?", view={"state": ("all", *STATES), "sort": SORTS})
refreshing(body, page)
