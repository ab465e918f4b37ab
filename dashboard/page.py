"""A page: what it asks, its frame, and how it refreshes."""

import os
from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import polars as pl
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.access import people
from dashboard.charts import colours
from dashboard.data.client import Answer, Collector, Problem
from dashboard.data.filters import OF_TABLE, Filters, of_table
from dashboard.data.moment import Moment
from dashboard.menu import SUBJECTS
from dashboard.parts import filter_bar, share, words

BUCKETS = (1, 5, 15, 60, 300, 900, 3600, 10_800, 21_600, 43_200, 86_400, 604_800)  # seconds
PEOPLE = 64  # whose answers are kept
BARS = 96  # in a chart of full width
TITLE = 80  # characters of one
FIRST_PX = 420  # height that the first answers of most pages take
WIDTH = "misstep-width"  # cookie with the width of the browser's window
VISITED = "misstep-visited"  # cookie with the end of this browser's visit before this one, in ms since 1970
NARROW_PX = 1200  # in narrower windows, tables leave out dispensable columns
SMALL_PX = 600  # in smaller ones, such as those of phones, charts have shorter names and narrower legends
LATE: ContextVar[list[datetime] | None] = ContextVar("late", default=None)  # when the late answers of a part were new


@dataclass(frozen=True, slots=True)
class Page:
    """One page being shown: its filters, the collector to ask, and the reader's colours and time zone."""

    name: str
    filters: Filters
    collector: Collector
    palette: colours.Palette
    zone: ZoneInfo
    narrow: bool = False
    small: bool = False
    visited: datetime | None = None  # end of the reader's visit before this one; None if there was none

    def ask(self, place: str, max_age: float | None = None, /, **params: str | None) -> Answer:
        """The API's answer for this page's filters and `params`, which can only narrow them; None removes a filter.

        `max_age`: seconds for which a cached answer is good, if it need not be of the page's moment.
        """
        merged = self._merged(params)
        moment = self._moment if max_age is None else None
        return _remembered(place, merged, self.collector.ask(place, merged, max_age=max_age, moment=moment))

    def later(self, place: str, **params: str | None) -> Callable[[], Answer]:
        """Starts to `ask` and returns a function that waits for the answer, so that queries run in parallel."""
        merged = self._merged(params)
        asking = self.collector.begin(place, merged, moment=self._moment)
        return lambda: _remembered(place, merged, asking.result())

    @property
    def _moment(self) -> Moment:
        return self.collector.moment(self.shows)

    def ask_all(self, place: str, params: Mapping[str, str] | None = None, max_age: float | None = None) -> Answer:
        """The API's answer, whatever this page's filters are."""
        return _remembered(place, params or {}, self.collector.ask(place, params, max_age=max_age))

    def later_all(self, place: str, params: Mapping[str, str], max_age: float) -> Callable[[], Answer]:
        """Starts to `ask_all`, as `later` does."""
        asking = self.collector.begin(place, params, max_age)
        return lambda: _remembered(place, params, asking.result())

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

    def drawn(self, rows: pl.DataFrame, *names: str) -> pl.DataFrame:
        """The rows with `time`, or these columns, as a chart must have them: a browser draws times in its own zone
        instead of the chosen one.
        """
        own = _zone(Filters())
        if own == self.zone:
            return rows
        columns = (rows[name] for name in names or ("time",))
        return rows.with_columns(
            pl.Series(times.name, [at and same_clock(at, self.zone, own) for at in times], times.dtype)
            for times in columns
        )

    def over(self, start: datetime, end: datetime) -> tuple[datetime, datetime]:
        """The span of a chart over this time (see `drawn`)."""
        return same_clocks(start, end, self.zone, _zone(Filters()))

    def meant(self, drawn: datetime) -> datetime:
        """The time that a chart has at this place of its axis (see `drawn`)."""
        return same_clock(drawn, _zone(Filters()), self.zone)

    @property
    def axis(self) -> tuple[datetime, datetime]:
        """The span of a chart over the page's range."""
        return self.over(*self.span)

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
    def shows(self) -> tuple[str, Filters]:
        """What viewers of the same page with the same filters have in common, whatever the state of their views."""
        return self.name, replace(self.filters, view=())

    @property
    def asked(self) -> int:
        """A number that stays the same while the filters do, whatever the state of the view."""
        return hash(replace(self.filters, view=()))

    @property
    def every(self) -> float | None:
        """Seconds between refreshes; None if nothing can change or the reader switched them off."""
        return every(self.filters)


def visit(cookie: str) -> datetime | None:
    """The time in a cookie that the browser may have lost, and people may have written."""
    known = cookie.isascii() and cookie.isdecimal() and len(cookie) <= 14
    return datetime.fromtimestamp(int(cookie) / 1000, UTC) if known else None


def same_clock(moment: datetime, one: tzinfo, other: tzinfo) -> datetime:
    """The moment at which the clocks of the other zone show what those of the one show at this moment."""
    return moment.astimezone(one).replace(tzinfo=other).astimezone(UTC)


def same_clocks(start: datetime, end: datetime, one: tzinfo, other: tzinfo) -> tuple[datetime, datetime]:
    """The same for a span of time, which stays as long where one zone puts its clocks back within it."""
    low, high = same_clock(start, one, other), same_clock(end, one, other)
    return low, high if high - low > (end - start) / 2 else low + (end - start)


def every(filters: Filters) -> float | None:
    """Seconds between the refreshes of a page with these filters."""
    return float(filters.refresh) if filters.moving and filters.refresh else None


def _remembered(place: str, params: Mapping[str, str], answer: Answer) -> Answer:
    share.remember(place, params, answer)
    if answer.late and (late := LATE.get()) is not None:
        late.append(answer.fetched)
    return answer


@st.cache_resource(show_spinner=False, max_entries=PEOPLE)
def _collector(url: str, token: str, alerts_token: str, person: people.Person) -> Collector:
    return Collector(url, token, alerts_token, person.headers())


def collector() -> Collector:
    """The collector at MISSTEP_COLLECTOR_URL, with the tokens that ask it and change its rules, as the person who looks
    at this page may ask it: nobody sees an answer that was given to somebody else.
    """
    url = os.environ.get("MISSTEP_COLLECTOR_URL") or "http://127.0.0.1:4318"
    asking, changing = (os.environ.get(f"MISSTEP_{name}_TOKEN", "").strip() for name in ("QUERY", "ALERTS"))
    return _collector(url, asking, changing, people.person())


def open_page(
    name: str, title: str, question: str, *, bar: filter_bar.Bar = "filters",
    view: Mapping[str, Collection[str] | None] | None = None, tables: Collection[str] = (),
    named: Callable[[Page], str] | None = None,
) -> Page:  # fmt: skip
    """Shows the title, question and filter bar of a page, and notices that come before everything else.

    `view`: the keys of the view's state that its link may have, each with the values that are known, None for any.
    `named`: the name of what the page is about, which is then its title, here and in the browser; by default the first
    of its subjects in the link. `tables`: the names of its `link_table`s, of which the link says order and page.
    """
    filters = filter_bar.from_link()
    usual = {"tz": _named(filters.state("tz")) is not None, "refresh": filters.state("refresh").isdecimal()}
    known = [name for name, right in usual.items() if right]
    known += [of_table(name, key) for name in tables for key in OF_TABLE]
    filters = filters.viewed(dict.fromkeys(known) | dict(view or {}))
    cookies = dict(st.context.cookies)
    width = cookies.get(WIDTH, "")
    narrow, small = (width.isdecimal() and int(width[:6]) < limit for limit in (NARROW_PX, SMALL_PX))
    page = Page(name, filters, collector(), colours.palette(st.context.theme.type), _zone(filters), narrow, small,
                visit(cookies.get(VISITED, "")))  # fmt: skip
    share.forget(name, filters)
    st.session_state["page"] = name
    filter_bar.addressed(name)
    if about := _about(page, named):
        st.set_page_config(page_title=f"{words.line(about, TITLE)} · Misstep")
    st.title(words.plain(about, TITLE) if about else title, anchor=False)
    st.caption(f"{title} · {question}" if about else question)
    filter_bar.show(name, page.collector, page.zone, SUBJECTS.get(name, ()), bar, small=small)
    ignored(*filters.ignored)
    return page


def _about(page: Page, named: Callable[[Page], str] | None) -> str:
    """The name of what a detail page is about; empty for other pages, and where the link does not say it."""
    [subject, *_] = SUBJECTS.get(page.name, ("",))
    value = page.filters.only(subject)
    if not value or named is None:
        return value
    try:
        return named(page)
    except Problem:  # which the page's own parts tell
        return ""


def ignored(*parts: str) -> None:
    """Names what was not understood in the link."""
    if parts:
        st.caption(f"Ignored from the link: {words.plain(', '.join(parts))}")


def refreshing(body: Callable[[Page], None], page: Page, every: float | None = None, *, paused: bool = False) -> None:
    """Runs the body of a page, repeatedly while the page's range moves."""

    def shown() -> None:
        place = st.empty()
        opened = first.pop() if first else False
        if opened:
            place.skeleton(height=FIRST_PX)
        page.collector.refresh(page.shows, ahead=not opened)
        with place.container():
            bar = st.empty()
            body(page)
            _away_bar(page, bar)

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


def _away_bar(page: Page, bar: DeltaGenerator) -> None:
    if since := page.collector.since_away():
        at = words.clock(since, page.zone, now=page.now)
        last = share.fetched()
        showing = f" Showing {words.clock(last, page.zone, now=page.now)}." if last else ""
        bar.error(
            f"Collector at {page.collector.place} does not answer (since {at}).{showing} Retrying. Is it running? "
            "`MISSTEP_COLLECTOR_URL` names another where the dashboard runs."
        )
