"""The bar above each page: range, service, tool, more filters, text, refresh. Its widgets show and change the URL."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal
from zoneinfo import ZoneInfo, available_timezones

import streamlit as st

from dashboard.access import sign_in
from dashboard.data.client import Collector, Problem, path
from dashboard.data.filters import CHOICES, DIMENSIONS, NO_VALUE, OWN, PRESETS, Condition, Filters, parse, rfc3339
from dashboard.parts import share, words

# What a page can be narrowed by: everything, only values of dimensions, only its range, or nothing, because it is told
# whole.
Bar = Literal["filters", "values", "range", "none"]
RANGED: Collection[Bar] = ("filters", "range")
NARROWED: Collection[Bar] = ("filters", "values")
CUSTOM = "Custom"
_MOVED = "filters-moved"
_ZOOMED = "filters-zoomed"
_TURN = "filters-turn"
_SEEN = "filters-seen"
VALUES = 200  # of a dimension that can be chosen
REFRESH = {"0": "Off", "10": "10 s", "60": "60 s"}
MENU_DIMENSIONS = (
    "project", "service_version", "environment", "agent", "model", "error_class", "category", "outcome", "attribution",
    "mistake", "recovered", "source", "mcp_server", "repository", "provenance", "operation",
)  # fmt: skip
QUICK = {
    "Mistakes only": Condition("mistake", ("true",)),
    "Not recovered": Condition("recovered", ("false",)),
    "Not the model's fault": Condition("attribution", (), ("model",)),
}
BUTTONS = ("service", "tool")  # dimensions with a button of their own, which says what is chosen
QUICK_PAGES = frozenset({"overview", "errors", "tools"})


def from_link() -> Filters:
    """The filters of the page's URL."""
    return parse(st.query_params.to_dict())


def go(filters: Filters) -> None:
    """Writes filters to the page's URL; the next run of the bar, which is a fragment, reruns the whole page."""
    st.query_params.from_dict(filters.query())
    st.session_state[_MOVED] = True
    st.session_state[_TURN] = turn() + 1


def addressed(page: str) -> None:
    """Writes the link of a page to the browser's address: Streamlit does so only if the link leads to another page."""
    query = st.query_params.to_dict()
    before = st.session_state.get(_SEEN)
    st.session_state[_SEEN] = (page, query)
    if before and before[0] == page and before[1] != query:
        st.query_params.from_dict(query)


def follow() -> None:
    """Reruns the whole page if filters have changed since: a fragment that runs alone still has the old ones."""
    if st.session_state.pop(_MOVED, False):
        st.rerun()


def turn() -> int:
    """How often filters were changed in this session: earlier clicks in a chart belong to earlier filters."""
    return int(st.session_state.get(_TURN, 0))


def zoom(shown: Filters, start: datetime, end: datetime) -> None:
    """Zooms in on a part of the range, and remembers the range that `Zoom out` goes back to."""
    filters = from_link()
    if (filters.start, filters.end) == (shown.start, shown.end):  # otherwise the same drag continues
        st.session_state.setdefault(_ZOOMED, []).append((filters.start, filters.end))
    go(filters.between(rfc3339(start), rfc3339(end)))


def show(
    page: str, collector: Collector, zone: ZoneInfo, subjects: tuple[str, ...], bar: Bar = "filters", *, small: bool
) -> None:
    """Shows the bar of a page and, below it, a chip for each condition that is not the page's subject.

    `small`: all of it is folded into one button, and again after each choice.
    """
    st.session_state.pop(_MOVED, None)
    st.fragment(_folded if small else _bar)(page, collector, zone, subjects, bar)


def _folded(page: str, collector: Collector, zone: ZoneInfo, subjects: tuple[str, ...], bar: Bar) -> None:
    filters = from_link()
    shown = [str(condition) for condition in filters.conditions if condition.dimension not in subjects]
    shown += [f"message has {filters.text}"] * bool(filters.text)
    parts = ["Refresh, share"] if bar == "none" else ["Filters"]
    parts += [_range_label(filters, zone)] if bar in RANGED else []
    parts += [words.plain(each, 40) for each in shown] if bar in NARROWED else []
    with st.expander(" · ".join(parts), key=f"fold-{page}-{turn()}"):
        _bar(page, collector, zone, subjects, bar)


def _bar(page: str, collector: Collector, zone: ZoneInfo, subjects: tuple[str, ...], bar: Bar) -> None:
    """A fragment, so that opening a menu does not run the page."""
    follow()
    filters = from_link()
    with st.container(horizontal=True, key="filters", vertical_alignment="center", gap="small"):
        if bar in RANGED:
            _range(filters, zone)
            if not filters.moving:
                st.button("Zoom out", key="zoom-out", type="tertiary", on_click=_zoom_out)
        if bar in NARROWED:
            for dimension in BUTTONS:
                if dimension not in subjects:
                    _dimension(filters, collector, dimension)
            _more(filters, collector)
        if bar == "filters":
            _text(filters)
        _refresh(filters)
        _share(filters, collector, ranged=bar in RANGED)
        _about(filters, collector, zone)
    if bar in NARROWED:
        asked = filters if bar == "filters" else replace(filters, text="")
        _chips(asked, subjects, quick=page in QUICK_PAGES)


def _zoom_out() -> None:
    filters, now = from_link(), datetime.now(UTC)
    start, end = filters.span(now)
    zoomed: list[tuple[str, str]] = st.session_state.get(_ZOOMED, [])
    while zoomed:
        wider = filters.between(*zoomed.pop())
        first, last = wider.span(now)
        if first <= start and end <= last and wider != filters:
            go(wider)
            return
    go(filters.between(rfc3339(start - (end - start)), rfc3339(min(end + (end - start), now))))


def bind(key: str, value: object, write: Callable[[], None], *, label: str = "collapsed") -> dict[str, Any]:
    """Arguments of a widget that always shows `value`, from the URL, and calls `write` when a person changes it."""
    st.session_state[key] = value  # also if it is that already: only then is a widget that is new on a page told it
    return {"key": key, "on_change": write, "label_visibility": label}


def _range(filters: Filters, zone: ZoneInfo) -> None:
    names = {start: name for name, start in PRESETS.items()}
    shown = names.get(filters.start, CUSTOM) if filters.moving else CUSTOM

    def write() -> None:
        chosen = st.session_state["range"]
        if chosen in PRESETS:
            st.session_state.pop(_ZOOMED, None)
            go(filters.between(PRESETS[chosen]))

    st.segmented_control("Range", [*PRESETS], **bind("range", None if shown == CUSTOM else shown, write))
    with st.popover(_range_label(filters, zone) if shown == CUSTOM else CUSTOM, key="custom-range"):
        _custom(filters, zone)


def _range_label(filters: Filters, zone: ZoneInfo) -> str:
    if filters.moving:
        return f"last {words.span(filters.seconds)}" if filters.seconds else f"since {words.plain(filters.start)}"
    if filters.seconds is None:
        return words.plain(f"{filters.start} … {filters.end}")
    start, end = (datetime.fromisoformat(text).astimezone(zone) for text in (filters.start, filters.end))
    day = words.day_form(start, datetime.now(UTC), zone)
    until = f"{end:%H:%M}" if start.date() == end.date() else f"{end:{day} %H:%M}"
    return f"{start:{day} %H:%M} – {until}"


def _custom(filters: Filters, zone: ZoneInfo) -> None:
    start, end = filters.span(datetime.now(UTC).replace(second=0, microsecond=0))
    with st.form("custom-form", border=False):
        first = st.datetime_input(f"From ({zone})", start.astimezone(zone).replace(tzinfo=None), step=60)
        last = st.datetime_input(f"To ({zone})", end.astimezone(zone).replace(tzinfo=None), step=60)
        if st.form_submit_button("Show") and first and last:
            if first < last:
                st.session_state.pop(_ZOOMED, None)
                go(filters.between(_utc(first, zone), _utc(last, zone)))
                st.rerun()
            st.caption("The start has to be before the end.")


def _utc(local: datetime, zone: ZoneInfo) -> str:
    return rfc3339(local.replace(tzinfo=zone))


def _options(filters: Filters, collector: Collector, dimension: str) -> dict[str, str]:
    """Values of a dimension in this range, most frequent first, each with its count."""
    if choices := CHOICES.get(dimension):
        return {value: value for value in sorted(choices)}
    params = filters.set(dimension).api() | {"limit": str(VALUES)}
    try:
        rows = collector.ask(path("values", dimension), params, max_age=30.0).pick("value", "calls").rows()
    except Problem:
        return {}
    return {str(value): f"{words.plain(str(value), 60)} \u2002{words.count(calls)}" for value, calls in rows if value}


def _offered(options: Mapping[str, str], dimension: str) -> None:
    """Says where a menu has no values, or not all of them."""
    if not options:
        st.caption(f"No {DIMENSIONS[dimension]} in this range.")
    elif len(options) >= VALUES:
        st.caption(f"The {VALUES} most frequent; the page's link takes any.")


def _dimension(filters: Filters, collector: Collector, dimension: str) -> None:
    chosen = filters.values(dimension)
    named = words.plain(", ".join(value or NO_VALUE for value in chosen), 16)
    label = f"{DIMENSIONS[dimension]}: {named}" if chosen else DIMENSIONS[dimension]
    popover = st.popover(label, key=f"open-{dimension}", on_change="rerun")
    if not popover.open:
        return
    options = _options(filters, collector, dimension)
    key = f"filter-{dimension}"

    def write() -> None:
        go(filters.set(dimension, st.session_state[key]))

    with popover:
        st.pills(
            DIMENSIONS[dimension],
            list(dict.fromkeys([*chosen, *options])),
            selection_mode="multi",
            format_func=lambda value: options.get(value, words.plain(value or NO_VALUE, 60)),
            **bind(key, list(chosen), write),
        )
        _offered(options, dimension)


def _more(filters: Filters, collector: Collector) -> None:
    popover = st.popover(r"\+ Filter", key="open-more", on_change="rerun")
    if not popover.open:
        return
    with popover:
        offered = [*MENU_DIMENSIONS, *OWN]
        if not _several_projects(filters, collector):
            offered.remove("project")
        dimension = st.selectbox("Filter by", offered, format_func=DIMENSIONS.__getitem__, key="more-dimension")
        sense = st.segmented_control(
            "Sense", ["is", "is not"], default="is", key="more-sense", label_visibility="collapsed"
        )
        options = _options(filters, collector, dimension)
        values = st.pills(
            "Values", list(options), selection_mode="multi", format_func=options.__getitem__, key=f"more-{dimension}"
        )
        _offered(options, dimension)

        def add() -> None:
            go(filters.adding(dimension, values, excluded=sense == "is not"))

        st.button("Add filter", key="more-add", disabled=not values, on_click=add)


def _several_projects(filters: Filters, collector: Collector) -> bool:
    """Whether the range has several projects, of which events without one are another."""
    params = Filters(filters.start, filters.end).api() | {"limit": "2"}
    try:
        found = collector.ask(path("values", "project"), params, max_age=30.0).rows.height
        return found > 1 or bool(filters.on("project").text)
    except Problem:
        return True


def _text(filters: Filters) -> None:
    def write() -> None:
        go(replace(filters, text=st.session_state["message-text"].strip()))

    st.text_input("Message text", placeholder="In the message", width=140, **bind("message-text", filters.text, write))


def _refresh(filters: Filters) -> None:
    label = f"{filters.refresh} s" if filters.moving and filters.refresh else "Off"

    def write() -> None:
        chosen = st.session_state.get("refresh")
        if chosen:
            go(filters.showing(refresh="" if chosen == "10" else chosen))

    st.menu_button(
        f"⟳ {label}", list(REFRESH), format_func=REFRESH.__getitem__, key="refresh", on_click=write,
        help="How often the page asks again; a closed range never changes.",
    )  # fmt: skip


@contextmanager
def _menu(label: str, key: str) -> Iterator[bool]:
    """A popover whose content is created only when it is open."""
    popover = st.popover(label, key=key, on_change="rerun")
    with popover:
        yield bool(popover.open)


def _share(filters: Filters, collector: Collector, *, ranged: bool) -> None:
    with _menu("⇧ Share", "share") as is_open:
        if not is_open:
            return
        base = (st.context.url or "").split("?")[0]
        st.caption("This view, with times that stay:" if ranged else "This view:")
        still = filters.still(datetime.now(UTC)) if ranged else filters
        st.code(share.address(base, still), language=None, wrap_lines=True)
        if still != filters:
            st.caption("The same with a range that moves:")
            st.code(share.address(base, filters), language=None, wrap_lines=True)
        asked = share.asked()
        if not asked:
            return
        query = st.selectbox("Rows of this page", asked, format_func=share.ApiQuery.__str__, key="share-rows")
        with st.container(horizontal=True):
            for form, mime in share.FORMATS.items():
                st.download_button(
                    form.upper() if form == "csv" else form.capitalize(), share.download(collector, query, form),
                    f"misstep-{query.name}.{form}", mime, key=f"download-{form}", on_click="ignore",
                )  # fmt: skip
        st.caption("The same for scripts:")
        st.code(share.curl(collector.url, query), language=None, wrap_lines=True)


def _about(filters: Filters, collector: Collector, zone: ZoneInfo) -> None:
    with _menu("⋯", "about") as is_open:
        if not is_open:
            return
        browser = st.context.timezone or "UTC"
        chosen = filters.state("tz")
        options = list(dict.fromkeys(["", "UTC", *sorted(available_timezones())]))

        def write() -> None:
            go(from_link().showing(tz=st.session_state["time-zone"] or ""))

        bound = bind("time-zone", chosen if chosen in options else "", write, label="visible")
        st.selectbox("Time zone", options, format_func=lambda name: name or f"the browser's ({browser})", **bound)
        st.divider()
        st.markdown("**About**")
        st.caption(f"Misstep {words.plain(share.VERSION)}, asking the collector at {words.plain(collector.place)}.")
        st.caption(f"Times are those of {words.plain(str(zone))}. Nothing on these pages is fetched from elsewhere.")
        if sign_in.wanted():
            st.button("Sign out", key="sign-out", on_click=st.logout)


def _quick(filters: Filters) -> None:
    on = [name for name, condition in QUICK.items() if condition in filters.conditions]

    def write() -> None:
        new = from_link()
        for name, condition in QUICK.items():
            if (name in st.session_state["quick"]) != (name in on):
                wanted = condition if name in st.session_state["quick"] else Condition(condition.dimension)
                new = new.set(condition.dimension, wanted.allowed, wanted.excluded)
        go(new)

    st.pills("Quick filters", list(QUICK), selection_mode="multi", **bind("quick", on, write))


def _chips(filters: Filters, subjects: tuple[str, ...], *, quick: bool) -> None:
    shown = [condition for condition in filters.conditions if condition.dimension not in subjects]
    narrowed = bool(shown)
    shown = [condition for condition in shown if condition.excluded or condition.dimension not in BUTTONS]
    if quick:
        shown = [condition for condition in shown if condition not in QUICK.values()]
    if not narrowed and not filters.text and not quick:
        return
    with st.container(horizontal=True, key="chips", gap="small", vertical_alignment="center"):
        if quick:
            _quick(filters)
        for condition in shown:
            _chip(condition.dimension, str(condition), filters.set(condition.dimension))
        if filters.text:
            _chip("text", f"message has {filters.text}", replace(filters, text=""))
        if narrowed or filters.text:
            bare = replace(filters, conditions=tuple(c for c in filters.conditions if c.dimension in subjects), text="")
            st.button("Clear all", key="chip-clear", type="tertiary", on_click=go, args=(bare,))


def _chip(name: str, said: str, without: Filters) -> None:
    st.button(f"{words.plain(said, 80)} ×", key=f"chip-{name}", help="Remove this filter", on_click=go, args=(without,))
