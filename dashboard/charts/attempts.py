"""Charts of successive attempts: streaks and retries. Frames in, charts out, as in `charts`."""

from typing import Literal

import altair as alt
import polars as pl
from altair import Tooltip

from dashboard.charts.axes import HEIGHT, PERCENT, Picture, colour, steps, value_axis, where
from dashboard.charts.colours import OTHER, Palette
from dashboard.parts import words

ALL = "all errors"
LINE_PX = 18  # of a legend


def streak_lengths(frame: pl.DataFrame, palette: Palette) -> Picture:
    """Streaks by length and state. `frame`: length (text, `10+` last), state, number."""
    colours = {"recovered": palette.outcome["ok"], "open": palette.alert["pending"], "ended": palette.outcome["error"]}
    bars = (
        alt.Chart(frame, height=HEIGHT)
        .mark_bar()
        .encode(
            x=steps("length", [*map(str, range(1, 10)), "10+"], "in a row"),
            y=alt.Y("sum(number):Q", axis=value_axis(palette)),
            color=colour("state", colours),
            tooltip=[
                Tooltip("length:O"),
                Tooltip("state:N"),
                Tooltip("sum(number):Q", format=",d", title="streaks"),
            ],
        )
    )
    return alt.layer(bars)


def hazard(frame: pl.DataFrame, palette: Palette, stops: pl.DataFrame) -> Picture:
    """The chance of another mistake by length, with its interval; hollow where fewer than 20 streaks reached it.

    `frame`: length, hazard, low, high, streaks; `stops`: length, label, the limits at which agents stop by themselves.
    """
    rows = frame.with_columns(certain=pl.col("streaks") >= words.UNCERTAIN_BELOW)
    colour = palette.outcome["error"]
    base = alt.Chart(rows, height=HEIGHT).encode(x=steps("length", range(1, 11), "after n in a row"))
    scale = alt.Scale(domain=[0, 1])
    whiskers = base.mark_rule(color=colour, opacity=0.5, strokeWidth=2).encode(
        y=alt.Y("low:Q", scale=scale, axis=value_axis(palette, PERCENT)), y2=alt.Y2("high:Q")
    )
    points = base.mark_point(color=colour, size=70, opacity=1).encode(
        y=alt.Y("hazard:Q", scale=scale),
        fill=alt.FillValue(palette.paper, condition=where("datum.certain", colour)),
        tooltip=[
            Tooltip("length:O"),
            Tooltip("hazard:Q", format=".1%", title="chance of another"),
            Tooltip("streaks:Q", format=",d", title="reached n"),
        ],
    )
    if stops.is_empty():
        return alt.layer(whiskers, points)
    marks = alt.Chart(stops).encode(x=alt.X("length:O"))
    rule = marks.mark_rule(color=palette.quiet, strokeDash=[4, 3])
    said = marks.mark_text(align="left", baseline="top", y=0, dx=4, color=palette.quiet).encode(
        text=alt.Text("label:N")
    )
    return alt.layer(rule, whiskers, points, said)


def limits(frame: pl.DataFrame, palette: Palette, chosen: int, *, small: bool = False) -> Picture:
    """Sessions that each limit would have stopped. `frame`: mistake_limit, fate (as below), sessions."""
    fates = {
        "recovered anyway": palette.outcome["ok"], "did not recover": palette.outcome["error"],
        "not known yet": palette.alert["pending"], "never known": palette.quiet,
    }  # fmt: skip
    seen = frame.filter(pl.col("sessions") > 0)["fate"].unique()
    colours = {fate: shade for fate, shade in fates.items() if fate in seen}
    bars = (
        alt.Chart(frame, height=HEIGHT)
        .mark_bar()
        .encode(
            x=steps("mistake_limit", range(2, 11), "limit: stop after n in a row"),
            y=alt.Y("sum(sessions):Q", axis=value_axis(palette)),
            color=colour("fate", colours, columns=2 if small else 0),
            opacity=alt.OpacityValue(0.45, condition=where(f"datum.mistake_limit == {chosen}", 1.0)),
            tooltip=[
                Tooltip("mistake_limit:O"),
                Tooltip("fate:N"),
                Tooltip("sum(sessions):Q", format=",d", title="sessions"),
            ],
        )
    )
    return alt.layer(bars)


def _by_class(frame: pl.DataFrame, palette: Palette, columns: int) -> alt.Color:
    """A colour for each class in the order of the frame; the line of all errors has the colour of text."""
    classes = [name for name in frame["error_class"].unique(maintain_order=True) if name != ALL]
    slots = [colour for name, colour in palette.category.items() if name != OTHER]
    return colour("error_class", {ALL: palette.ink, **dict(zip(classes, slots, strict=False))}, columns=columns)


def _recovery(
    frame: pl.DataFrame, palette: Palette, x: alt.X, how: Literal["linear", "step-after"], small: bool
) -> Picture:
    y = alt.Y("recovery_rate:Q", scale=alt.Scale(domain=[0, 1]), axis=value_axis(palette, PERCENT))
    columns = 1 if small else 3
    legend = LINE_PX * -(-frame["error_class"].n_unique() // columns)
    base = alt.Chart(frame, height=HEIGHT + legend).encode(x=x)
    tooltip = [
        Tooltip("error_class:N", title="of"),
        Tooltip("at:Q", title="within"),
        Tooltip("recovery_rate:Q", format=".1%", title="recovered"),
        Tooltip("retried:Q", format=",d", title="of errors tried again"),
    ]
    band = base.transform_filter(f"datum.error_class == '{ALL}'").mark_area(
        opacity=0.12, color=palette.ink, interpolate=how
    )
    lines = base.mark_line(point={"size": 28}, strokeWidth=1.6, interpolate=how)
    return alt.layer(
        band.encode(y=alt.Y("low:Q", scale=alt.Scale(domain=[0, 1])), y2=alt.Y2("high:Q")),
        lines.encode(y=y, color=_by_class(frame, palette, columns), tooltip=tooltip),
    )


def recovery_curve(frame: pl.DataFrame, palette: Palette, *, small: bool = False) -> Picture:
    """Share recovered by number of attempts. `frame`: at, error_class, recovery_rate, low, high, retried."""
    x = alt.X("at:O", axis=alt.Axis(title="attempts", labelAngle=0))
    return _recovery(frame, palette, x, "linear", small)


def time_to_recovery(frame: pl.DataFrame, palette: Palette, *, small: bool = False) -> Picture:
    """Share recovered by number of seconds, as steps on a logarithmic axis."""
    axis = alt.Axis(
        title=None, values=[1, 10, 60, 600, 1800], grid=True, gridColor=palette.line,
        labelExpr="datum.value < 60 ? datum.value + ' s' : datum.value / 60 + ' min'",
    )  # fmt: skip
    return _recovery(frame, palette, alt.X("at:Q", scale=alt.Scale(type="log"), axis=axis), "step-after", small)
