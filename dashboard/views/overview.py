"""Overview: is it better or worse than before, and what should be looked at first?"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import polars as pl
import streamlit as st

from dashboard import start
from dashboard.charts import charts, proportions
from dashboard.data import frames
from dashboard.data.client import MOST
from dashboard.data.filters import escaped
from dashboard.page import Page, open_page, refreshing
from dashboard.parts import (
    change_list,
    components,
    filter_bar,
    fresh_rows,
    headline,
    link_table,
    seen_before,
    sentences,
    time_marks,
    words,
)

ROWS = 6
FRESH = ("new", "regressed")
GROUPS = 500  # that are asked for at once
SILENT = timedelta(hours=1)
LONG = 3  # mistakes in a row
RECENT = timedelta(hours=24)  # storms that ended earlier are not shown
FIRST_EVENT_S = 1.0  # how often an empty page looks for the first event
TEMPLATE, LEAST = 60, 16  # characters of a message, at most and at least
LINE, SHORT_LINE = 150, 88  # characters of a row, in a wide and in a narrow window
VERSIONS = 12  # marks at most; more would hide the bars


def body(page: Page) -> None:
    """The page below its filter bar."""
    now: dict[str, Any] = {}
    with components.part():
        now = headline.totals(page)
        if page.filters.state("setup") and (now.get("calls") or now["newest"]):
            start.checklist(page)
        if not now.get("calls"):
            _empty(page, now)
            return
    if not now:
        return
    components.beside("", _headline, page, now)
    components.beside("", _cost, page)
    components.beside("Errors over time", _over_time, page, now)
    left, right = components.pair("overview")
    with left:
        components.beside("Fix first", _fix_first, page, help=words.HELP["lasting errors"])
    with right:
        components.beside("What changed", _changes, page, now, help=change_list.ORDER)
    components.beside("New and regressed groups", _groups, page, help=words.HELP["spread"])
    components.beside("Whose turn is it", _turns, page, help=words.HELP["attribution"])
    components.beside("Right now", _now, page)


def _headline(page: Page, now: dict[str, Any]) -> None:
    """Better or worse in a sentence, the figures, and then the sentence again with what explains most of the change."""
    both = headline.against(page)
    known = headline.comparable(page, now)
    now = now | {"verdict": both[headline.measured(page)]["verdict"] if known else None}
    with st.container(horizontal=True, vertical_alignment="center"):
        said = st.empty()
        said.markdown(headline.verdict(page, now))
        if known:
            components.link(page, "changes", "What changed →")
        accused = st.empty()
    components.figures(page, headline.figures(page, now, both))
    components.reconciled(page, now)
    if sentences.clear(now):
        most, version = headline.most(page, now)
        said.markdown(headline.verdict(page, now, most))
        if version:
            with accused:
                label = f"Compare {words.plain(version, 40)} with the version before →"
                components.link(page, "compare", label, by="version", b=escaped(version))


def _cost(page: Page) -> None:
    if said := sentences.failing_cost(page.ask("costs").first()):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(said, width="content")
            components.link(page, "retries", "What it was spent on →")


def _over_time(page: Page, now: dict[str, Any]) -> None:
    if not now.get("errors"):
        rows, step = components.over_time(page)
        components.quiet(f"No errors in {words.plural(now.get('calls'), 'call')}.")
        picture = charts.calls_over_time(rows, page.palette, page.axis, step)
        components.chart(picture, "calls", "Calls over time, none failed.")
        return
    asking = page.later("timeseries", **headline.series(page, now))
    versions = seen_before.versions(page)
    rows, step = components.over_time(page)
    totals = asking().pick("time", "error_rate", "rated", "previous_errors")
    past = totals.select("time", "previous_errors")
    before = page.drawn(frames.filled(past, step, page.span)) if now.get("previous_errors") else None
    deploys = frames.deploys(versions(), page.span[0], step, VERSIONS)
    picture = charts.errors_over_time(
        rows.filter(pl.col("errors") > 0), page.palette, page.axis, step,
        rates=None if page.filters.of_failures else page.drawn(link_table.with_rate_words(totals)), before=before,
        deploys=time_marks.on_axis(page, deploys), narrow=page.narrow, small=page.small,
    )  # fmt: skip
    components.brushed(page, picture, "errors", f"{words.plural(now['errors'], 'error')} over time by category.")
    line = f" The grey line is the {words.span(page.length)} before." if before is not None else ""
    components.quiet(f"Drag over the bars to zoom, click a category to filter.{line}")
    time_marks.manage(page)


def _fix_first(page: Page) -> None:
    calls = page.later("breakdown", by="tool", operation="tool", limit=MOST)
    retries = page.ask("retries", by="tool", operation="tool", sort=components.LASTING_FIRST, limit=str(ROWS))
    rows, rates = retries.pick("tool", *components.LASTING), calls().pick("tool", "error_rate", "rated", "errors")
    failed = rates["errors"].sum()
    rates = rates.drop("errors")
    rows = rows.filter(pl.col("tool").is_not_null()).join(rates, on="tool", how="left", maintain_order="left")
    for tool, *lasting, rate, rated in rows.iter_rows():
        facts = words.lasting(*lasting, short=True)
        facts += "" if page.filters.of_failures else f" · {words.rate_of(rate, rated)} failed"
        components.row(page, "tool", tool, facts, limit=components.HALF_WIDTH, tool=tool)
    if rows.is_empty() and failed:
        components.quiet("No error of a tool has a session, so that nobody knows which of them last.")
        components.link(page, "tools", "Tools by their error rates →")
    elif rows.is_empty():
        components.quiet("No tool failed.")
    else:
        components.sampled(page)


def _changes(page: Page, now: dict[str, Any]) -> None:
    if not headline.comparable(page, now):
        change_list.nothing_before(page)
        return
    verdict = headline.against(page)[headline.measured(page)]["verdict"]
    rows = change_list.rows(page, change_list.ACTS, verdict).head(ROWS)
    change_list.listed(page, rows, limit=components.HALF_WIDTH)
    if rows.is_empty():
        components.quiet(change_list.nothing(verdict))


def _groups(page: Page) -> None:
    columns = ("fingerprint", "state", "error_class", "tool", "events", "spread", "first_seen", "last_seen", "template")
    rows = page.ask("groups", sort="-last_seen", limit=str(GROUPS)).pick(*columns)
    more = "+" if rows.height == GROUPS else ""
    if more:
        rows = page.ask("groups", sort="-events", limit=str(GROUPS)).pick(*columns)
    fresh = rows.filter(pl.col("state").is_in(FRESH)).sort("events", descending=True)
    for row in fresh.head(ROWS).iter_rows(named=True):
        name = row["error_class"] or ""
        components.row(page, "group", name, _about_group(page, row), fingerprint=row["fingerprint"])
    if rows.is_empty():
        components.quiet("No errors.")
    elif fresh.is_empty():
        components.quiet(f"Nothing new: {words.plural(rows.height, 'group')} went on.")
    elif fresh.height > ROWS:
        with st.container(horizontal=True):
            for state in FRESH:
                if count := fresh["state"].eq(state).sum():
                    components.link(page, "errors", f"All {count}{more} {state} →", state=state)


def _about_group(page: Page, row: Mapping[str, Any]) -> str:
    """A group in one line: how new it is, its tool, how often and when, and as much of its text as fits."""
    facts = [f"{fresh_rows.FRESH} {row['state']}" if fresh_rows.is_fresh(page, row["first_seen"]) else row["state"]]
    if row["tool"]:
        facts.append(words.plain(row["tool"], 24))
    facts += [words.plural(row["events"], "event"), words.age(row["last_seen"], page.now, page.zone)]
    if row["spread"] is not None and row["tool"] and not page.narrow:
        facts.append(f"spread {words.rate(row['spread'])}")
    if row["template"]:
        taken = len(row["error_class"] or "") + sum(len(fact.replace("\\", "")) + 3 for fact in facts)
        room = (SHORT_LINE if page.narrow else LINE) - taken
        facts.append(words.plain(row["template"], min(max(room, LEAST), TEMPLATE)))
    return " · ".join(facts)


def _turns(page: Page) -> None:
    rows = page.ask("breakdown", by="attribution", outcome="error").pick("attribution", "errors").drop_nulls()
    if rows.is_empty():
        components.quiet("No errors: nobody's.")
        return
    total = components.total(rows, "errors")
    labels = [f"{words.count(errors)} · {words.rate(errors / total)}" for errors in rows["errors"]]
    first = rows.row(0)
    text = f"Most errors are the turn of the {first[0]}: {words.count(first[1])} of {words.count(total)}."
    picture = proportions.share_bar(rows.with_columns(label=pl.Series(labels)), page.palette)
    if picked := components.clicked(picture, f"turns-{components.key_of(page)}", text):
        filter_bar.go(page.filters.set("attribution", [str(picked["attribution"])]))
        st.rerun()


def _now(page: Page) -> None:
    recent = {"from": "-24h"} if page.filters.moving and page.length > RECENT else {}
    bursts = page.later("retries/storms", sort="-ended", limit=str(ROWS // 2), **recent)
    heard = page.later("sources", limit=MOST, **{"from": "-7d", "to": None})
    open_streaks = headline.open_streaks(page)
    if not open_streaks.is_empty():
        open_streaks = open_streaks.filter(pl.col("length") >= LONG)
    for row in open_streaks.iter_rows(named=True):
        facts = f"open streak of {words.count(row['length'])} for {words.elapsed(row['started'], page.now)}"
        components.row(
            page, "session", row["session"], facts, limit=components.FULL_WIDTH, **components.session_of(row)
        )
    if open_streaks.height == int(headline.OPEN["limit"]):
        components.link(page, "streaks", "All open streaks →")
    storms = bursts()
    names = ("error_class", "state", "started", "ended", "sessions", "calls")
    for name, state, started, ended, sessions, calls in storms.pick(*names).iter_rows():
        facts = f"{words.plural(calls, 'call')} in {words.plural(sessions, 'session')}"
        said = sentences.storm(state, started, ended, page.now, page.zone)
        components.row(page, "retries", f"Storm of {name}", f"{said} · {facts}")
    if storms.cut:
        components.link(page, "retries", "All storms →")
    senders = heard().pick("source", "service", "last_seen")
    names_of = pl.coalesce("service", "source").alias("who")
    last = senders.group_by(names_of, maintain_order=True).agg(pl.col("last_seen").max()).drop_nulls()
    silent = last.filter(page.now - pl.col("last_seen") > SILENT).sort("last_seen")
    for who, seen in silent.head(ROWS // 2).iter_rows():
        components.row(page, "sources", who, f"silent for {words.elapsed(seen, page.now)}")
    if (more := silent.height - ROWS // 2) > 0:
        components.link(page, "sources", f"{more} more silent →")
    if open_streaks.is_empty() and silent.is_empty() and storms.rows.is_empty():
        components.quiet("No streak of 3 or more is open, no storm, and no sender is silent.")


def _empty(page: Page, now: dict[str, Any]) -> None:
    if now["newest"] or page.filters.conditions or page.filters.text:
        components.nothing(page)
        return
    start.empty(page)
    st.fragment(_first_event, run_every=FIRST_EVENT_S)(page)


def _first_event(page: Page) -> None:
    """Reruns the page as soon as there is an event; the checklist stays for the agent that it is from."""
    with components.part():
        now = headline.totals(page, max_age=FIRST_EVENT_S)
        if now.get("calls") or now["newest"]:
            if going := start.arrived(page):
                filter_bar.go(going)
            st.rerun()


page = open_page("overview", "Overview", "Is it better or worse than before, and what should I look at first?",
                 view={"setup": start.known()})  # fmt: skip
refreshing(body, page)
