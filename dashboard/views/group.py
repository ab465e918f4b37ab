"""Group: what is this error, and what do I do about it?"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import polars as pl
import streamlit as st

from dashboard.charts import charts, proportions
from dashboard.data import client, frames, taxonomy
from dashboard.data.client import Answer, path
from dashboard.data.filters import EVER, Filters, escaped
from dashboard.page import Page, open_page, refreshing
from dashboard.parts import components, error_texts, group_marks, link_table, rule_forms, time_marks, words
from dashboard.parts.card import event_card

DIMENSIONS = {"model": "Models", "service_version": "Versions", "agent": "Agents"}  # not tools: a group has one
TOGETHER = {"by": ",".join(DIMENSIONS), "limit": client.MOST}
VALUES, SESSIONS, MESSAGES = 5, 200, 60
OF_SESSIONS = {
    "by": "session,service,project",
    "session": "!",
    "sort": "-calls",
    "limit": str(SESSIONS),
}  # `!`: not without
CLASSES_S = 600.0  # they change only when the collector is restarted


def body(page: Page) -> None:
    """Header, advice, where and when it happens, samples, sessions."""
    fingerprint = page.filters.only("fingerprint")
    if not fingerprint:
        components.link(page, "errors", "Choose a group on the Errors page →")
        return
    asking = page.later("groups")
    newest = page.later("events", limit=str(MESSAGES))
    _places(page)  # begun early, for the parts of a group that occurs in the range
    here = False
    group: dict[str, Any] = {}
    with components.part():
        group = asking().first()
        here = bool(group)
        group = group or page.collector.ask(path("groups", fingerprint)).first()  # of all time
        _header(page, group)
        if not here:
            said = f"Nothing of it matches in {components.period(page.filters)}; the figures are those of all time."
            alone = Filters(view=page.filters.view).set("fingerprint", [fingerprint])
            components.earlier(page, said, group["last_seen"], alone)
    if not group:
        components.link(page, "errors", "Choose a group on the Errors page →")
        return
    place = st.container()
    if here:
        with place:
            place, right = components.pair("group-1")
        with right:
            components.beside("Where", _where, page)
        components.beside("What the model did next", error_texts.next_steps, page, help=error_texts.HELP)
        components.beside("When", _when, page)
        components.beside("Samples", _samples, page)
        components.beside("Sessions", _sessions, page)
    with place, components.part("Advice"):
        ever = {"from": EVER, "to": None}
        latest = newest().first() or page.ask("events", limit="1", **ever).first()
        _advice(page, group, latest)
        _marks(page, fingerprint, group, latest)


def _name(page: Page) -> str:
    """Class and tool, which stay the same."""
    group = page.collector.ask(path("groups", page.filters.only("fingerprint")), max_age=CLASSES_S).first()
    tool = f" in {group['tool']}" if group.get("tool") else ""
    return f"{group.get('error_class') or 'Group'}{tool}"


def _when(page: Page) -> None:
    rows, step = components.over_time(page)
    rows = rows.with_columns(errors="calls")  # those that a person or a policy denied are in groups too
    picture = charts.errors_over_time(
        rows, page.palette, page.axis, step, deploys=time_marks.on_axis(page), narrow=page.narrow, small=page.small
    )
    components.brushed(page, picture, "when", "Errors of this group over time.")


def _header(page: Page, group: dict[str, Any]) -> None:
    st.markdown(f"**{str(group.get('state') or '').capitalize()}**")
    st.text(group.get("template") or group.get("sample") or "")
    first, last = group.get("first_seen"), group.get("last_seen")
    of = group.get("sessions_of_tool")
    items = [
        components.Figure("Events", words.count(group.get("events")), trend=group.get("trend") or ()),
        components.Figure("Sessions", words.count(group.get("sessions"))),
        components.Figure("Spread", words.rough(group.get("spread"), of), words.HELP["spread"],
                          note=f"of {words.plural(of, 'session')}" if of else ""),
        _seen(page, "First seen", first),
        _seen(page, "Last seen", last),
    ]  # fmt: skip
    components.figures(page, items)


def _seen(page: Page, label: str, time: datetime | None) -> components.Figure:
    """How long ago, which is short enough for a card, and below it when."""
    if time is None:
        return components.Figure(label, words.NONE)
    note = words.clock(time, page.zone, now=page.now)
    return components.Figure(label, f"{words.elapsed(time, page.now)} ago", note=note)


def _advice(page: Page, group: dict[str, Any], event: dict[str, Any]) -> None:
    meant = page.collector.ask("classes", max_age=CLASSES_S).rows.filter(error_class=group["error_class"] or "")
    for title, advice in meant.select("title", "advice_person").iter_rows():
        st.markdown(f"**{words.plain(title)}.** {words.plain(advice)}")
    if turn := event.get("attribution"):
        st.markdown(f"Whose turn: **{words.plain(turn)}**", help=words.HELP["attribution"])
    told = event.get("retryable_declared")
    declared = "the agent does not say" if told is None else "yes" if told else "no"
    retries = page.ask("retries").first()
    observed = words.rate_of(retries.get("recovery_rate"), retries.get("rated"))
    st.markdown(f"Retryable, declared: **{declared}**", help=words.HELP["retryable, declared"])
    st.markdown(f"Retryable, observed: **{observed}**", help=words.HELP["retryable, observed"])
    fate = words.lasting(*(retries.get(name) for name in components.LASTING))
    st.markdown(f"Not repaired: **{fate}**", help=words.HELP["lasting errors"])
    if by := event.get("classified_by"):
        st.markdown(f"Class: **{words.classified(by)}**", help=words.HELP["class"])
    if event.get("suggestion"):
        components.quiet("What helps the model:")
        st.code(event["suggestion"], language=None, wrap_lines=True)


def _marks(page: Page, fingerprint: str, group: dict[str, Any], newest: dict[str, Any]) -> None:
    """Buttons to decide about it and to note, and texts to copy."""
    mark = group_marks.changing(page, fingerprint)
    with st.container(horizontal=True):
        group_marks.buttons(page, fingerprint, group, mark)
        with st.popover("Note", key="note"), st.form("note-form", border=False):
            st.text_area("Note", group.get("note") or "", max_chars=4000, key=f"note-{fingerprint}")
            st.form_submit_button("Save", on_click=lambda: mark(note=st.session_state[f"note-{fingerprint}"]))
        with st.popover("Wrong class?", key="wrong-class"):
            operation = newest.get("operation") or "tool"
            row = taxonomy.message_row(operation, group.get("template"), group.get("sample"))
            row = row or taxonomy.alias_row(operation, newest.get("reported_class"))
            components.quiet("A row for a taxonomy.toml of your own; put the right class in:")
            st.code(row or "# this message has no words of its own to tell it by", language=None, wrap_lines=True)
    group_marks.show(group, page.now)


def _places(page: Page) -> tuple[Callable[[], Answer], Callable[[], Answer]]:
    """Starts queries for all calls, and for those of the group, by dimension."""
    of_all = page.later("breakdown", sort="-calls", fingerprint=None, **TOGETHER)
    return of_all, page.later("breakdown", **TOGETHER)


def _where(page: Page) -> None:
    """For each dimension the values with the most events of the group, compared with their share of all calls."""
    of_all, of_it = _places(page)
    events, calls = (asking().pick(*DIMENSIONS, "calls") for asking in (of_it, of_all))
    parts, said = [], []
    for dimension, many in DIMENSIONS.items():
        mine, everything = frames.summed(events, dimension, "calls"), frames.summed(calls, dimension, "calls")
        if mine.is_empty():
            continue
        rows = (
            mine.rename({"calls": "events"})
            .join(everything, on=dimension, how="left", maintain_order="left")
            .select(
                name=pl.col(dimension).cast(pl.String).str.slice(0, 30),
                events="events",
                share=pl.col("events") / mine["calls"].sum(),
                expected=pl.col("calls") / (everything["calls"].sum() or 1),
            )
            .head(VALUES)
        )
        parts += [pl.DataFrame({"name": [many]}), rows]
        said.append(f"{rows['name'][0]} ({words.rate(rows['share'][0])})")
    if not parts:
        components.quiet("Its senders tell neither model, version nor agent.")
        return
    picture = proportions.over_share(pl.concat(parts, how="diagonal"), page.palette)
    components.chart(picture, "where", f"Most often in {', '.join(said)}.")
    components.quiet("Bar: share of this group. Tick: share of all calls.")


def _samples(page: Page) -> None:
    """The newest event, the oldest, and the one least like the newest."""
    rows = page.ask("events", limit=str(MESSAGES)).rows  # the newest in the range
    oldest = rows.row(-1, named=True)
    first = _places(page)[1]().pick("first_seen").select(pl.col("first_seen").min()).item()
    if rows.height == MESSAGES and first:  # there may be older ones; to find the oldest at its time reads least
        moment = {"from": first.isoformat(), "to": (first + timedelta(milliseconds=1)).isoformat()}
        oldest = page.ask("events", limit="1", sort="time", **moment).first() or oldest
    chosen = {"Newest": rows.row(0, named=True), "Oldest": oldest}
    chosen["Most different"] = rows.row(frames.most_different(rows["message"]), named=True)
    seen: set[str] = set()
    for name, event in chosen.items():
        if event and event["event_id"] not in seen:
            seen.add(event["event_id"])
            components.quiet(name)
            event_card(page, event)


def _sessions(page: Page) -> None:
    """Sessions with this error, each with the outcomes of its last calls of any kind."""
    answer = page.ask("breakdown", **OF_SESSIONS)
    whose = ["session", "service", "project"]
    mine = answer.pick(*whose, "calls", "first_seen")
    if mine.is_empty():
        components.quiet("Its events name no session.")
        return
    named = ",".join(map(escaped, mine["session"]))
    whole = page.ask("sessions", session=named, fingerprint=None, limit=client.MOST).pick(*whose, "strip")
    shown = mine.join(whole, on=whose, how="left", nulls_equal=True, maintain_order="left")
    columns = {
        "session": link_table.name("session", 36),
        "service": link_table.name("service", 20),
        "calls": link_table.number("of this group"),
        "first_seen": link_table.when("first of them", page),
        "strip": link_table.strip(page),
    }
    link_table.table(
        page, shown, columns, name="sessions", usual="-calls", caption="Sessions with this error.", cut=answer.cut,
        to=lambda row: components.address(page, "session", **{name: row[name] for name in whose}),
        wide=("service", "first_seen"), rows_shown=8,
    )  # fmt: skip


page = open_page(
    "group", "Group", "What is this error, and what do I do about it?", tables=("sessions", "steps"),
    view={"alert": {"me"}}, named=_name,
)  # fmt: skip
rule_forms.alert_me(page)
refreshing(body, page)
