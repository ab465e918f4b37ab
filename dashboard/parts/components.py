"""The building blocks of pages: parts that fail by themselves, states, links, figures and charts."""

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import polars as pl
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import menu
from dashboard.access import people
from dashboard.charts import charts, colours
from dashboard.charts.axes import Picture, tight
from dashboard.data import client, frames
from dashboard.data.client import Answer, Collector, Problem
from dashboard.data.filters import DIMENSIONS, Filters, rfc3339
from dashboard.menu import MENU, SUBJECTS
from dashboard.page import BARS, LATE, Page, collector, every
from dashboard.parts import filter_bar, sentences, share, words

SIDE_BY_SIDE = 7  # options of a switch that fit beside each other, or in a few lines of a phone
LASTING = ("lasting", "not_known_yet", "errors")  # what is told of errors that no later attempt repaired
LASTING_FIRST = "-lasting,-not_known_yet,-errors"
FULL_WIDTH, HALF_WIDTH = 60, 30  # characters of a subject, so that its facts fit on the same line
SHORTER = {"The last 24 h": "-24h", "The last hour": "-1h"}  # ranges to take where one takes too long
ALERTS_S = 5.0  # how old the numbers of firing alerts may be, which stand in several places
SENDERS = {"limit": client.MOST}  # what `sampling` asks of the sources
log = logging.getLogger(__name__)


@contextmanager
def part(title: str = "", help: str | None = None) -> Iterator[None]:
    """One part of a page under its title. A failure inside is reported there and does not affect the rest."""
    if title:
        st.subheader(title, anchor=False, help=help)
    late: list[datetime] = []
    outer = LATE.set(late)
    try:
        yield
    except Problem as problem:
        say(problem)
    except Exception:
        mark = uuid4().hex[:4]
        log.exception("Part %r of a page failed (id %s)", title, mark)
        st.caption(f"This part failed (id {mark}). The rest of the page works.")
    finally:
        LATE.reset(outer)
    if late:
        old = words.elapsed(min(late), datetime.now(UTC))
        st.caption(f"This is {old} old: the collector takes longer than {client.TIMEOUT_S:.0f} s to say more.")


def beside(title: str, body: Callable[..., None], *about: object, help: str | None = None) -> None:
    """A part that loads in parallel with the others, and that runs alone when something in it is clicked."""

    def shown() -> None:
        with part(title, help):
            body(*about)

    with st.container():  # a container of its own, because fragments are identified by their position
        st.fragment(shown, parallel=True)()


def say(problem: Problem) -> None:
    """Shows a problem in its words, with a link to a remedy if there is one."""
    st.caption(words.plain(problem.sentence[:1].upper() + problem.sentence[1:], 400))
    filters, now = filter_bar.from_link(), datetime.now(UTC)
    start, end = filters.span(now)
    shorter = {label: filters.between(ago) for label, ago in SHORTER.items()}
    ways = {
        "refused": {"Reset filters": Filters()},
        "slow": {label: other for label, other in shorter.items() if now - other.span(now)[0] < end - start},
    }.get(problem.state, {})
    _ways(st.session_state.get("page", "overview"), ways)


def _ways(name: str, ways: Mapping[str, Filters]) -> None:
    """Links to the same page with other filters."""
    if not ways:
        return
    with st.container(horizontal=True):
        for label, filters in ways.items():
            st.page_link(f"views/{name}.py", label=f"{label} →", query_params=filters.query())


def caution(answer: Answer) -> None:
    """Says where both sides of a comparison are known from different places."""
    if said := answer.rest.get("caution"):
        st.warning(str(said))


def quiet(sentence: str) -> None:
    """Shows a grey line of our own words."""
    st.caption(sentence)


def not_known(number: float | None) -> str:
    """The note on a number of lasting errors that others may still become one; empty if none is open."""
    return f"{words.count(number)} not known yet" if number else ""


def of_errors(total: Mapping[str, float | None]) -> str:
    """The denominator of a number of lasting errors, and how many of it are open."""
    of, open_ = words.plural(total.get("errors"), "error"), not_known(total.get("not_known_yet"))
    return f"of {of} · {open_}" if open_ else f"of {of}"


def sampling(page: Page) -> str:
    """The note on rates of this page that their senders are sampled upstream; empty if they are not."""
    return sentences.sampled(page.ask("sources", **SENDERS).pick("source", "service", "sampled", "kept"))


def reconciled(page: Page, totals: Mapping[str, Any]) -> None:
    """Says which of these calls the rates of a page leave out; nothing where there are no rates."""
    if page.filters.of_failures:
        return
    senders = page.ask("sources", **SENDERS).pick("source", "reports_ok", "errors")
    if said := sentences.apart(totals, senders):
        quiet(said)


def sampled(page: Page) -> None:
    """Shows that note as a grey line, in a part with rates."""
    if said := sampling(page):
        st.caption(said, help=words.HELP["sampled"])


def rateless(page: Page) -> bool:
    """Whether a part has no rates of errors, because only failures match; says so."""
    only = bool(page.filters.of_failures)
    if only:
        st.caption("No rate: no call that went well matches the filters.", help=words.HELP["only errors"])
    return only


def nothing(page: Page, what: str = "calls") -> None:
    """Shows that a part has no rows: what was looked for, among how many calls, and how to see more."""
    filters = page.filters
    bare = Filters(filters.start, filters.end).api()
    answer = page.collector.ask("breakdown", bare, max_age=30.0)
    if not (of := answer.first().get("calls")):
        _nothing_at_all(page, answer.rest.get("newest"))
        return
    named = [words.clip(str(condition), 80) for condition in filters.conditions]
    named += [f"{words.clip(filters.text, 60)} in the message"] if filters.text else []
    said = words.plain(" and ".join(named))
    within = page.ask("breakdown").first().get("calls") if named else of
    if within:  # calls match, but none of them is what was looked for
        whose = f"the {words.plural(within, 'call')}" + (f" with {said}" if named else "")
        quiet(f"No {what} among {whose} in {period(filters)}.")
    else:
        quiet(f"No {what} match. Of {words.plural(of, 'call')} in {period(filters)}, 0 have {said}.")
    subjects = SUBJECTS.get(page.name, ())
    ways = {f"Remove {DIMENSIONS[c.dimension]}": filters.set(c.dimension)
            for c in filters.conditions if c.dimension not in subjects}  # fmt: skip
    wider = {"The last 7 d": filters.between("-7d")} if filters.start not in {"-7d", "-30d"} else {}
    _ways(page.name, ways | wider)


def _nothing_at_all(page: Page, newest: str | None) -> None:
    if not newest:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption("Nothing received yet.", width="content")
            st.page_link("views/overview.py", label="How to point an agent here →")
        return
    last = moment(newest)
    earlier(page, f"Nothing in {period(page.filters)}. Last event {words.elapsed(last, page.now)} ago.", last)


def earlier(page: Page, said: str, last: datetime, filters: Filters | None = None) -> None:
    """A sentence about an empty range, and a link to the day that ends with what was seen last."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(said, width="content")
        end = last + timedelta(seconds=1)
        day = (filters or page.filters).between(rfc3339(end - timedelta(days=1)), rfc3339(end))
        st.page_link(f"views/{page.name}.py", label="Show it →", query_params=day.query())


def period(filters: Filters) -> str:
    """The range as words: `the last 24 h`, `this range`."""
    return f"the last {words.span(filters.seconds)}" if filters.moving and filters.seconds else "this range"


def link(page: Page, to: str, label: str, **about: str | None) -> None:
    """A real link to another page that keeps the filters and sets those of `about`; the label is Markdown."""
    st.page_link(f"views/{to}.py", label=label, query_params=_leading(page, about).query())


def address(page: Page, to: str, **about: str | None) -> str:
    """Where such a link leads, for rows of a table: relative to the dashboard's own address."""
    return share.address(menu.address(to), _leading(page, about))


def session_of(row: Mapping[str, Any]) -> dict[str, str | None]:
    """What a link to the session of a row names: in other services or projects, one may have the same id."""
    return {name: row.get(name) for name in SUBJECTS["session"]}


def _leading(page: Page, about: Mapping[str, str | None]) -> Filters:
    filters = page.filters.carried(*SUBJECTS.get(page.name, ()))
    for name, value in about.items():
        if name in DIMENSIONS:
            filters = filters.set(name, [value] if value is not None else [])
        else:
            filters = filters.showing(**{name: value or ""})
    return filters


def row(page: Page, to: str, subject: str, facts: str, *, limit: int = FULL_WIDTH, **about: str | None) -> None:
    """One row of a short list: its subject as a link (agent text, shortened), and facts about it (Markdown)."""
    link(page, to, f"**{words.plain(subject, limit)}** \u2002 :gray[{facts}]", **about)


def sidebar(current: str) -> None:
    """The menu; its links carry the filters of the open page."""
    filters = filter_bar.from_link().carried(*SUBJECTS.get(current, ()))
    with st.sidebar:
        st.markdown("**Misstep**")
        for group, pages in MENU.items():
            st.caption(group)
            for name, title in pages:
                if name == "alerts":
                    st.fragment(_alerts_link, run_every=every(filters))(title, filters)
                else:
                    st.page_link(f"views/{name}.py", label=title, query_params=filters.query(), width="stretch")
        _reader()


def _reader() -> None:
    """Who looks at the pages, and at which project."""
    person = people.person()
    people.choice(people.projects())
    if person.name:
        of = f", project {words.plain(person.project)}" if person.project else ""
        st.caption(f"Signed in as {words.plain(person.name)}{of}")
    else:
        st.caption("One shared reader", help="Nobody signs in: what is changed here is not told apart by person.")


def _alerts_link(title: str, filters: Filters) -> None:
    try:
        firing = alerts(collector())["state"].eq("firing").sum()
    except Problem:
        firing = 0
    label = f"{title} · {firing} firing" if firing else title
    st.page_link("views/alerts.py", label=label, query_params=filters.query(), width="stretch")


def alerts(collector: Collector) -> pl.DataFrame:
    """Rule and state of each alert that receivers are notified of."""
    rows = alerts_answer(collector).pick("rule", "state", "silenced", "inhibited_by")
    return rows.filter(~frames.quiet())


def alerts_answer(collector: Collector) -> Answer:
    """The alerts with what the API tells beside them; their `receivers` are not shown to readers of one project."""
    return collector.ask("alerts", {"limit": client.MOST}, max_age=ALERTS_S)


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a page: its label, its change, and the page that it links to."""

    label: str
    value: str
    help: str | None = None
    delta: str | None = None
    clear: bool = False  # whether the change is statistically clear
    note: str = ""
    trend: Sequence[float] = ()
    to: str = ""
    more: str = "Show"
    about: Mapping[str, str | None] | None = None


def figures(page: Page, items: Sequence[Figure]) -> None:
    """Shows figures side by side, on several lines in a narrow window."""
    with st.grid(len(items), min_column_width=150, key=f"figures-{page.name}-{items[0].label}"):
        for item in items:
            with st.container(border=True, height="stretch", gap="xsmall", vertical_alignment="distribute"):
                st.metric(
                    item.label,
                    item.value,
                    delta=item.delta,
                    delta_color="inverse" if item.clear else "off",
                    help=item.help,
                )
                if item.trend:
                    alt_text = f"{item.label} in {len(item.trend)} equal parts of the range."
                    chart(charts.trend(item.trend, page.palette), f"trend-{page.name}-{item.label}", alt_text)
                if item.note:
                    quiet(item.note)
                if item.to:
                    link(page, item.to, f"{item.more} →", **(item.about or {}))


def pair(key: str) -> tuple[DeltaGenerator, DeltaGenerator]:
    """Places for two parts side by side, stacked in a narrow window."""
    with st.grid(2, min_column_width=420, gap="medium", key=key):
        return st.container(), st.container()


def clicked(picture: Picture, key: str, alt_text: str) -> dict[str, Any] | None:
    """Shows a chart whose marks can be clicked; returns the fields of the clicked one."""
    state = st.altair_chart(
        tight(picture), width="stretch", key=key, alt=alt_text, on_select="rerun", selection_mode="picked"
    )
    points = state.get("selection", {}).get("picked", ())
    return dict(points[0]) if points else None


def chart(picture: Picture, key: str, alt_text: str) -> None:
    """Shows a chart, with a sentence for readers who cannot see it."""
    st.altair_chart(tight(picture), width="stretch", key=key, alt=alt_text)


def total(rows: pl.DataFrame, column: str) -> float:
    """The sum of a column."""
    return float(rows[column].sum())


def over_time(page: Page, **params: str) -> tuple[pl.DataFrame, int]:
    """Errors and calls by category and bucket, and the length of a bucket in seconds."""
    step = page.bucket(BARS)
    answer = page.ask("timeseries", by="category", bucket=f"{step}s", **params)
    rows = answer.pick("time", "category", "errors", "calls").with_columns(pl.col("errors", "calls").fill_null(0))
    return page.drawn(rows), step


def key_of(page: Page) -> int:
    """A key that tells the widgets of one view from those with other filters, or with the same ones some clicks ago."""
    return hash((page.asked, filter_bar.turn()))


def brushed(page: Page, picture: Picture, key: str, alt_text: str) -> None:
    """Shows a chart over time: dragging over it sets the page's range, its legend filters by category."""
    # The filters are part of the key: other ones make another chart, without the brush or click that led to them.
    key = f"{key}-{key_of(page)}"
    state = st.altair_chart(
        tight(picture), width="stretch", key=key, alt=alt_text, on_select="rerun", selection_mode=["brush", "legend"]
    )
    picked = state.get("selection", {})
    if span := picked.get("brush", {}).get("time"):
        filter_bar.zoom(page.filters, *(page.meant(datetime.fromtimestamp(ms / 1000, UTC)) for ms in span))
        st.rerun()
    if named := [point["slot"] for point in picked.get("legend", ()) if "slot" in point]:
        known = [name for name in named if name != colours.OTHER]
        filter_bar.go(page.filters.set("category", known, () if known else colours.CATEGORIES))
        st.rerun()


def switch(
    page: Page, name: str, label: str, options: Sequence[str], labels: Mapping[str, str] | None = None,
    clears: Sequence[str] = (),
) -> str:  # fmt: skip
    """Shows a switch between a few options of a view, kept in the link; the first is the default.

    Options that do not fit beside each other make a list. `clears`: what else the link says of the view that another
    option makes pointless.
    """
    bound = in_link(f"switch-{page.name}-{name}", name, options, options[0], clears)

    def said(option: str) -> str:
        return (labels or {}).get(option, option)

    if len(options) > SIDE_BY_SIDE:
        return str(st.selectbox(label, options, width=240, format_func=said, **bound))
    return str(st.segmented_control(label, options, required=True, format_func=said, **bound))


def in_link(key: str, name: str, options: Sequence[Any], usual: Any, clears: Sequence[str] = ()) -> dict[str, Any]:
    """Arguments of a widget that shows and changes a value of the view's state in the link, one of these options."""
    asked = filter_bar.from_link().state(name)

    def write() -> None:
        chosen = st.session_state[key]
        changed = dict.fromkeys(clears, "") | {name: "" if chosen == usual else str(chosen)}
        filter_bar.go(filter_bar.from_link().showing(**changed))

    shown = next((option for option in options if str(option) == asked), usual)
    return filter_bar.bind(key, shown, write, label="visible")


def as_json(value: str | None) -> Any:
    """The value of a column that holds JSON text."""
    try:
        return json.loads(value) if value else None
    except ValueError:
        return value


def moment(text: str) -> datetime:
    """Parses a time that the API gives outside of its rows."""
    return datetime.fromisoformat(text)
