"""The first minutes: how to connect an agent, and what of it has arrived, ticked off as it comes."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import polars as pl
import streamlit as st

from dashboard.data import client
from dashboard.data.agents import USUAL, Agent, address, agents, connected, demo
from dashboard.data.filters import Filters
from dashboard.page import Page
from dashboard.parts import components, filter_bar, words

FRESH_S = 0.2  # how old what it shows may be
LOOK_S = 2.0  # how often the checklist looks for what has arrived
SELDOM = 0.05  # a fact counts as left out if a smaller share of the events has it, as the API judges settings
MARKS: Mapping[str, str] = {"told": "✓", "missing": "✗", "waiting": "○", "unseen": "–"}
SAID: Mapping[str, str] = {"told": "arrived", "missing": "missing", "waiting": "not yet", "unseen": "not told"}
COLUMNS = (
    "source", "service", "events", "errors", "last_seen", "coverage", "remedies", "checks", "tool_data", "metrics",
    "unread",
)  # fmt: skip
# Facts of calls that most agents tell by themselves, and what is lost without each.
FACTS: Mapping[str, tuple[str, str]] = {
    "outcome": ("How each call ended", "without it a call is in no rate"),
    "session": ("Which session a call belongs to", "without it there are no streaks and no retries; set `session.id`"),
    "model": ("Which model asked for it", "without it models cannot be compared"),
}


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the checklist; `ways` are the settings that tell it, with their price."""

    what: str
    state: str
    detail: str = ""
    ways: Sequence[Mapping[str, str]] = ()


def empty(page: Page) -> None:
    """The Overview while the collector has received nothing: choose an agent, paste, see what arrives."""
    st.subheader("Nothing received yet. Point an agent here:", anchor=False)
    _choice_and_lines(page)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption("No agent at hand? A week of made-up traffic:", width="content")
        st.code(demo(), language=None, width="content")


def checklist(page: Page) -> None:
    """The same above the figures of the Overview, as long as the link says so."""
    with st.container(border=True):
        st.subheader("Setting up an agent", anchor=False)
        _choice_and_lines(page)
        done = page.filters.showing(setup="")
        st.button("Close the checklist", key="setup-close", type="tertiary", on_click=filter_bar.go, args=(done,))


def arrived(page: Page) -> Filters | None:
    """The link that keeps the checklist open once something of the agent has arrived that is being set up."""
    agent = _chosen()
    rows = _senders(page)
    of_it = rows.filter(pl.col("source").is_in(agent.sources))
    return page.filters.showing(setup=agent.page) if of_it.height else None


def known() -> Sequence[str]:
    """The agents that a link can name."""
    return list(agents())


def _chosen() -> Agent:
    """The agent of the link, which the page's own filters may be older than."""
    table = agents()
    return table.get(filter_bar.from_link().state("setup")) or next(iter(table.values()))


def _choice_and_lines(page: Page) -> None:
    filter_bar.follow()
    table = agents()
    agent = _chosen()

    def write() -> None:
        filter_bar.go(filter_bar.from_link().showing(setup=st.session_state["setup-agent"]))

    bound = filter_bar.bind("setup-agent", agent.page, write, label="visible")
    st.selectbox("Your agent", list(table), width=420, format_func=lambda name: table[name].title, **bound)
    left, right = components.pair("setup")
    with left:
        st.markdown("**1. Paste this**")
        _pasted(agent.pasted)
        if agent.connects:
            st.caption("Or let this command set it, and show it first:")
            st.code(connected(agent.page), language=None, wrap_lines=True)
    with right:
        st.markdown("**2. Let it call a tool, and see what arrives**")
        st.fragment(_steps, run_every=LOOK_S)(page, agent)


def _pasted(text: str) -> None:
    """Markdown whose blocks of code wrap their lines."""
    prose, *blocks = f"\n{text}".split("\n```")
    st.markdown(prose)
    for block, after in zip(blocks[::2], blocks[1::2], strict=True):
        code = block.partition("\n")[2]
        st.code(code, language=None, wrap_lines=True)  # its colours would be too faint
        st.markdown(after)


def _steps(page: Page, agent: Agent) -> None:
    """The checklist, which looks again by itself."""
    with components.part():
        rows = _senders(page)
        its = rows.filter(pl.col("source").is_in(agent.sources))
        steps = list(_checked(agent, its, page))
        ticked = [step for step in steps if step.state == "told"]
        missing = [step.what for step in steps if step.state == "missing"]
        to_come = sum(step.state != "unseen" for step in steps)
        left = f" Missing: {'; '.join(missing)}." if missing else ""
        st.caption(f"{len(ticked)} of {to_come} have arrived.{left} This page notices what comes by itself.")
        with st.container(gap="xsmall"):
            for step in steps:
                _show(step)
        others = rows.filter(~pl.col("source").is_in(agent.sources))["source"].drop_nulls().unique(maintain_order=True)
        if others.len():
            named = ", ".join(words.plain(each, 30) for each in others.head(5))
            st.caption(f"Also arrived: {named}{' and others' if others.len() > 5 else ''}.")


def _show(step: Step) -> None:
    detail = f" · {step.detail}" if step.detail else ""
    with st.container(gap="xxsmall"):
        st.markdown(f"{MARKS[step.state]} **{step.what[:1].upper()}{step.what[1:]}** · {SAID[step.state]}{detail}")
        if step.state != "told" and step.ways:
            st.caption("\n".join(_way(way, first=number == 0) for number, way in enumerate(step.ways)))


def _way(way: Mapping[str, str], *, first: bool) -> str:
    price = f" It costs: {way['privacy']}." if way["privacy"] else " It sends nothing new."
    return f"- {'' if first else 'or '}`{way['setting'].replace(USUAL, address())}`.{price}"


def _senders(page: Page) -> pl.DataFrame:
    bare = Filters(page.filters.start, page.filters.end).api()
    return page.ask_all("sources", bare | {"limit": client.MOST}, max_age=FRESH_S).pick(*COLUMNS)


def _checked(agent: Agent, rows: pl.DataFrame, page: Page) -> Iterator[Step]:
    """What is to arrive from an agent, and what of it has, in the order in which it comes."""
    newest = rows.sort("last_seen", descending=True, nulls_last=True).head(1)["last_seen"].to_list()
    detail = f"last {words.age(newest[0], page.now, page.zone)}" if newest else ""
    yield Step(f"Anything from {words.plain(agent.title)}", "told" if rows.height else "waiting", detail)
    yield _calls(rows)
    yield from _facts(rows.filter("tool_data"))
    checks = [check for text in rows["checks"].to_list() for check in components.as_json(text) or ()]
    for each in agent.untold:
        yield _switch(each, {check["state"] for check in checks if check["what"] == each["what"]})


def _facts(rows: pl.DataFrame) -> Iterator[Step]:
    """What each call should say, and whether calls say it."""
    shares = [components.as_json(text) or {} for text in rows["coverage"].to_list()]
    cures = [components.as_json(text) or {} for text in rows["remedies"].to_list()]
    for fact, (what, lost) in FACTS.items():
        told = [share[fact] for share in shares if share.get(fact) is not None]
        if not told:
            yield Step(what, "waiting")
        elif max(told) >= SELDOM:
            yield Step(what, "told")
        else:
            yield Step(what, "missing", next((words.plain(each[fact]) for each in cures if each.get(fact)), lost))


def _switch(untold: Mapping[str, Any], states: Set[str]) -> Step:
    """A fact that the agent sends only with a setting. `states` are what is known of it from what arrived."""
    ways = untold.get("switches", ())
    visible = any(way.get("arrival") for way in ways)
    state = next((name for name in ("told", "missing") if name in states), "waiting" if visible else "unseen")
    return Step(untold["what"], state, ways=ways)


def _calls(rows: pl.DataFrame) -> Step:
    """Whether there are calls; senders of metrics alone, and of records that no table reads, have none."""
    calls = rows.filter("tool_data")
    if calls.height:
        number, failed = (int(calls[name].sum() or 0) for name in ("events", "errors"))
        return Step("calls", "told", f"{words.count(number)}, {words.count(failed)} of them failed")
    if not rows.height:
        return Step("calls", "waiting")
    if rows["metrics"].drop_nulls().len():
        return Step("calls", "missing", "only metrics arrive; send its logs or traces too")
    unread = words.plural(int(rows["unread"].sum() or 0), "record")
    return Step("calls", "missing", f"{unread} came that no table reads: Sources has more")
