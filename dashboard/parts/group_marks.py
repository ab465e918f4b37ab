"""What people decide about a group: resolved, in a version or in all, ignored for a while, its issue."""

from collections.abc import Callable
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import streamlit as st

from dashboard.data.client import Problem, path
from dashboard.data.filters import EVER
from dashboard.page import Page
from dashboard.parts import words

VERSIONS = {"by": "service,service_version", "from": EVER, "sort": "-last_seen", "limit": "50"}
USUAL_EVENTS = 100
_REFUSED = "group-refused"

Change = Callable[..., None]


def changing(page: Page, fingerprint: str) -> Change:
    """A function that says something of the group; why that was refused is shown by `show`."""

    def change(**said: Any) -> None:
        try:
            page.collector.change("PATCH", path("groups", fingerprint), said)
        except Problem as problem:
            unsaved = "" if problem.state == "unanswered" else "Not saved: "
            st.session_state[_REFUSED] = unsaved + words.plain(problem.sentence, 300)

    return change


def buttons(page: Page, fingerprint: str, group: dict[str, Any], change: Change) -> None:
    """Buttons in the row of the caller: resolve, ignore, reopen, and the issue."""
    if group.get("resolved") or group.get("ignored"):
        st.button("Reopen", key="reopen", on_click=change, kwargs={"state": "open"})
    if group.get("state") != "resolved":
        text = "It counts as regressed when it is seen again."
        st.button("Resolve", key="resolve", help=text, on_click=change, kwargs={"state": "resolved"})
        _in_version(page, fingerprint, change)
    if group.get("state") != "ignored":
        _ignore(fingerprint, change)
    with st.popover("Issue", key="issue"), st.form("issue-form", border=False):
        key = f"issue-{fingerprint}"
        st.text_input("Its address in your tracker (https)", group.get("issue") or "", max_chars=2000, key=key)
        st.form_submit_button("Link", on_click=lambda: change(issue=st.session_state[key]))


def _in_version(page: Page, fingerprint: str, change: Change) -> None:
    popover = st.popover("Resolve in …", key="resolve-in", on_change="rerun")
    if not popover.open:
        return
    rows = page.ask_all("breakdown", {**VERSIONS, "fingerprint": fingerprint}, 30.0).pick("service", "service_version")
    known = {
        f"{service or 'no service'} {version}": (service, version) for service, version in rows.iter_rows() if version
    }
    key = f"version-{fingerprint}"

    def save() -> None:
        chosen = (st.session_state[key] or "").strip()
        service, version = known.get(chosen, (None, chosen))
        change(state="resolved", version=version, **({"service": service} if service else {}))

    with popover, st.form("resolve-form", border=False):
        st.selectbox("The version that mends it", list(known), index=None, key=key, accept_new_options=True,
                     placeholder="choose, or write one that is not out yet")  # fmt: skip
        st.caption("Only events of that version, or of a later one, then tell that it came back.")
        st.form_submit_button("Resolve", on_click=save)


def _ignore(fingerprint: str, change: Change) -> None:
    events, sessions = f"until-events-{fingerprint}", f"until-sessions-{fingerprint}"

    def save() -> None:
        until = {"until_events": st.session_state[events], "until_sessions": st.session_state[sessions]}
        change(state="ignored", **{name: int(number) for name, number in until.items() if number})

    with st.popover("Ignore until …", key="ignore"), st.form("ignore-form", border=False):
        most = 100_000
        st.number_input("so many more events", 0, most, USUAL_EVENTS, key=events)
        st.number_input("or in so many sessions", 0, most, 0, key=sessions, help="0: whatever their number")
        st.form_submit_button("Ignore", on_click=save)


def told(group: dict[str, Any], now: datetime) -> str:
    """What was decided, and what has happened since, as a sentence; empty if nothing was decided."""
    if group.get("resolved"):
        version = " ".join(filter(None, (group.get("resolved_service"), group.get("resolved_version"))))
        where = f" in {words.plain(version, 80)}" if group.get("resolved_version") else ""
        since = "in that version or a later one" if where else "since"
        seen = "not seen" if group.get("state") == "resolved" else "seen again"
        return f"Resolved{where} {_ago(group['resolved'], now)} ago; {seen} {since}."
    if group.get("ignored"):
        counts = [
            f"{words.count(group.get(f'{what}_since'))} of {words.plural(until, what.removesuffix('s'))}"
            for what in ("events", "sessions")
            if (until := group.get(f"until_{what}"))
        ]
        over = "" if group.get("state") == "ignored" else ": it is back"
        return f"Ignored {_ago(group['ignored'], now)} ago; since then {' and '.join(counts)}{over}."
    return ""


def _ago(then: Any, now: datetime) -> str:
    return words.elapsed(then if isinstance(then, datetime) else datetime.fromisoformat(then), now)


def show(group: dict[str, Any], now: datetime) -> None:
    """The decision, the issue and the note, and why the last change was refused."""
    if said := told(group, now):
        st.caption(said)
    issue = str(group.get("issue") or "")
    if issue.startswith("https://"):
        parts = urlsplit(issue)
        named = f"{parts.hostname} · {parts.path.rstrip('/').rpartition('/')[2]}".removesuffix(" · ")
        st.link_button(f"{words.plain(named, 60)} ↗", issue, type="tertiary")
    if group.get("note"):
        st.caption(f"Note: {words.plain(group['note'], 400)}")
    if refused := st.session_state.pop(_REFUSED, ""):
        st.caption(refused)
