"""Frames in, charts out. Pure: no I/O, no Streamlit; colours come as a palette, titles stand on the page."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib import import_module
from typing import Literal

import altair as alt
import polars as pl

from dashboard.colours import ATTRIBUTIONS, OTHER, OUTCOMES, Palette, slot

# Tables load it, and Altair looks into it if it is there: half loaded by the thread of another part, it would fail.
import_module("pandas")

HEIGHT = 220
Picture = alt.Chart | alt.LayerChart | alt.FacetChart
PERCENT = "~%"
ALL = "all errors"
# Vega's own default is a 12-hour clock without am or pm.
_CLOCK = "timeFormat(datum.value, hours(datum.value) + minutes(datum.value) ? '%H:%M' : '%d %b')"


# Vega's own has no space before the per cent sign, which words on the pages have.
_NUMBERS = alt.NumberLocale(decimal=".", thousands=",", grouping=[3], currency=["$", ""], percent="\u00a0%")

Span = tuple[datetime, datetime]


def worded(picture: Picture) -> Picture:
    """The chart with numbers written as everywhere on the pages."""
    written: Picture = picture.configure(locale=alt.Locale(number=_NUMBERS))
    return written


def _time(span: Span) -> alt.X:
    """Time from end to end of the range, whether or not something happened."""
    axis = alt.Axis(title=None, labelExpr=_CLOCK, grid=False, tickCount=8)
    return alt.X("time:T", axis=axis, scale=alt.Scale(domain=[moment.astimezone(UTC) for moment in span]))


def _value_axis(palette: Palette, form: str = "d", title: str | None = None) -> alt.Axis:
    return alt.Axis(
        title=title, format=form, tickCount=4, gridColor=palette.line, domain=False, ticks=False, tickMinStep=0
    )


def _colour(field: str, colours: dict[str, str], legend: bool = True, columns: int = 0) -> alt.Color:
    domain = list(colours)
    columns = columns or (len(domain) if len(domain) <= 5 else 4)
    key = alt.Legend(
        title=None, orient="top", symbolType="square", labelLimit=200, columns=columns, padding=0, offset=6
    )
    scale = alt.Scale(domain=domain, range=[colours[name] for name in domain])
    return alt.Color(f"{field}:N", scale=scale, legend=key if legend else None)


def _steps(field: str, steps: Iterable[int | str], title: str) -> alt.X:
    """Whole numbers, each with its place whether or not it occurs."""
    axis = alt.Axis(title=title, labelAngle=0)
    return alt.X(f"{field}:O", axis=axis, scale=alt.Scale(domain=list(steps)))


def errors_over_time(
    frame: pl.DataFrame, palette: Palette, span: Span, bucket_s: float, *, brush: bool = False,
    before: pl.DataFrame | None = None, deploys: pl.DataFrame | None = None,
) -> Picture:  # fmt: skip
    """Errors stacked by category.

    `frame`: time, category, errors, calls, of; `before`: time, previous_errors, of the period before, as a grey line;
    `deploys`: time, label, each a dotted rule.
    """
    known = set(frame["category"].map_elements(slot, return_dtype=pl.String)) if frame.height else set()
    colours = {name: colour for name, colour in palette.category.items() if name in known}
    slots = {name: place for place, name in enumerate(palette.category)}
    rows = frame.with_columns(
        slot=pl.col("category").map_elements(slot, return_dtype=pl.String, skip_nulls=False),
        end=pl.col("time") + pl.duration(milliseconds=int(bucket_s * 1000)),
        rate=pl.col("errors").sum().over("time") / pl.col("of"),
    ).with_columns(place=pl.col("slot").replace_strict(slots, return_dtype=pl.Int64))
    bars: alt.Chart = (
        alt.Chart(rows, height=HEIGHT)
        .mark_bar(binSpacing=1)
        .encode(
            x=_time(span),
            x2="end:T",
            y=alt.Y("sum(errors):Q", axis=_value_axis(palette), stack="zero"),
            color=_colour("slot", colours),
            order=alt.Order("place:Q"),
            tooltip=[
                alt.Tooltip("time:T", format="%d %b %H:%M", title="from"),
                alt.Tooltip("slot:N", title="category"),
                alt.Tooltip("sum(errors):Q", format=",d", title="errors"),
                alt.Tooltip("max(of):Q", format=",d", title="calls in all"),
                alt.Tooltip("max(rate):Q", format=".1%", title="of these failed"),
            ],
        )
    )
    if brush:
        bars = bars.add_params(
            alt.selection_interval(name="brush", encodings=["x"]),
            alt.selection_point(name="legend", fields=["slot"], bind="legend"),
        )
    layers: list[alt.Chart] = [bars]
    if before is not None and before["previous_errors"].sum():
        layers.append(
            alt.Chart(before)
            .mark_line(interpolate="step-after", color=palette.quiet, strokeWidth=1.2, opacity=0.8)
            .encode(x="time:T", y="previous_errors:Q")
        )
    if deploys is not None and deploys.height:
        middle = span[0] + (span[1] - span[0]) / 2
        marks = alt.Chart(deploys.with_columns(late=pl.col("time") > middle))
        place = marks.encode(x="time:T", tooltip=[alt.Tooltip("label:N", title="first call of")])
        layers.append(place.mark_rule(color=palette.ink, strokeDash=[2, 3], opacity=0.7))
        said = place.encode(y=alt.value(0), text="label:N")
        early, late = said.transform_filter("!datum.late"), said.transform_filter("datum.late")
        layers.append(early.mark_text(align="left", dx=3, dy=6, baseline="top", color=palette.quiet))
        layers.append(late.mark_text(align="right", dx=-3, dy=6, baseline="top", color=palette.quiet))
    return bars if len(layers) == 1 else alt.layer(*layers)


def calls_over_time(frame: pl.DataFrame, palette: Palette, span: Span, bucket_s: float) -> Picture:
    """Calls as bars. `frame`: time, calls."""
    rows = frame.group_by("time").agg(pl.col("calls").sum())
    rows = rows.with_columns(end=pl.col("time") + pl.duration(milliseconds=int(bucket_s * 1000)))
    picture: Picture = (
        alt.Chart(rows, height=HEIGHT)
        .mark_bar(binSpacing=1, color=palette.outcome["ok"])
        .encode(
            x=_time(span), x2="end:T", y=alt.Y("calls:Q", axis=_value_axis(palette)), y2=alt.datum(0),
            tooltip=[alt.Tooltip("time:T", format="%d %b %H:%M"), alt.Tooltip("calls:Q", format=",d")],
        )
    )  # fmt: skip
    return picture


def rate_over_time(frame: pl.DataFrame, palette: Palette, span: Span) -> Picture:
    """Error rate with its interval; points under 20 calls are hollow. `frame`: time, error_rate, low, high, rated."""
    rows = frame.filter(pl.col("error_rate").is_not_null()).with_columns(certain=pl.col("rated") >= 20)
    base = alt.Chart(rows, height=HEIGHT).encode(x=_time(span))
    y = alt.Y("error_rate:Q", axis=_value_axis(palette, PERCENT), scale=alt.Scale(domainMin=0))
    colour = palette.outcome["error"]
    tooltip = [
        alt.Tooltip("time:T", format="%d %b %H:%M"),
        alt.Tooltip("error_rate:Q", format=".1%", title="error rate"),
        alt.Tooltip("rated:Q", format=",d", title="of calls"),
    ]
    band = base.mark_area(opacity=0.15, color=colour).encode(y=alt.Y("low:Q", title=None), y2="high:Q")
    line = base.mark_line(color=colour, strokeWidth=1.5).encode(y=y)
    points = base.mark_point(color=colour, size=30, opacity=1).encode(
        y=y, tooltip=tooltip, fill=alt.condition("datum.certain", alt.value(colour), alt.value(palette.paper))
    )
    return alt.layer(band, line, points)


def durations(frame: pl.DataFrame, palette: Palette, span: Span) -> Picture:
    """Median and 95th percentile over time on a logarithmic axis. `frame`: time, p50_ms, p95_ms."""
    colours = {"p50": palette.outcome["ok"], "p95": palette.category["timeout"]}
    rows = frame.select("time", p50="p50_ms", p95="p95_ms").unpivot(
        ["p50", "p95"], index="time", variable_name="quantile", value_name="ms"
    )
    axis = alt.Axis(
        title=None, values=[10**power for power in range(-1, 8)], gridColor=palette.line, domain=False, ticks=False,
        labelExpr="datum.value < 1000 ? datum.value + ' ms' : datum.value / 1000 + ' s'",
    )  # fmt: skip
    picture: Picture = (
        alt.Chart(rows.filter(pl.col("ms") > 0), height=HEIGHT)
        .mark_line(strokeWidth=1.6, point={"size": 28})
        .encode(
            x=_time(span),
            y=alt.Y("ms:Q", axis=axis, scale=alt.Scale(type="log")),
            color=_colour("quantile", colours),
            tooltip=[
                alt.Tooltip("time:T", format="%d %b %H:%M"), "quantile:N",
                alt.Tooltip("ms:Q", format=",.0f", title="milliseconds"),
            ],
        )
    )  # fmt: skip
    return picture


def share_bar(frame: pl.DataFrame, palette: Palette) -> Picture:
    """A bar for each attribution, always in the same order; parts of one bar would be too small for their words.

    `frame`: attribution, errors, label.
    """
    colours = {name: palette.attribution[name] for name in ATTRIBUTIONS}
    total = frame["errors"].sum() or 1
    rows = frame.filter(pl.col("attribution").is_in(ATTRIBUTIONS)).with_columns(
        share=pl.col("errors") / total,
        place=pl.col("attribution").replace_strict({name: place for place, name in enumerate(ATTRIBUTIONS)}),
    )
    base = alt.Chart(rows, height=52).encode(
        y=alt.Y("attribution:N", axis=alt.Axis(title=None, domain=False, ticks=False), sort=list(ATTRIBUTIONS)),
        x=alt.X("share:Q", axis=None, scale=alt.Scale(domainMin=0)),
    )
    bars = (
        base.mark_bar(height=14)
        .encode(
            color=_colour("attribution", colours, legend=False),
            tooltip=["attribution:N", alt.Tooltip("errors:Q", format=",d"), alt.Tooltip("share:Q", format=".1%")],
        )
        .add_params(alt.selection_point(name="picked", fields=["attribution"]))
    )
    labels = base.mark_text(align="left", dx=6, color=palette.ink).encode(text=alt.Text("label:N"))
    return alt.layer(bars, labels).properties(height=26 * max(rows.height, 1))


def heat_map(frame: pl.DataFrame, palette: Palette, tools: Sequence[str], classes: Sequence[str]) -> Picture:
    """Errors of a class ÷ calls of the tool; under 20 calls a cell has no colour, only its count.

    `frame`: tool, error_class, errors, calls, share; no row, no cell.
    """
    # Through RGB: Vega's own way from grey to orange leads through purple.
    shade = alt.Scale(domain=[0, 1], range=list(palette.ramp), interpolate="rgb")
    rows = frame.with_columns(certain=pl.col("calls") >= 20)
    base = alt.Chart(rows).encode(
        x=alt.X(
            "error_class:N",
            sort=list(classes),
            axis=alt.Axis(title=None, labelAngle=-40, labelLimit=190, labelOverlap=False, domain=False),
        ),
        y=alt.Y(
            "tool:N",
            sort=list(tools),
            axis=alt.Axis(title=None, labelLimit=180, labelFlush=False, domain=False, ticks=False),
        ),
    )
    cells = base.mark_rect(strokeWidth=2).encode(
        fill=alt.condition("datum.certain", alt.Fill("share:Q", scale=shade, legend=None), alt.value(palette.paper)),
        stroke=alt.condition("datum.certain", alt.value(palette.paper), alt.value(palette.line)),
        tooltip=["tool:N", "error_class:N", alt.Tooltip("errors:Q", format=",d"), alt.Tooltip("calls:Q", format=",d"),
                 alt.Tooltip("share:Q", format=".1%", title="of the tool's calls")],
    ).add_params(alt.selection_point(name="picked", fields=["tool", "error_class"]))  # fmt: skip
    ink = alt.condition("datum.certain && datum.share > 0.55", alt.value(palette.paper), alt.value(palette.ink))
    labels = (
        base.transform_filter("datum.errors >= 10 || !datum.certain")
        .mark_text(fontSize=11)
        .encode(text=alt.Text("errors:Q", format=",d"), color=ink)
    )
    return alt.layer(cells, labels).properties(height=alt.Step(26))


def dots(frame: pl.DataFrame, palette: Palette, name: str, value: str) -> Picture:
    """A rate per name as a dot with its interval and words at the right; hollow where it rests on fewer than 20 calls.

    `frame`: name, value, low, high, rated, label.
    """
    rows = frame.with_columns(certain=pl.col("rated") >= 20)
    names = alt.Axis(title=None, labelLimit=210, labelFlush=False, domain=False, ticks=False, gridColor=palette.line)
    scale = alt.Scale(domain=[0, 1])
    base = alt.Chart(rows).encode(y=alt.Y(f"{name}:N", sort=frame[name].to_list(), axis=names))
    colour = palette.outcome["error"] if value == "error_rate" else palette.outcome["ok"]
    whiskers = base.mark_rule(color=colour, strokeWidth=2, opacity=0.5).encode(
        x=alt.X("low:Q", scale=scale, axis=_value_axis(palette, PERCENT)), x2="high:Q"
    )
    point = base.mark_point(color=colour, size=70, opacity=1).encode(
        x=alt.X(f"{value}:Q", scale=scale),
        fill=alt.condition("datum.certain", alt.value(colour), alt.value(palette.paper)),
        tooltip=[f"{name}:N", alt.Tooltip(f"{value}:Q", format=".1%"), "label:N"],
    )
    said = base.mark_text(align="left", dx=8, color=palette.quiet).encode(
        x=alt.X("high:Q", scale=scale), text="label:N"
    )
    return alt.layer(whiskers, point, said).properties(height=alt.Step(28))


def streak_lengths(frame: pl.DataFrame, palette: Palette) -> Picture:
    """Streaks by length and state. `frame`: length (text, `10+` last), state, number."""
    colours = {"recovered": palette.outcome["ok"], "open": palette.alert["pending"], "ended": palette.outcome["error"]}
    picture: Picture = (
        alt.Chart(frame, height=HEIGHT)
        .mark_bar()
        .encode(
            x=_steps("length", [*map(str, range(1, 10)), "10+"], "in a row"),
            y=alt.Y("sum(number):Q", axis=_value_axis(palette)),
            color=_colour("state", colours),
            tooltip=["length:O", "state:N", alt.Tooltip("sum(number):Q", format=",d", title="streaks")],
        )
    )
    return picture


def hazard(frame: pl.DataFrame, palette: Palette, stops: pl.DataFrame) -> Picture:
    """Hazard by length with its interval; hollow where fewer than 20 streaks reached it.

    `frame`: length, hazard, low, high, streaks; `stops`: length, label, where agents stop by themselves.
    """
    rows = frame.with_columns(certain=pl.col("streaks") >= 20)
    colour = palette.outcome["error"]
    base = alt.Chart(rows, height=HEIGHT).encode(x=_steps("length", range(1, 11), "after n in a row"))
    scale = alt.Scale(domain=[0, 1])
    whiskers = base.mark_rule(color=colour, opacity=0.5, strokeWidth=2).encode(
        y=alt.Y("low:Q", scale=scale, axis=_value_axis(palette, PERCENT)), y2="high:Q"
    )
    points = base.mark_point(color=colour, size=70, opacity=1).encode(
        y=alt.Y("hazard:Q", scale=scale),
        fill=alt.condition("datum.certain", alt.value(colour), alt.value(palette.paper)),
        tooltip=[
            "length:O",
            alt.Tooltip("hazard:Q", format=".1%"),
            alt.Tooltip("streaks:Q", format=",d", title="reached n"),
        ],
    )
    if stops.is_empty():
        return alt.layer(whiskers, points)
    marks = alt.Chart(stops).encode(x="length:O")
    rule = marks.mark_rule(color=palette.quiet, strokeDash=[4, 3])
    said = marks.mark_text(align="left", baseline="top", dx=4, color=palette.quiet).encode(
        y=alt.value(0), text="label:N"
    )
    return alt.layer(rule, whiskers, points, said)


def limits(frame: pl.DataFrame, palette: Palette, chosen: int) -> Picture:
    """Sessions that each limit would have stopped. `frame`: mistake_limit, fate, sessions."""
    colours = {"recovered anyway": palette.outcome["ok"], "did not recover": palette.outcome["error"]}
    bars = (
        alt.Chart(frame, height=HEIGHT)
        .mark_bar()
        .encode(
            x=_steps("mistake_limit", range(2, 11), "limit: stop after n in a row"),
            y=alt.Y("sum(sessions):Q", axis=_value_axis(palette)),
            color=_colour("fate", colours),
            opacity=alt.condition(f"datum.mistake_limit == {chosen}", alt.value(1.0), alt.value(0.45)),
            tooltip=["mistake_limit:O", "fate:N", alt.Tooltip("sum(sessions):Q", format=",d", title="sessions")],
        )
    )
    return alt.layer(bars)


def _by_class(frame: pl.DataFrame, palette: Palette) -> alt.Color:
    """A colour for each class in the order of the frame; what is of all errors is as dark as text."""
    classes = [name for name in frame["error_class"].unique(maintain_order=True) if name != ALL]
    slots = [colour for name, colour in palette.category.items() if name != OTHER]
    return _colour("error_class", {ALL: palette.ink, **dict(zip(classes, slots, strict=False))}, columns=3)


def _recovery(frame: pl.DataFrame, palette: Palette, x: alt.X, how: Literal["linear", "step-after"]) -> Picture:
    y = alt.Y("recovery_rate:Q", scale=alt.Scale(domain=[0, 1]), axis=_value_axis(palette, PERCENT))
    base = alt.Chart(frame, height=260).encode(x=x)  # its legend takes two lines
    tooltip = [
        alt.Tooltip("error_class:N", title="of"),
        alt.Tooltip("at:Q", title="within"),
        alt.Tooltip("recovery_rate:Q", format=".1%", title="recovered"),
        alt.Tooltip("retried:Q", format=",d", title="of errors tried again"),
    ]
    band = base.transform_filter(f"datum.error_class == '{ALL}'").mark_area(
        opacity=0.12, color=palette.ink, interpolate=how
    )
    lines = base.mark_line(point={"size": 28}, strokeWidth=1.6, interpolate=how)
    return alt.layer(
        band.encode(y=alt.Y("low:Q", scale=alt.Scale(domain=[0, 1])), y2="high:Q"),
        lines.encode(y=y, color=_by_class(frame, palette), tooltip=tooltip),
    )


def recovery_curve(frame: pl.DataFrame, palette: Palette) -> Picture:
    """Share recovered within so many attempts. `frame`: at, error_class, recovery_rate, low, high, retried."""
    x = alt.X("at:O", axis=alt.Axis(title="attempts", labelAngle=0))
    return _recovery(frame, palette, x, "linear")


def time_to_recovery(frame: pl.DataFrame, palette: Palette) -> Picture:
    """The same within so many seconds, as steps on a logarithmic axis."""
    axis = alt.Axis(
        title=None, values=[1, 10, 60, 600, 1800], grid=True, gridColor=palette.line,
        labelExpr="datum.value < 60 ? datum.value + ' s' : datum.value / 60 + ' min'",
    )  # fmt: skip
    return _recovery(frame, palette, alt.X("at:Q", scale=alt.Scale(type="log"), axis=axis), "step-after")


# Bar, cross, circle, crossed circle: outcomes differ in shape, not only in colour.
_SHAPES = {
    "ok": "M0,-0.7L0,0.7",
    "error": "M-0.8,-0.8L0.8,0.8M-0.8,0.8L0.8,-0.8",
    "cancelled": "circle",
    "denied": "M0.9,0A0.9,0.9,0,1,1,-0.9,0A0.9,0.9,0,1,1,0.9,0M-0.6,0.6L0.6,-0.6",
}


def session_line(frame: pl.DataFrame, palette: Palette, streaks: pl.DataFrame) -> Picture:
    """A session's calls in order, one row per tool, streaks as brackets above, each error joined with its retry.

    `frame`: order, tool, outcome, about, again (the order of its retry), lane; `streaks`: first, last, label.
    """
    legend = alt.Legend(title=None, orient="bottom", direction="horizontal")
    colour = alt.Scale(domain=list(OUTCOMES), range=[palette.outcome[name] for name in OUTCOMES])
    shape = alt.Scale(domain=list(OUTCOMES), range=[_SHAPES[name] for name in OUTCOMES])
    order = alt.Axis(title="call", format="d", tickMinStep=1, grid=False)
    tools = alt.Axis(title=None, labelLimit=180, labelFlush=False, grid=True, gridColor=palette.line, domain=False)
    first = frame["order"][0]
    places = alt.Scale(domain=[first - 0.5, first + frame.height - 0.5], nice=False)
    marks = (
        alt.Chart(frame)
        .mark_point(size=60, strokeWidth=2.5, filled=False, opacity=1)
        .encode(
            x=alt.X("order:Q", axis=order, scale=places),
            y=alt.Y("tool:N", axis=tools),
            color=alt.Color("outcome:N", scale=colour, legend=legend),
            shape=alt.Shape("outcome:N", scale=shape, legend=legend),
            tooltip=["order:Q", "tool:N", "outcome:N", alt.Tooltip("about:N", title="class")],
        )
        .add_params(alt.selection_point(name="picked", fields=["order"], nearest=True))
    )
    layers = [marks]
    for (lane,), retried in frame.drop_nulls("again").group_by(pl.col("lane").clip(0, 2), maintain_order=True):
        joined = alt.Chart(retried).mark_rule(color=palette.quiet, strokeWidth=1.5, yOffset=8 + 3 * int(str(lane)))
        layers.append(joined.encode(x=alt.X("order:Q", scale=places), x2="again:Q", y="tool:N"))
    if streaks.is_empty():
        return alt.layer(*layers).properties(height=alt.Step(30))
    brackets = alt.Chart(streaks).encode(x=alt.X("first:Q", scale=places), y=alt.value(-6))
    rule = brackets.mark_rule(color=palette.outcome["error"], strokeWidth=3).encode(x2="last:Q")
    label = brackets.mark_text(color=palette.outcome["error"], dy=-10, fontWeight="bold", align="left").encode(
        text="label:N"
    )
    return alt.layer(*layers, rule, label).properties(height=alt.Step(30), padding={"top": 26})


def value_over_time(frame: pl.DataFrame, palette: Palette, span: Span, threshold: float | None) -> Picture:
    """A rule's measure, which holds until its next value, with its threshold. `frame`: time, value, labels."""
    line = (
        alt.Chart(frame, height=HEIGHT)
        .mark_line(strokeWidth=1.5, color=palette.outcome["ok"], interpolate="step-after", point={"size": 14})
        .encode(
            x=_time(span),
            y=alt.Y("value:Q", axis=_value_axis(palette, "~g"), scale=alt.Scale(domainMin=0)),
            detail="labels:N",
            tooltip=[alt.Tooltip("time:T", format="%d %b %H:%M"), alt.Tooltip("value:Q", format=".3~g"), "labels:N"],
        )
    )
    if threshold is None:
        return alt.layer(line)
    rule = alt.Chart(pl.DataFrame({"threshold": [threshold]})).mark_rule(
        color=palette.alert["firing"], strokeDash=[5, 3]
    )
    return alt.layer(line, rule.encode(y="threshold:Q"))


def paired_bars(frame: pl.DataFrame, palette: Palette) -> Picture:
    """Errors per dimension value in both periods. `frame`: name, a_errors, b_errors, sentence; in this order."""
    colours = {"before": palette.quiet, "now": palette.outcome["error"]}
    rows = frame.rename({"a_errors": "before", "b_errors": "now"}).unpivot(
        ["before", "now"], index=["name", "sentence"], variable_name="period", value_name="errors"
    )
    names = alt.Axis(title=None, labelLimit=260, labelFlush=False, domain=False, ticks=False)
    picture: Picture = (
        alt.Chart(rows)
        .mark_bar(height={"band": 0.9})
        .encode(
            y=alt.Y("name:N", sort=frame["name"].to_list(), axis=names),
            yOffset=alt.YOffset("period:N", sort=["before", "now"]),
            x=alt.X("errors:Q", axis=_value_axis(palette)),
            color=_colour("period", colours),
            tooltip=["name:N", "period:N", alt.Tooltip("errors:Q", format=",d"), "sentence:N"],
        )
        .properties(height=alt.Step(11))
    )
    return picture


def dumbbells(frame: pl.DataFrame, palette: Palette) -> Picture:
    """A measure on two sides per name, A hollow, B filled. `frame`: name, a, b, low and high of each, sentence."""
    names = alt.Axis(title=None, labelLimit=210, labelFlush=False, domain=False, ticks=False, gridColor=palette.line)
    base = alt.Chart(frame).encode(y=alt.Y("name:N", sort=frame["name"].to_list(), axis=names))
    axis = _value_axis(palette, PERCENT)
    ink = alt.condition("datum.clear", alt.value(palette.outcome["error"]), alt.value(palette.quiet))
    tooltip = ["name:N", "sentence:N"]
    line = base.mark_rule(strokeWidth=3, opacity=0.35).encode(x=alt.X("a:Q", axis=axis), x2="b:Q", color=ink)
    layers = [line]
    for side, offset in (("a", -4), ("b", 4)):
        layers.append(
            base.mark_rule(color=palette.quiet, opacity=0.6, yOffset=offset).encode(
                x=f"{side}_low:Q", x2=f"{side}_high:Q"
            )
        )
    first = base.mark_point(size=70, opacity=1, fill=palette.paper, yOffset=-4).encode(
        x="a:Q", color=ink, tooltip=tooltip
    )
    second = base.mark_point(size=70, opacity=1, filled=True, yOffset=4).encode(x="b:Q", color=ink, tooltip=tooltip)
    return alt.layer(*layers, first, second).properties(height=alt.Step(34))


def over_share(frame: pl.DataFrame, palette: Palette) -> Picture:
    """Shares as bars, each with a tick at the share of all calls. `frame`: name, share, expected, errors."""
    names = alt.Axis(title=None, labelLimit=130, labelFlush=False, domain=False, ticks=False, minExtent=110)
    base = alt.Chart(frame).encode(
        y=alt.Y("name:N", sort=frame["name"].to_list(), axis=names),
        tooltip=["name:N", alt.Tooltip("errors:Q", format=",d"),
                 alt.Tooltip("share:Q", format=".1%", title="of this group"),
                 alt.Tooltip("expected:Q", format=".1%", title="of all calls")],
    )  # fmt: skip
    x = alt.X("share:Q", axis=_value_axis(palette, PERCENT), scale=alt.Scale(domain=[0, 1]))
    bars = base.mark_bar(color=palette.outcome["error"], height=12).encode(x=x)
    ticks = base.mark_tick(color=palette.ink, thickness=2, size=18).encode(x="expected:Q")
    return alt.layer(bars, ticks).properties(height=alt.Step(24))


def scatter(frame: pl.DataFrame, palette: Palette) -> Picture:
    """Tools: calls against error rate with its interval, as large as the sessions hit, coloured by whose turn it is.

    `frame`: tool, calls, error_rate, low, high, sessions, attribution, label.
    """
    turns = [name for name in ATTRIBUTIONS if name in set(frame["attribution"])]
    colours = {name: palette.attribution[name] for name in turns}
    base = alt.Chart(frame, height=300).encode(
        x=alt.X("calls:Q", scale=alt.Scale(type="log", nice=True),
                axis=alt.Axis(title="calls", grid=False, format="~s", tickCount=4)),
    )  # fmt: skip
    y = alt.Y("error_rate:Q", axis=_value_axis(palette, PERCENT), scale=alt.Scale(domainMin=0))
    whiskers = base.mark_rule(color=palette.quiet, opacity=0.35).encode(y="low:Q", y2="high:Q")
    points = base.mark_circle(opacity=0.9).encode(
        y=y, color=_colour("attribution", colours),
        size=alt.Size("sessions:Q", scale=alt.Scale(range=[40, 500]), legend=None),
        tooltip=["tool:N", alt.Tooltip("calls:Q", format=",d"), alt.Tooltip("error_rate:Q", format=".1%"),
                 alt.Tooltip("sessions:Q", format=",d", title="sessions hit"), "attribution:N"],
    ).add_params(alt.selection_point(name="picked", fields=["tool"]))  # fmt: skip
    names = (
        base.transform_filter("isValid(datum.label)")
        .mark_text(align="left", dx=12, dy=-6, color=palette.ink, limit=120)
        .encode(y=y, text="label:N")
    )
    return alt.layer(whiskers, points, names)


def storm_strip(frame: pl.DataFrame, palette: Palette, span: Span, bucket_s: float) -> Picture:
    """Errors per bucket as a low strip. `frame`: time, errors."""
    rows = frame.with_columns(end=pl.col("time") + pl.duration(milliseconds=int(bucket_s * 1000)))
    picture: Picture = (
        alt.Chart(rows, height=90)
        .mark_bar(color=palette.category["rate_limit"], binSpacing=0)
        .encode(
            x=_time(span), x2="end:T", y=alt.Y("errors:Q", axis=_value_axis(palette)), y2=alt.datum(0),
            tooltip=[alt.Tooltip("time:T", format="%d %b %H:%M"), alt.Tooltip("errors:Q", format=",d")],
        )
    )  # fmt: skip
    return picture


def firings(frame: pl.DataFrame, palette: Palette, span: Span) -> Picture:
    """When each alert fired, as bars from its start to its end. `frame`: name, fired, until, state, summary."""
    names = alt.Axis(title=None, labelLimit=260, labelFlush=False, domain=False, ticks=False, grid=True)
    colours = {"firing": palette.alert["firing"], "resolved": palette.alert["resolved"]}
    axis = alt.Axis(title=None, labelExpr=_CLOCK, grid=False, tickCount=8)
    scale = alt.Scale(domain=[moment.astimezone(UTC) for moment in span])
    base = alt.Chart(frame).encode(
        y=alt.Y("name:N", axis=names), x=alt.X("fired:T", axis=axis, scale=scale), color=_colour("state", colours),
        tooltip=["name:N", alt.Tooltip("fired:T", format="%d %b %H:%M"), alt.Tooltip("until:T", format="%d %b %H:%M"),
                 "state:N", "summary:N"],
    )  # fmt: skip
    bars = base.mark_bar(height=10).encode(x2="until:T")
    starts = base.mark_tick(thickness=2, size=16)  # a short one is seen, too
    return alt.layer(bars, starts).properties(height=alt.Step(22))
