"""Search: a box at the top of every page, opened by `/` or ⌘K, that answers while people type.

The browser sends what is typed to the dashboard, which asks the collector; all that comes back are texts and links.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

from dashboard import menu
from dashboard.data.client import Answer, Problem
from dashboard.data.filters import Filters, rfc3339
from dashboard.page import collector
from dashboard.parts import filter_bar, share, words

KEY = "search"
EACH = 5  # hits of a kind
LEAST, MOST = 2, 200  # characters that are looked for
AGE_S = 10.0
_HERE = Path(__file__)


@dataclass(frozen=True, slots=True)
class Kind:
    """The heading of hits of a kind, and the page and dimension that they lead to; without one, they lead to an event.

    `described`: what their text says names them better than their value.
    """

    title: str
    page: str = ""
    dimension: str = ""
    described: bool = False


KINDS: Mapping[str, Kind] = {
    "session": Kind("Sessions"),
    "trace": Kind("Traces"),
    "call": Kind("Calls"),
    "event": Kind("Events"),
    "tool": Kind("Tools", "tool", "tool"),
    "class": Kind("Classes", "errors", "error_class"),
    "service": Kind("Services", "overview", "service"),
    "model": Kind("Models", "overview", "model"),
    "group": Kind("Groups", "group", "fingerprint", described=True),
    "message": Kind("Messages", described=True),
}


def show() -> None:
    """Puts the box at the top of the page."""
    with st.container(key=KEY):
        st.fragment(_box)()


def _box() -> None:
    state: Mapping[str, Any] = st.session_state.get(f"{KEY}-box") or {}
    q = str(state.get("q") or "").strip()[:MOST]
    data = {"q": q, **(_answered(q, filter_bar.from_link()) if len(q) >= LEAST else {})}
    _component()(key=f"{KEY}-box", data=data, on_q_change=lambda: None)


def _answered(q: str, filters: Filters) -> dict[str, Any]:
    try:
        answer = collector().ask("search", {"q": q, "limit": str(EACH)}, max_age=AGE_S)
    except Problem as problem:
        return {"said": problem.sentence}
    return content(answer, filters, datetime.now(UTC))


def content(answer: Answer, filters: Filters, now: datetime) -> dict[str, Any]:
    """What the box shows of an answer: hits by kind, each with its link, and how far was looked."""
    rows = list(answer.rows.iter_rows(named=True))
    found = [
        {
            "title": kind.title,
            "more": _more(of),
            "hits": [{"to": _to(kind, row, filters, now), **_named(kind, row, now)} for row in of],
        }
        for name, kind in KINDS.items()
        if (of := [row for row in rows if row["kind"] == name])
    ]
    return {"found": found, "said": _bounds(answer) if found else f"Nothing found. {_bounds(answer)}".strip()}


def _more(rows: list[dict[str, Any]]) -> str:
    of = int(rows[0]["found"] or 0)
    return f"{len(rows)} of {words.count(of)}" if of > len(rows) else ""


def _named(kind: Kind, row: dict[str, Any], now: datetime) -> dict[str, str]:
    name = (row["text"] or row["value"]) if kind.described else row["value"]
    facts = [] if kind.described or not row["text"] else [row["text"]]
    facts += [row["service"]] if row["service"] and not kind.dimension else []
    facts += [words.plural(row["events"], "event"), f"{words.elapsed(row['last_seen'], now)} ago"]
    return {"name": str(name)[:MOST], "facts": " · ".join(facts)}


def _to(kind: Kind, row: dict[str, Any], filters: Filters, now: datetime) -> str:
    """The link of a hit. It has the page's range if its newest event lies in it, else the day up to that event."""
    start, end = filters.span(now)
    last: datetime = row["last_seen"]
    shown = Filters(view=filters.carried().view).between(filters.start, filters.end)
    if not start <= last <= max(end, now):
        after = last + timedelta(seconds=1)
        shown = shown.between(rfc3339(after - timedelta(days=1)), rfc3339(after))
    if kind.dimension:
        return share.address(menu.address(kind.page), shown.set(kind.dimension, [row["value"]]))
    if row["session"]:
        event = "" if kind is KINDS["session"] else str(row["event_id"])
        shown = shown.set("session", [row["session"]]).set("service", [row["service"]] if row["service"] else [])
        return share.address(menu.address("session"), shown.showing(event=event))
    if row["fingerprint"]:
        return share.address(menu.address("group"), shown.set("fingerprint", [row["fingerprint"]]))
    return share.address(menu.address("tools"), shown.set("service", [row["service"]] if row["service"] else []))


def _bounds(answer: Answer) -> str:
    """What was not looked through."""
    kinds = answer.rest.get("kinds") or {}
    short = "" if "session" in kinds else f"Ids are looked for from {answer.rest.get('ids_from')} characters on."
    since = answer.rest.get("since")
    texts = f"Messages: since {datetime.fromisoformat(since):%-d %b}." if since else ""
    return f"{short} {texts}".strip()


@cache
def _component() -> Any:
    js, css = (_HERE.with_suffix(ending).read_text(encoding="utf-8") for ending in (".js", ".css"))
    html = '<div class="search-box"></div>'
    return st.components.v2.component("misstep.search_box", html=html, css=css, js=js, isolate_styles=False)
