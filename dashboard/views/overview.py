"""Overview: is it better or worse than before, and what should be looked at first?"""

from datetime import timedelta
from typing import Any

import polars as pl
import streamlit as st

from dashboard import charts, components, headline, sentences, start, words
from dashboard.client import Problem
from dashboard.components import Page

ROWS = 6
SILENT = timedelta(hours=1)
FIRST_EVENT_S = 2.0  # how often an empty page looks for the first event


def body(page: Page) -> None:
    """The page under its filter bar."""
    totals: dict[str, Any] = {}
    with components.part():
        answer = page.ask("breakdown", measures="sessions", previous="true")
        totals = answer.first() | {"newest": answer.rest.get("newest")}
        if not totals.get("calls"):
            _empty(page, totals)
            return
        st.markdown(sentences.verdict(totals, words.span(page.filters.seconds or 0)))
        components.figures(page, headline.figures(page, totals))
    with components.part("Errors over time"):
        _over_time(page, totals)
    left, right = components.pair("overview-1")
    with left, components.part("Fix first", words.HELP["lasting errors"]):
        _fix_first(page)
    with right, components.part("Groups seen last"):
        _groups(page)
    left, right = components.pair("overview-2")
    with left, components.part("Whose turn is it", words.HELP["attribution"]):
        _turns(page)
    with right, components.part("Right now"):
        _now(page)


def _over_time(page: Page, totals: dict[str, Any]) -> None:
    rows, step = components.over_time(page)
    if not totals.get("errors"):
        st.caption(f"No errors in {words.plural(totals.get('calls'), 'call')}.")
        picture = charts.calls_over_time(rows, page.palette, page.span, step)
        components.chart(picture, "calls", "Calls over time, none failed.")
        return
    picture = charts.errors_over_time(rows.filter(pl.col("errors") > 0), page.palette, page.span, step, brush=True)
    components.brushed(page, picture, "errors", f"{words.plural(totals['errors'], 'error')} over time by category.")


def _fix_first(page: Page) -> None:
    rows = page.ask("retries", by="tool", operation="tool", sort="-lasting", limit=str(ROWS)).pick(
        "tool", "lasting", "errors"
    )
    rates = page.ask("breakdown", by="tool", operation="tool").pick("tool", "error_rate", "rated")
    rows = rows.filter(pl.col("tool").is_not_null()).join(rates, on="tool", how="left")
    for tool, lasting, errors, rate, rated in rows.iter_rows():
        facts = f"{words.count(lasting)} of {words.count(errors)} errors lasting · {words.rate_of(rate, rated)} calls"
        components.row(page, "tool", tool, facts, tool=tool)
    if rows.is_empty():
        st.caption("No tool failed.")
    else:
        components.sampled(page)


def _groups(page: Page) -> None:
    rows = page.ask("groups", sort="-last_seen", limit=str(ROWS))
    columns = ("fingerprint", "state", "error_class", "tool", "events", "last_seen")
    for fingerprint, state, name, tool, events, seen in rows.pick(*columns).iter_rows():
        where = [words.plain(tool, 24)] if tool else []
        new = ["new"] if state == "new" else []
        facts = " · ".join([*new, *where, words.plural(events, "event"), words.age(seen, page.now, page.zone)])
        components.row(page, "group", name or "", facts, fingerprint=fingerprint)
    if rows.rows.is_empty():
        st.caption("No group of errors in this range.")


def _turns(page: Page) -> None:
    rows = page.ask("breakdown", by="attribution", outcome="error").pick("attribution", "errors").drop_nulls()
    if rows.is_empty():
        st.caption("No errors: nobody's.")
        return
    total = components.total(rows, "errors")
    labels = [f"{words.count(errors)} · {words.rate(errors / total)}" for errors in rows["errors"]]
    first = rows.row(0)
    text = f"Most errors are the turn of the {first[0]}: {words.count(first[1])} of {words.count(total)}."
    components.chart(charts.share_bar(rows.with_columns(label=pl.Series(labels)), page.palette), "turns", text)


def _now(page: Page) -> None:
    open_streaks = page.ask("streaks", state="open", min_length="3", sort="-length", limit=str(ROWS)).rows
    for row in open_streaks.iter_rows(named=True):
        facts = f"open streak of {words.count(row['length'])} · since {words.age(row['started'], page.now, page.zone)}"
        components.row(page, "session", row["session"], facts, session=row["session"], service=row.get("service"))
    senders = page.ask("sources", **{"from": None}).pick("source", "service", "last_seen")
    names = pl.coalesce("service", "source").alias("who")
    last = senders.group_by(names, maintain_order=True).agg(pl.col("last_seen").max()).drop_nulls()
    silent = last.filter(page.now - pl.col("last_seen") > SILENT)
    for who, seen in silent.iter_rows():
        components.row(page, "sources", who, f"silent for {words.silence(seen, page.now)}")
    if open_streaks.is_empty() and silent.is_empty():
        st.caption("No streak of 3 or more is open and no sender is silent.")


def _empty(page: Page, totals: dict[str, Any]) -> None:
    if not totals["newest"]:
        start.show()
        return
    newest = components.moment(totals["newest"])
    st.info(f"Nothing in {components.period(page.filters)}. Last event: {words.age(newest, page.now, page.zone)}.")
    components.show_around(page, newest)


def _never_received(page: Page) -> bool:
    try:
        answer = page.collector.ask("breakdown")
    except Problem:
        return False
    return not answer.first().get("calls") and not answer.rest.get("newest")


page = components.open_page(
    "overview", "Overview", "Is it better or worse than before, and what should I look at first?"
)
components.refreshing(body, page, FIRST_EVENT_S if _never_received(page) else None)
