"""Charts over time. Frames in, charts out.

Pure functions, as in `shares` and `attempts`: no I/O, no Streamlit. Colours are passed as a palette; the page has the
titles.
"""

import json
from collections.abc import Mapping, Sequence

import altair as alt
import polars as pl
from altair import Tooltip

from dashboard.charts.axes import HEIGHT, PERCENT, Picture, Span, colour, names_axis, tall, time_axis, value_axis, where
from dashboard.charts.colours import Palette, slot
from dashboard.data import frames
from dashboard.parts import words

NAMES_PX = {(False, False): 420, (False, True): 270, (True, True): 300}  # of a name in the legend of a rule's lines
LINES, LINE_LABEL = 6, 60  # label sets of a rule with a colour of their own; characters of their names
AT, STRIP_HEIGHT, TREND_HEIGHT = Tooltip("time:T", format="%d %b %H:%M"), 90, 44
# Marks of a logarithmic axis of durations: two at least between any two neighbouring powers of ten.
TIMES_MS: Mapping[float, str] = {
    0.1: "0.1 ms", 1: "1 ms", 10: "10 ms", 100: "100 ms", 1e3: "1 s", 1e4: "10 s", 6e4: "1 min", 18e4: "3 min",
    6e5: "10 min", 18e5: "30 min", 36e5: "1 h", 108e5: "3 h", 36e6: "10 h", 864e5: "1 d", 864e6: "10 d",
}  # fmt: skip
# For placing the labels of deploys: their size, and the least width of the chart in a wide and in a narrow window.
LABEL, CHARACTER_PX, LINE_PX, WIDE_PX, NARROW_PX = 32, 6.0, 13, 850, 500


def errors_over_time(
    frame: pl.DataFrame, palette: Palette, span: Span, bucket_s: float, *, rates: pl.DataFrame | None = None,
    before: pl.DataFrame | None = None, deploys: pl.DataFrame | None = None, narrow: bool = False, small: bool = False,
) -> Picture:  # fmt: skip
    """Errors stacked by category, with a brush and a legend for `components.brushed`.

    `frame`: time, category, errors; `rates`: time, rate (as text), of all categories, for the tooltip; `before`: time,
    previous_errors, of the period before, drawn as a grey line; `deploys`: time, label, about (for the tooltip), drawn
    as dotted rules;
    `narrow`: the legend needs more than one line; `small`: it has room for two columns.
    """
    known = set(frame["category"].map_elements(slot, return_dtype=pl.String)) if frame.height else set()
    colours = {name: colour for name, colour in palette.category.items() if name in known}
    slots = {name: place for place, name in enumerate(palette.category)}
    rows = (
        _with_end(frame, bucket_s)
        .with_columns(slot=pl.col("category").map_elements(slot, return_dtype=pl.String, skip_nulls=False))
        .with_columns(place=pl.col("slot").replace_strict(slots, return_dtype=pl.Int64))
    )
    tooltip = [
        Tooltip("time:T", format="%d %b %H:%M", title="from"),
        Tooltip("slot:N", title="category"),
        Tooltip("sum(errors):Q", format=",d", title="errors"),
    ]
    if rates is not None:
        # An hour in which the chosen zone puts its clocks back is drawn twice at one place.
        rows = rows.join(rates.select("time", "rate").unique("time", keep="first"), on="time", how="left")
        tooltip.append(Tooltip("rate:N", title="error rate, all categories"))
    bars: alt.Chart = (
        alt.Chart(rows, height=HEIGHT)
        .mark_bar(binSpacing=1)
        .encode(
            x=time_axis(span),
            x2=alt.X2("end:T"),
            y=alt.Y("sum(errors):Q", axis=value_axis(palette), stack="zero"),
            color=colour("slot", colours, columns=2 if small else 4 if narrow else len(colours)),
            order=alt.Order("place:Q"),
            tooltip=tooltip,
        )
        .add_params(
            alt.selection_interval(name="brush", encodings=["x"]),
            alt.selection_point(name="legend", fields=["slot"], bind="legend"),
        )
    )
    layers: list[alt.Chart] = [bars]
    if before is not None and before["previous_errors"].sum():
        layers.append(
            alt.Chart(before)
            .mark_line(interpolate="step-after", color=palette.quiet, strokeWidth=1.2, opacity=0.8)
            .encode(x=alt.X("time:T"), y=alt.Y("previous_errors:Q"))
        )
    if deploys is not None and deploys.height:
        layers += _deploys(deploys, palette, span, narrow)
    return alt.layer(*layers)


def _deploys(deploys: pl.DataFrame, palette: Palette, span: Span, narrow: bool) -> list[alt.Chart]:
    """A rule for each deploy or mark, with its label towards the middle; labels that would overlap go on different
    lines.
    """
    middle = span[0] + (span[1] - span[0]) / 2
    rows = deploys.with_columns(
        late=pl.col("time") > middle,
        said=pl.col("label").map_elements(lambda label: words.clip(label, LABEL), return_dtype=pl.String),
    )
    lengths = [len(said) * CHARACTER_PX / (NARROW_PX if narrow else WIDE_PX) for said in rows["said"]]
    rows = rows.with_columns(line=pl.Series(frames.lines(rows, span, lengths), dtype=pl.Int64))
    tooltip = [AT, Tooltip("about:N", title="mark")]
    rules = alt.Chart(rows).encode(x=alt.X("time:T"), tooltip=tooltip)
    layers = [rules.mark_rule(color=palette.ink, strokeDash=[2, 3], opacity=0.7)]
    for (late, line), part in rows.drop_nulls("line").group_by("late", "line", maintain_order=True):
        place = alt.Chart(part).encode(x=alt.X("time:T"), text=alt.Text("said:N"), tooltip=tooltip)
        right, dy = bool(late), 6 + LINE_PX * int(str(line))
        layers += [
            place.mark_text(
                align="right" if right else "left", y=0, dx=-3 if right else 3, dy=dy, baseline="top",
                color=palette.ink, stroke=palette.paper, strokeWidth=outline, strokeJoin="round",
            )
            for outline in (4, 0)  # at first in the colour of the page, for labels over bars
        ]  # fmt: skip
    return layers


def trend(values: Sequence[float], palette: Palette) -> Picture:
    """Values over time as small bars without axes, for the card of a figure."""
    frame = pl.DataFrame(
        {"at": range(len(values)), "value": list(values)}, schema={"at": pl.Int64, "value": pl.Float64}
    )
    picture: Picture = (
        alt.Chart(frame, height=TREND_HEIGHT)
        .mark_bar(color=palette.quiet, cornerRadius=1, aria=False)
        .encode(
            x=alt.X("at:O", axis=None, scale=alt.Scale(paddingInner=0.4)),
            y=alt.Y("value:Q", axis=None, scale=alt.Scale(domainMin=0)),
        )
    )
    return picture


def calls_over_time(frame: pl.DataFrame, palette: Palette, span: Span, bucket_s: float) -> Picture:
    """Calls as bars. `frame`: time, calls."""
    rows = frame.group_by("time").agg(pl.col("calls").sum())
    return _bars(rows, "calls", palette.outcome["ok"], palette, span, bucket_s, HEIGHT)


def storm_strip(frame: pl.DataFrame, palette: Palette, span: Span, bucket_s: float) -> Picture:
    """Errors per bucket as a low bar chart. `frame`: time, errors."""
    return _bars(frame, "errors", palette.category["rate_limit"], palette, span, bucket_s, STRIP_HEIGHT)


def _bars(
    frame: pl.DataFrame, count: str, colour: str, palette: Palette, span: Span, bucket_s: float, height: int
) -> Picture:
    picture: Picture = (
        alt.Chart(_with_end(frame, bucket_s), height=height)
        .mark_bar(binSpacing=int(height == HEIGHT), color=colour)
        .encode(
            x=time_axis(span), x2=alt.X2("end:T"), y=alt.Y(f"{count}:Q", axis=value_axis(palette)), y2=alt.Y2Datum(0),
            tooltip=[AT, Tooltip(f"{count}:Q", format=",d")],
        )
    )  # fmt: skip
    return picture


def _with_end(frame: pl.DataFrame, bucket_s: float) -> pl.DataFrame:
    return frame.with_columns(end=pl.col("time") + pl.duration(milliseconds=int(bucket_s * 1000)))


def _within(frame: pl.DataFrame, span: Span) -> pl.DataFrame:
    """The first bucket where the axis begins: it may have begun before, and would be drawn over the axis' labels."""
    first = pl.lit(span[0]).cast(frame.schema["time"])
    return frame.with_columns(time=pl.max_horizontal("time", first))


def rate_over_time(
    frame: pl.DataFrame, palette: Palette, span: Span, *, deploys: pl.DataFrame | None = None, narrow: bool = False
) -> Picture:
    """Error rate with its interval; points under 20 calls are hollow. `frame`: time, error_rate, low, high, rated;
    `deploys` and `narrow` as in `errors_over_time`.
    """
    certain = pl.col("rated") >= words.UNCERTAIN_BELOW
    rows = _within(frame, span).filter(pl.col("error_rate").is_not_null()).with_columns(certain=certain)
    base = alt.Chart(rows, height=HEIGHT).encode(x=time_axis(span))
    y = alt.Y("error_rate:Q", axis=value_axis(palette, PERCENT), scale=alt.Scale(domainMin=0))
    colour = palette.outcome["error"]
    tooltip = [
        AT,
        Tooltip("error_rate:Q", format=".1%", title="error rate"),
        Tooltip("rated:Q", format=",d", title="of calls"),
    ]
    band = base.mark_area(opacity=0.15, color=colour).encode(y=alt.Y("low:Q", title=None), y2=alt.Y2("high:Q"))
    line = base.mark_line(color=colour, strokeWidth=1.5).encode(y=y)
    points = base.mark_point(color=colour, size=30, opacity=1).encode(
        y=y, tooltip=tooltip, fill=alt.FillValue(palette.paper, condition=where("datum.certain", colour))
    )
    marks = _deploys(deploys, palette, span, narrow) if deploys is not None and deploys.height else []
    return alt.layer(band, line, points, *marks)


def durations(frame: pl.DataFrame, palette: Palette, span: Span) -> Picture:
    """Median and 95th percentile over time on a logarithmic axis. `frame`: time, p50_ms, p95_ms."""
    colours = {"p50": palette.outcome["ok"], "p95": palette.category["timeout"]}
    rows = (
        _within(frame, span)
        .select("time", p50="p50_ms", p95="p95_ms")
        .unpivot(["p50", "p95"], index="time", variable_name="quantile", value_name="ms")
    )
    rows = rows.filter(pl.col("ms") > 0)
    rows = rows.with_columns(pl.Series("said", [words.duration(ms) for ms in rows["ms"]], dtype=pl.String))
    axis = alt.Axis(
        title=None, values=list(TIMES_MS), gridColor=palette.line, domain=False, ticks=False,
        labelExpr=f"{json.dumps([*TIMES_MS.values()])}[indexof({json.dumps([*TIMES_MS])}, datum.value)]",
    )  # fmt: skip
    lines = (
        alt.Chart(rows, height=HEIGHT)
        .mark_line(strokeWidth=1.6, point={"size": 28})
        .encode(
            x=time_axis(span),
            y=alt.Y("ms:Q", axis=axis, scale=alt.Scale(type="log")),
            color=colour("quantile", colours),
            tooltip=[AT, Tooltip("quantile:N"), Tooltip("said:N", title="duration")],
        )
    )  # fmt: skip
    return alt.layer(lines)


def value_over_time(
    frame: pl.DataFrame, palette: Palette, span: Span, threshold: float | None, unit: str, *,
    fired: pl.DataFrame | None = None, narrow: bool = False, small: bool = False,
) -> Picture:  # fmt: skip
    """A rule's measure as steps, one labelled line for each label set, with its threshold.

    `frame`: time, value, labels (as words); `unit` is count, share, s or ms; `fired`: start, end, of firings, shaded.
    The label sets with the highest values have colours of their own, all others are grey.
    """
    form = PERCENT if unit == "share" else ",~f"  # `~g` would write 10 as 1e+1
    if unit == "s":
        frame, threshold = frame.with_columns(pl.col("value") / 60), threshold and threshold / 60
    frame, colours = _lined(frame, palette)
    title = {"s": "minutes", "ms": "ms"}.get(unit)
    y = alt.Y("value:Q", axis=value_axis(palette, form, title, whole=unit == "count"), scale=alt.Scale(domainMin=0))
    tooltip = [AT, Tooltip("value:Q", format=".1~%" if unit == "share" else ",.3~f"), Tooltip("labels:N")]
    lines = (
        alt.Chart(frame, height=HEIGHT)
        .mark_line(strokeWidth=1.5, interpolate="step-after", point={"size": 14})
        .encode(
            x=time_axis(span), y=y, detail=alt.Detail("labels:N"), tooltip=tooltip,
            color=colour("line", colours, legend=len(colours) > 1, columns=1 if small else 2,
                         px=NAMES_PX[small, narrow]),
        )
    )  # fmt: skip
    layers: list[alt.Chart] = [lines]
    if fired is not None and fired.height:
        shade = alt.Chart(fired).mark_rect(
            color=palette.alert["firing"], opacity=0.2, stroke=palette.alert["firing"], strokeWidth=1
        )
        layers.insert(0, shade.encode(x=time_axis(span, "start"), x2=alt.X2("end:T")))
    if threshold is not None:
        rule = alt.Chart(pl.DataFrame({"threshold": [threshold]}))
        rule = rule.mark_rule(color=palette.alert["firing"], strokeDash=[5, 3])
        layers.append(rule.encode(y=alt.Y("threshold:Q")))
    return alt.layer(*layers)


def _lined(frame: pl.DataFrame, palette: Palette) -> tuple[pl.DataFrame, dict[str, str]]:
    """The frame with `line`, what the legend calls each label set, and the colour of each line."""
    highest = frame.group_by("labels").agg(pl.col("value").max())
    names = highest.sort("value", "labels", descending=[True, False], nulls_last=True)["labels"].to_list()
    own = names[:LINES] if len(names) > LINES + 1 else names
    others = f"{len(names) - len(own)} more"
    said = {name: words.clip(name, LINE_LABEL) or "all" for name in own}
    colours = dict(zip(said.values(), palette.category.values(), strict=False))
    if len(own) == 1:
        colours = {said[own[0]]: palette.outcome["ok"]}
    if len(own) < len(names):
        colours[others] = palette.quiet
    return frame.with_columns(
        line=pl.col("labels").replace_strict(said, default=others, return_dtype=pl.String)
    ), colours


def firings(frame: pl.DataFrame, palette: Palette, span: Span, *, small: bool = False) -> Picture:
    """When each alert fired, as bars from its start to its end. `frame`: name, fired, until, state, summary."""
    names = names_axis(260, small=small, ticks=False, grid=True)
    colours = {"firing": palette.alert["firing"], "resolved": palette.alert["resolved"]}
    base = alt.Chart(frame).encode(
        y=alt.Y("name:N", axis=names), x=time_axis(span, "fired"), color=colour("state", colours),
        tooltip=[Tooltip("name:N"), Tooltip("fired:T", format="%d %b %H:%M"), Tooltip("until:T", format="%d %b %H:%M"),
                 Tooltip("state:N"), Tooltip("summary:N")],
    )  # fmt: skip
    bars = base.mark_bar(height=10).encode(x2=alt.X2("until:T"))
    starts = base.mark_tick(thickness=2, size=16)  # so that short ones are visible too
    return tall(alt.layer(bars, starts), 22, frame["name"].n_unique())
