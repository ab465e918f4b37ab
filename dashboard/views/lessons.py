"""Lessons: what would prevent the mistakes that keep happening?"""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from dashboard.data.client import MOST
from dashboard.page import Page, open_page, refreshing
from dashboard.parts import components, words

STATES = {"proposed": "proposed", "refused": "not enough evidence"}
RANGE = ("from", "to", "q")  # lessons are always of the last 60 days
SHOWN = 20
STRENGTHS = {
    "always": "fails always",
    "mostly": "fails mostly",
    "sometimes": "fails at times",
    "few": "tried too seldom to say",
}
PLACES = {
    "project": "a line in the instruction file", "path": "a rule for these files", "permission": "a permission",
    "tool": "the tool's own description", "setting": "a setting", "model": "the model, or how it is told of its tools",
}  # fmt: skip
GATES = {
    "breadth": "sessions and days", "count": "failed calls", "share": "share of sessions", "denominator": "attempts",
    "still_happening": "still happening", "same_model": "newest model", "not_cured_by_itself": "not going away",
    "specific": "specific", "not_said_yet": "not said yet", "budget": "room in the file",
}  # fmt: skip


def body(page: Page) -> None:
    """One card for each lesson, or for each candidate that a gate refused."""
    state = components.switch(page, "state", "Show", list(STATES), STATES)
    with components.part():
        kept = {name: value for name, value in page.filters.api().items() if name not in RANGE}
        answer = page.ask_all("lessons", {**kept, "state": state, "limit": MOST})
        rows = answer.rows.to_dicts()
        if not rows:
            _nothing(state)
            return
        said = "would be prevented by a sentence, a permission or a setting" if state == "proposed" else "lack evidence"
        st.markdown(f"**{words.plural(len(rows), 'recurring mistake')}** of the last 60 days {said}.")
        for row in rows[:SHOWN]:
            _card(page, row)
        if len(rows) > SHOWN:
            components.quiet(f"The {SHOWN} with most failed calls; misstep lessons lists all {len(rows)}.")


def _nothing(state: str) -> None:
    if state == "refused":
        components.quiet("No candidate lacks evidence: every mistake that recurs is proposed, or none recurs.")
        return
    st.info(
        "No mistake of the last 60 days recurs often enough to write something down: at least three sessions on two "
        "days. “Not enough evidence” shows what is close. Sessions that agents keep on disk count too once they are "
        "imported: `misstep import`."
    )


def _card(page: Page, row: Mapping[str, Any]) -> None:
    with st.container(border=True):
        st.markdown(f"#### {_quoted(row['text'])}")
        components.quiet(_evidence(row))
        if row["next"]:
            went = f"in {words.count(row['next_sessions'])} of {words.plural(row['recovered_sessions'], 'session')}"
            st.markdown(f"What worked next {went}: {_quoted(row['next'])}")
        if row["firm"]:
            st.markdown(f"Firmer than a sentence: {_quoted(row['firm'])}")
        if row["refused_by"]:
            st.markdown(f"Refused by **{GATES.get(row['refused_by'], row['refused_by'])}**: {_why(row)}")
        elif row["place"] in ("project", "path"):
            st.code(f"misstep lessons draft {row['id']}", language="shell")
        with st.expander("Evidence", key=f"lesson-{row['id']}"):
            _details(page, row)


def _evidence(row: Mapping[str, Any]) -> str:
    """In how many sessions it happened, what it cost, how sure it is."""
    parts = [
        f"in {words.count(row['sessions'])} of {words.plural(row['scope_sessions'], 'session')}"
        + (f" of {words.plain(row['scope'])}" if row["scope"] else ""),
        f"{words.plural(row['calls'], 'failed call')} of {words.plural(row['attempts'], 'attempt')}",
        STRENGTHS[row["strength"]],
    ]
    if row["seconds"]:
        parts.append(f"{words.duration(row['seconds'] * 1000)} spent in them")
    if row["tokens"] is not None:
        parts.append(f"{words.count(row['tokens'])} tokens")
    if row["agents"]:
        parts.append(words.plain(row["agents"]))
    return " · ".join([*parts, f"belongs into {PLACES.get(row['place'], row['place'])}"])


def _quoted(sentence: str) -> str:
    """A sentence of the collector as Markdown: what it puts into backquotes is code, the rest plain text."""
    parts = sentence[:600].split("`")
    return "".join(f"`{part}`" if place % 2 else _unquoted(part) for place, part in enumerate(parts))


def _unquoted(part: str) -> str:
    """Plain text with the spaces that part it from code."""
    inner = part.strip()
    if not inner:
        return part
    before, after = part[: len(part) - len(part.lstrip())], part[len(part.rstrip()) :]
    return f"{before}{words.plain(inner, 600)}{after}"


def _why(row: Mapping[str, Any]) -> str:
    gates = components.as_json(row["gates"]) or []
    return next((words.plain(gate["why"], 300) for gate in gates if gate["gate"] == row["refused_by"]), "")


def _details(page: Page, row: Mapping[str, Any]) -> None:
    marks = {True: "passed", False: "refused", None: "not checked here"}
    for gate in components.as_json(row["gates"]) or []:
        st.markdown(
            f"{GATES.get(gate['gate'], gate['gate'])}: *{marks[gate['passed']]}*, {words.plain(gate['why'], 300)}"
        )
    for one in components.as_json(row["examples"]) or []:
        said = words.plain(one["message"] or one["target"] or one["tool"], 120)
        components.link(page, "session", f"{one['session']}: {said}", session=one["session"], event=one["event_id"])


page = open_page(
    "lessons", "Lessons", "What would prevent the mistakes that keep happening?", view={"state": tuple(STATES)}
)
refreshing(body, page)
