"""The building blocks of pages: the frame, parts that fail by themselves, states, links, figures and charts."""

import json
import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import polars as pl
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import client, colours, filterbar, frames, sentences, share, words
from dashboard.axes import Picture, tight
from dashboard.client import Answer, Collector, Problem
from dashboard.filters import DIMENSIONS, Filters, rfc3339
from dashboard.menu import MENU, SUBJECTS

BUCKETS = (1, 5, 15, 60, 300, 900, 3600, 10_800, 21_600, 43_200, 86_400, 604_800)  # seconds
FIRST_PX = 420  # height that the first answers of most pages take
WIDTH = "misstep-width"  # cookie with the width of the browser's window
NARROW_PX = 1200  # in narrower windows, tables leave out dispensable columns
FULL_WIDTH, HALF_WIDTH = 60, 30  # characters of a subject, so that its facts fit on the same line
BARS = 96  # in a chart of full width
SHORTER = {"The last 24 h": "-24h", "The last hour": "-1h"}  # ranges to take where one takes too long
ALERTS_S = 5.0  # how old the numbers of firing alerts may be, which stand in several places
SENDERS = {"limit": "500"}  # what `sampling` asks of the sources
_late: ContextVar[list[datetime] | None] = ContextVar("late", default=None)  # when the late answers of a part were new
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Page:
    """One page being shown: its filters, the collector to ask, and the reader's colours and time zone."""

    name: str
    filters: Filters
    collector: Collector
    palette: colours.Palette
    zone: ZoneInfo
    narrow: bool = False

    def ask(self, place: str, max_age: float | None = None, /, **params: str | None) -> Answer:
        """The API's answer for this page's filters and `params`, which can only narrow them; None removes a filter.

        `max_age`: seconds for which a cached answer is good, if that must not depend on how long it took.
        """
        merged = self._merged(params)
        return _remembered(place, merged, self.collector.ask(place, merged, max_age=max_age))

    def later(self, place: str, **params: str | None) -> Callable[[], Answer]:
        """Starts to `ask` and returns a function that waits for the answer, so that queries run in parallel."""
        merged = self._merged(params)
        asking = self.collector.begin(place, merged)
        return lambda: _remembered(place, merged, asking.result())

    def ask_all(self, place: str, params: Mapping[str, str] | None = None, max_age: float | None = None) -> Answer:
        """The API's answer, whatever this page's filters are."""
        return _remembered(place, params or {}, self.collector.ask(place, params, max_age=max_age))

    def _merged(self, params: Mapping[str, str | None]) -> dict[str, str]:
        asked = {name: self.filters.also(name, value) for name, value in params.items() if value is not None}
        kept = {name: value for name, value in self.filters.api().items() if name not in params}
        return kept | asked

    @property
    def now(self) -> datetime:
        """The present time, which moves on while parts refresh themselves."""
        return datetime.now(UTC)

    @property
    def length(self) -> timedelta:
        """The length of the range, and so of the period before it."""
        start, end = self.filters.span(self.now)
        return end - start

    @property
    def shift(self) -> timedelta:
        """What charts add to every time, because a browser draws times in its own zone instead of the chosen one."""
        own = _zone(Filters())
        here, there = (self.now.astimezone(zone).utcoffset() or timedelta() for zone in (own, self.zone))
        return there - here

    def drawn(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows with `time` as a chart must have it (see `shift`)."""
        return rows.with_columns(pl.col("time") + self.shift) if self.shift else rows

    @property
    def axis(self) -> tuple[datetime, datetime]:
        """The span of a chart over time."""
        start, end = self.span
        return start + self.shift, end + self.shift

    @property
    def span(self) -> tuple[datetime, datetime]:
        """Start and end of what is shown: the range in whole buckets, so that refreshing seldom moves an axis."""
        step = self.bucket(BARS)
        start, end = (moment.timestamp() for moment in self.filters.span(self.now))
        return datetime.fromtimestamp(start // step * step, UTC), datetime.fromtimestamp(-(-end // step) * step, UTC)

    def bucket(self, bars: int) -> int:
        """The shortest round length in seconds that divides the range into at most `bars` buckets."""
        start, end = self.filters.span(self.now)
        return next((nice for nice in BUCKETS if (end - start).total_seconds() <= bars * nice), BUCKETS[-1])

    @property
    def asked(self) -> int:
        """A number that stays the same while the filters do, whatever the state of the view."""
        return hash(replace(self.filters, view=()))

    @property
    def every(self) -> float | None:
        """Seconds between refreshes; None if nothing can change or the reader switched them off."""
        return every(self.filters)


def every(filters: Filters) -> float | None:
    """Seconds between the refreshes of a page with these filters."""
    return float(filters.refresh) if filters.moving and filters.refresh else None


def _remembered(place: str, params: Mapping[str, str], answer: Answer) -> Answer:
    share.remember(place, params, answer.rows.height)
    if answer.late and (late := _late.get()) is not None:
        late.append(answer.fetched)
    return answer


@st.cache_resource(show_spinner=False)
def _collector(url: str, token: str) -> Collector:
    return client.from_environment({"MISSTEP_COLLECTOR_URL": url, "MISSTEP_QUERY_TOKEN": token})


def collector() -> Collector:
    """The one collector of this process."""
    return _collector(os.environ.get("MISSTEP_COLLECTOR_URL", ""), os.environ.get("MISSTEP_QUERY_TOKEN", ""))


def open_page(
    name: str, title: str, question: str, *, bar: filterbar.Bar = "filters",
    view: Mapping[str, Collection[str] | None] | None = None,
) -> Page:  # fmt: skip
    """Shows the title, question and filter bar of a page, and notices that come before everything else.

    `view`: the keys of the view's state that its link may have, each with the values that are known, None for any.
    """
    filters = filterbar.from_link()
    usual = {"tz": _named(filters.state("tz")) is not None, "refresh": filters.state("refresh").isdecimal()}
    filters = filters.viewed({name: None for name, known in usual.items() if known} | dict(view or {}))
    width = dict(st.context.cookies).get(WIDTH, "")
    narrow = width.isdecimal() and int(width[:6]) < NARROW_PX
    page = Page(name, filters, collector(), colours.palette(st.context.theme.type), _zone(filters), narrow)
    share.forget(name, filters)
    st.session_state["page"] = name
    filterbar.addressed(name)
    st.title(title, anchor=False)
    st.caption(question)
    filterbar.show(name, page.collector, page.zone, SUBJECTS.get(name, ()), bar)
    ignored(*filters.ignored)
    return page


def ignored(*parts: str) -> None:
    """Names what was not understood in the link."""
    if parts:
        st.caption(f"Ignored from the link: {words.plain(', '.join(parts))}")


def refreshing(body: Callable[[Page], None], page: Page, every: float | None = None, *, paused: bool = False) -> None:
    """Runs the body of a page, repeatedly while the page's range moves."""

    def shown() -> None:
        place = st.empty()
        if first.pop() if first else False:
            place.skeleton(height=FIRST_PX)
        with place.container():
            _away_bar(page)
            body(page)

    first = [True]
    st.fragment(shown, run_every=None if paused else every or page.every)()


def _zone(filters: Filters) -> ZoneInfo:
    names = (filters.state("tz"), st.context.timezone or "")
    return next((zone for name in names if (zone := _named(name))), ZoneInfo("UTC"))


def _named(zone: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _away_bar(page: Page) -> None:
    if since := page.collector.since_away():
        at = words.clock(since, page.zone, now=page.now)
        st.error(
            f"Collector at {page.collector.place} does not answer (since {at}). What is shown is the last that it "
            "said. Retrying. Is it running? `MISSTEP_COLLECTOR_URL` names another where the dashboard runs."
        )


@contextmanager
def part(title: str = "", help: str | None = None) -> Iterator[None]:
    """One part of a page under its title. A failure inside is reported there and does not affect the rest."""
    if title:
        st.subheader(title, anchor=False, help=help)
    late: list[datetime] = []
    outer = _late.set(late)
    try:
        yield
    except Problem as problem:
        say(problem)
    except Exception:
        mark = uuid4().hex[:4]
        log.exception("Part %r of a page failed (id %s)", title, mark)
        st.caption(f"This part failed (id {mark}). The rest of the page works.")
    finally:
        _late.reset(outer)
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
    filters, now = filterbar.from_link(), datetime.now(UTC)
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


def quiet(sentence: str) -> None:
    """Shows a grey line of our own words."""
    st.caption(sentence)


def sampling(page: Page) -> str:
    """The note on rates of this page that their senders are sampled upstream; empty if they are not."""
    senders = page.collector.ask("sources", {**page.filters.api(), **SENDERS}, max_age=30.0).pick(
        "source", "service", "sampled", "kept"
    )
    return sentences.sampled(senders)


def sampled(page: Page) -> None:
    """Shows that note as a grey line, in a part with rates."""
    if said := sampling(page):
        st.caption(said, help=words.HELP["sampled"])


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
    filters = page.filters.carried(*SUBJECTS.get(page.name, ()))
    for name, value in about.items():
        if name in DIMENSIONS:
            filters = filters.set(name, [value] if value is not None else [])
        else:
            filters = filters.showing(**{name: value or ""})
    st.page_link(f"views/{to}.py", label=label, query_params=filters.query())


def row(
    page: Page, to: str, subject: str, facts: str, *, before: str = "", limit: int = FULL_WIDTH, **about: str | None
) -> None:
    """One row of a short list: its subject as a link (agent text, shortened), and facts about it (Markdown)."""
    head = f":gray[{before}] \u2002" if before else ""
    link(page, to, f"{head}**{words.plain(subject, limit)}** \u2002 :gray[{facts}]", **about)


def sidebar(current: str) -> None:
    """The menu; its links carry the filters of the open page."""
    filters = filterbar.from_link().carried(*SUBJECTS.get(current, ()))
    with st.sidebar:
        st.markdown("**Misstep**")
        for group, pages in MENU.items():
            st.caption(group)
            for name, title in pages:
                if name == "alerts":
                    st.fragment(_alerts_link, run_every=every(filters))(title, filters)
                else:
                    st.page_link(f"views/{name}.py", label=title, query_params=filters.query(), width="stretch")


def _alerts_link(title: str, filters: Filters) -> None:
    try:
        firing = alerts(collector())["state"].eq("firing").sum()
    except Problem:
        firing = 0
    label = f"{title} · {firing} firing" if firing else title
    st.page_link("views/alerts.py", label=label, query_params=filters.query(), width="stretch")


def alerts(collector: Collector) -> pl.DataFrame:
    """Rule and state of each alert that receivers are told of."""
    rows = collector.ask("alerts", max_age=ALERTS_S).pick("rule", "state", "silenced", "inhibited_by")
    return rows.filter(pl.Series([not frames.quiet(row) for row in rows.iter_rows(named=True)], dtype=pl.Boolean))


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
                    chart_data=list(item.trend) or None,
                    chart_type="bar",
                )
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
    return hash((page.asked, filterbar.turn()))


def brushed(page: Page, picture: Picture, key: str, alt_text: str) -> None:
    """Shows a chart over time: dragging over it sets the page's range, its legend filters by category."""
    # The filters are part of the key: other ones make another chart, without the brush or click that led to them.
    key = f"{key}-{key_of(page)}"
    state = st.altair_chart(
        tight(picture), width="stretch", key=key, alt=alt_text, on_select="rerun", selection_mode=["brush", "legend"]
    )
    picked = state.get("selection", {})
    if span := picked.get("brush", {}).get("time"):
        filterbar.zoom(page.filters, *(datetime.fromtimestamp(ms / 1000, UTC) - page.shift for ms in span))
        st.rerun()
    if named := [point["slot"] for point in picked.get("legend", ()) if "slot" in point]:
        known = [name for name in named if name != colours.OTHER]
        filterbar.go(page.filters.set("category", known, () if known else colours.CATEGORIES))
        st.rerun()


def switch(
    page: Page, name: str, label: str, options: Sequence[str], labels: Mapping[str, str] | None = None,
    clears: Sequence[str] = (),
) -> str:  # fmt: skip
    """Shows a switch between a few options of a view, kept in the link; the first is the default.

    `clears`: what else the link says of the view that another option makes pointless.
    """
    bound = in_link(f"switch-{page.name}-{name}", name, options, options[0], clears)
    said = labels or {}
    return str(st.segmented_control(label, options, required=True, format_func=lambda one: said.get(one, one), **bound))


def in_link(key: str, name: str, options: Sequence[Any], usual: Any, clears: Sequence[str] = ()) -> dict[str, Any]:
    """Arguments of a widget that shows and changes a value of the view's state in the link, one of these options."""
    asked = filterbar.from_link().state(name)

    def write() -> None:
        chosen = st.session_state[key]
        changed = dict.fromkeys(clears, "") | {name: "" if chosen == usual else str(chosen)}
        filterbar.go(filterbar.from_link().showing(**changed))

    shown = next((option for option in options if str(option) == asked), usual)
    return filterbar.bind(key, shown, write, label="visible")


def event_card(page: Page, event: Mapping[str, Any], among: pl.DataFrame | None = None) -> None:
    """Shows one event in full, without what its page says anyway; `among` are the events of its session."""
    within_session = page.name in {"session", "streak"}
    with st.container(border=True, gap="small"):
        name = event.get("error_class") or event.get("outcome") or ""
        where = event.get("tool") or event.get("operation") or ""
        st.markdown(f"**{words.plain(name)}** · {words.plain(where, 60)}", help=f"event {event.get('event_id')}")
        st.caption(f"{' · '.join(_facts(page, event))}")
        if among is not None and (twin := frames.twin(among, event)):
            st.caption(f"The identical call as no. {twin}.")
        if event.get("message"):
            st.code(event["message"], language=None, wrap_lines=True)
        if event.get("suggestion") and page.name != "group":
            st.caption(f"What helps: {words.plain(event['suggestion'], 300)}")
        if (params := as_json(event.get("params"))) is not None:
            st.caption("Parameters")
            if isinstance(params, dict | list):
                st.json(params, expanded=within_session)
            else:  # one text instead of named values, such as a patch
                st.code(str(params), language=None, wrap_lines=True)
        elif event.get("operation") == "tool":
            st.caption("This agent does not send parameters. Sources says how to turn them on.")
        with st.container(horizontal=True, vertical_alignment="center"):
            if event.get("fingerprint") and page.name != "group":
                link(page, "group", "All errors like this →", fingerprint=str(event["fingerprint"]))
            if event.get("session") and not within_session:
                at = {"service": event["service"]} if event.get("service") else {}
                link(page, "session", "Its session →", session=event["session"], event=str(event["event_id"]), **at)
            if (template := os.environ.get("MISSTEP_TRACE_URL")) and event.get("trace_id"):
                st.link_button("Trace →", template.replace("{trace_id}", event["trace_id"]), type="tertiary")


def _facts(page: Page, event: Mapping[str, Any]) -> list[str]:
    facts = [words.clock(event.get("time"), page.zone, now=page.now), str(event.get("outcome"))]
    if event.get("duration_ms") is not None:
        facts.append(f"took {words.duration(event['duration_ms'])}")
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


def as_json(value: str | None) -> Any:
    """The value of a column that holds JSON text."""
    try:
        return json.loads(value) if value else None
    except ValueError:
        return value


def moment(text: str) -> datetime:
    """Parses a time that the API gives outside of its rows."""
    return datetime.fromisoformat(text)
