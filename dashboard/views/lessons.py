"""Lessons: what would prevent the mistakes that keep happening?"""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from dashboard.data.client import MOST, Problem, path
from dashboard.page import Page, open_page, refreshing
from dashboard.parts import components, words

STATES = {
    "proposed": "proposed", "adopted": "adopted", "snoozed": "snoozed", "dismissed": "dismissed",
    "refused": "not enough evidence",
}  # fmt: skip
SAID = {
    "proposed": "would be prevented by a sentence, a permission or a setting", "refused": "without enough evidence",
    "adopted": "with a sentence that is adopted", "snoozed": "put off for a while",
    "dismissed": "not proposed again",
}  # fmt: skip
NONE = {
    "refused": "No candidate lacks evidence: every mistake that recurs is proposed, or none recurs.",
    "adopted": "No lesson is adopted yet. misstep lessons draft ID --write FILE adopts one, and so does the button.",
    "snoozed": "No lesson is snoozed.", "dismissed": "No lesson is dismissed.",
}  # fmt: skip
# What can be decided in each state, by its name in the API.
DECISIONS = {
    "proposed": ("adopted", "snoozed", "dismissed"), "refused": ("adopted",), "adopted": ("open",),
    "snoozed": ("open", "dismissed"), "dismissed": ("open",),
}  # fmt: skip
BUTTONS = {
    "adopted": ("Adopt", "The sentence is in the agent's file now: measure from now on whether it helps."),
    "snoozed": ("Snooze", "Put it off for 30 days. Meanwhile it shows what happens without the sentence."),
    "dismissed": ("Dismiss", "Do not propose it again."),
    "open": ("Open again", "Take the decision back."),
}  # fmt: skip
VERDICTS = {
    "helped": "green", "avoided": "green", "worse": "red", "no_effect": "orange", "no_sign_yet": "gray",
    "cannot_tell": "gray",
}  # fmt: skip
_REFUSED = "lesson-refused"
RANGE = ("from", "to", "q")  # of the other pages: lessons are always of the last 60 days
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
        if refused := st.session_state.pop(_REFUSED, ""):
            st.error(refused)
        st.markdown(f"**{words.plural(len(rows), 'recurring mistake')}** of the last 60 days {SAID[state]}.")
        for row in rows[:SHOWN]:
            _card(page, row)
        if len(rows) > SHOWN:
            components.quiet(f"The {SHOWN} with most failed calls; misstep lessons lists all {len(rows)}.")


def _nothing(state: str) -> None:
    if state in NONE:
        components.quiet(NONE[state])
        return
    st.info(
        "No mistake of the last 60 days recurs often enough to write something down: at least three sessions on two "
        "days. “Not enough evidence” shows what is close. Sessions that agents keep on disk count too once they are "
        "imported: `misstep import`."
    )


def _card(page: Page, row: Mapping[str, Any]) -> None:
    with st.container(border=True):
        st.markdown(f"#### {_quoted(row['text'])}")
        if row["calls"]:
            components.quiet(_evidence(row))
        if row["sentence"]:
            _effect(row)
        if row["next"] and row["recovered_sessions"]:
            went = f"in {words.count(row['next_sessions'])} of {words.plural(row['recovered_sessions'], 'session')}"
            st.markdown(f"What worked next {went}: {_quoted(row['next'])}")
        if row["firm"]:
            st.markdown(f"Firmer than a sentence: {_quoted(row['firm'])}")
        if row["refused_by"]:
            st.markdown(f"Refused by **{GATES.get(row['refused_by'], row['refused_by'])}**: {_why(row)}")
        elif row["state"] == "proposed" and row["place"] in ("project", "path"):
            st.code(f"misstep lessons draft {row['id']}", language=None)
        _decide(page, row)
        with st.expander("Evidence", key=f"lesson-{row['id']}"):
            _details(page, row)


def _effect(row: Mapping[str, Any]) -> None:
    """The verdict, with the numbers it rests on; the rest of what is known of both sides is in the tooltip."""
    since = words.plain(str(row["since"])[:10])
    known = {"commit": "its commit", "file": "its file's time", "written": "when it was written"}.get(row["known_by"])
    st.markdown(f":{VERDICTS[row['verdict']]}[{words.plain(row['sentence'], 600)}]")
    effect = components.as_json(row["effect"]) or {}
    parts = [f"adopted on {since}" + (f", by {known}" if known else "")]
    if effect.get("by_record"):
        parts.append("the transcripts record which sessions had loaded it")
    if effect.get("control"):
        parts.append(f"{effect['control']['value'] * 100:+.0f} points where nothing was adopted")
    before, after = effect.get("before") or {}, effect.get("after") or {}
    for name, said in (("attempts_per_session", "attempts"), ("errors_per_session", "errors of all kinds")):
        if before.get("sessions") and after.get("sessions"):
            parts.append(f"{said} a session: {before[name]:.1f} → {after[name]:.1f}")
    components.quiet(" · ".join(parts))


def _decide(page: Page, row: Mapping[str, Any]) -> None:
    def change(state: str) -> None:
        try:
            page.collector.change("PATCH", path("lessons", row["id"]), {"state": state})
        except Problem as problem:
            st.session_state[_REFUSED] = words.plain(problem.sentence, 300)

    with st.container(horizontal=True):
        for state in DECISIONS[row["state"]]:
            label, help = BUTTONS[state]
            st.button(label, key=f"{state}-{row['id']}", help=help, on_click=change, args=(state,))


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
    return " · ".join([*parts, f"belongs in {PLACES.get(row['place'], row['place'])}"])


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
        about = components.session_of(one) | {"event": one["event_id"]}
        components.link(page, "session", f"{words.plain(one['session'], 60)}: {said}", **about)


page = open_page(
    "lessons", "Lessons", "What would prevent the mistakes that keep happening?", bar="values",
    view={"state": tuple(STATES)},
)  # fmt: skip
refreshing(body, page)
