"""One event in full."""

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import polars as pl
import streamlit as st

from dashboard.data import frames
from dashboard.data.client import Problem, path
from dashboard.page import Page
from dashboard.parts import recorder, words
from dashboard.parts.components import as_json, link, session_of


def event_card(
    page: Page, event: Mapping[str, Any], among: pl.DataFrame | None = None, streaks: pl.DataFrame | None = None
) -> None:
    """Shows one event in full, without what its page says anyway; `among` are events of its session, `streaks` those of
    that session.
    """
    within_session = page.name in {"session", "streak"}
    with st.container(border=True, gap="small"):
        _heading(page, event, among)
        if event.get("message"):
            st.code(event["message"], language=None, wrap_lines=True)
        if event.get("suggestion") and page.name != "group":
            st.caption(f"What helps: {words.plain(event['suggestion'], 300)}")
        _parameters(event, expanded=within_session)
        _excerpt(page, event)
        with st.container(horizontal=True, vertical_alignment="center"):
            if within_session:
                _places(page, event, streaks)
            if event.get("fingerprint") and page.name != "group":
                link(page, "group", "All errors like this →", fingerprint=str(event["fingerprint"]))
            if event.get("session") and not within_session:
                link(page, "session", "Its session →", **session_of(event), event=str(event["event_id"]))
            if address := trace_link(os.environ.get("MISSTEP_TRACE_URL", ""), event):
                st.link_button("Trace →", address, type="tertiary")


def _heading(page: Page, event: Mapping[str, Any], among: pl.DataFrame | None) -> None:
    name = event.get("error_class") or event.get("outcome") or ""
    where = event.get("tool") or event.get("operation") or ""
    st.markdown(f"**{words.plain(name)}** · {words.plain(where, 60)}", help=f"event {event.get('event_id')}")
    st.caption(f"{' · '.join(_facts(page, event))}")
    if among is not None and (twin := frames.twin(among, event)):
        st.caption(f"The identical call as no. {twin:,}.")
    if asking := _asking(event, among):
        st.caption(f"Asked for by the model in call no. {asking:,}.")


def _parameters(event: Mapping[str, Any], *, expanded: bool) -> None:
    params = as_json(event.get("params"))
    if isinstance(params, dict | list):
        st.caption("Parameters")
        st.json(params, expanded=expanded)
    elif params is not None:  # one text instead of named values, such as a patch
        st.caption("Parameters")
        st.code(str(params), language=None, wrap_lines=True)
    elif event.get("operation") == "tool":
        st.caption("This agent does not send parameters. Sources says how to turn them on.")


def trace_link(template: str, event: Mapping[str, Any]) -> str:
    """The address of an event in a trace viewer: the template of MISSTEP_TRACE_URL with its places filled, each value
    percent-encoded; "" if one is not known.
    """
    places = re.findall(r"\{(trace_id|span_id|session)\}", template)
    if not places or not all(event.get(name) for name in places):
        return ""
    for name in places:
        template = template.replace(f"{{{name}}}", quote(str(event[name]), safe=""))
    return template


def _excerpt(page: Page, event: Mapping[str, Any]) -> None:
    """On demand, what stood around an imported call in the person's own file."""
    about = as_json(event.get("attributes"))
    if not isinstance(about, dict) or not about.get("transcript.file"):
        return
    number = str(event["event_id"])
    around = st.expander("What was around it", key=f"around-{number}", on_change="rerun")
    if not around.open:
        return
    with around:
        try:
            told = page.collector.ask(path("events", number, "excerpt"), max_age=0.0)
        except Problem as problem:
            st.caption(words.plain(problem.sentence, 300))
            return
        st.caption(words.plain(told.rest["said"], 500))
        for text, is_it in told.pick("text", "is_it").iter_rows():
            st.code(("→ " if is_it else "  ") + text, language=None, wrap_lines=True)


def _asking(event: Mapping[str, Any], among: pl.DataFrame | None) -> int | None:
    """The position of the model request that asked for this call, if it is among these."""
    if among is None or not event.get("asked_by"):
        return None
    found = among.filter(pl.col("event_id") == str(event["asked_by"]))["order"]
    return int(found[0]) if found.len() else None


def _places(page: Page, event: Mapping[str, Any], streaks: pl.DataFrame | None) -> None:
    """Links from an event of a session to its tool and its streak."""
    if event.get("tool"):
        link(page, "tool", "Its tool →", tool=event["tool"])
    streak = _streak_of(event, streaks) if page.name != "streak" else None
    if streak:
        begun = streak["started"].isoformat()
        at = session_of(event) | {"started": begun, "event": str(event["event_id"])}
        link(page, "streak", f"Its streak of {words.count(streak['length'])} →", **at)


def _streak_of(event: Mapping[str, Any], streaks: pl.DataFrame | None) -> dict[str, Any] | None:
    """The streak of mistakes that this event is one of."""
    if streaks is None or streaks.is_empty() or not event.get("mistake"):
        return None
    found = streaks.filter(
        pl.col("started").dt.cast_time_unit("us") <= event["time"],
        pl.col("ended").dt.cast_time_unit("us") >= event["time"],
        pl.col("subagent").eq_missing(pl.lit(event.get("subagent"))),
    )
    return found.row(0, named=True) if found.height else None


def _facts(page: Page, event: Mapping[str, Any]) -> list[str]:
    facts = [words.clock(event.get("time"), page.zone, now=page.now), str(event.get("outcome"))]
    if event.get("duration_ms") is not None:
        facts.append(f"took {words.duration(event['duration_ms'])}")
    if event.get("model"):
        facts.append(words.plain(event["model"], 40))
    facts += map(words.plain, recorder.spent(event))
    if event.get("attribution"):
        facts.append(f"turn of the {words.plain(event['attribution'])}")
    if event.get("classified_by"):
        facts.append(f"class {words.classified(event['classified_by'])}")
    if (event.get("attempt") or 1) > 1:
        facts.append(f"attempt {words.count(event['attempt'])}")
    if event.get("redactions"):
        facts.append(f"secrets cut: {words.count(event['redactions'])}")
    if event.get("target"):
        facts.append(words.plain(event["target"], 80))
    return facts
