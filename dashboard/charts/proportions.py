"""Charts that compare shares and rates. Frames in, charts out, as in `charts`."""

from collections.abc import Sequence
from typing import Literal

import altair as alt
import polars as pl
from altair import Tooltip

from dashboard.charts.axes import PERCENT, Picture, colour, names_axis, tall, value_axis, where
from dashboard.charts.colours import ATTRIBUTIONS, Palette
from dashboard.data import frames
from dashboard.parts import words

NAMES_PX, ROW_PX, PAIR_PX = 140, 28, 28
# The side of a dot on which its label is, its alignment, its distance.
BESIDE: Sequence[tuple[str, Literal["left", "right"], int]] = (("right", "left", 12), ("left", "right", -12))


def share_bar(frame: pl.DataFrame, palette: Palette) -> Picture:
    """A bar for each attribution, always in the same order; parts of a single bar would be too small for labels.

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
            color=colour("attribution", colours, legend=False),
            tooltip=[
                Tooltip("attribution:N"),
                Tooltip("errors:Q", format=",d"),
                Tooltip("share:Q", format=".1%"),
            ],
        )
        .add_params(alt.selection_point(name="picked", fields=["attribution"]))
    )
    labels = base.mark_text(align="left", dx=6, color=palette.ink).encode(text=alt.Text("label:N"))
    return tall(alt.layer(bars, labels), 26, rows.height)


def heat_map(
    frame: pl.DataFrame, palette: Palette, tools: Sequence[str], classes: Sequence[str], *, small: bool = False
) -> Picture:
    """Errors of a class ÷ calls of the tool; with fewer than 20 calls a cell has no colour, only its count.

    `frame`: tool, error_class, errors, calls, share; a row for each cell.
    """
    rows = frame.with_columns(certain=pl.col("calls") >= words.UNCERTAIN_BELOW)
    # Always 0 to 100 %, so that colours can be compared; by the square root, as most cells are below 15 %.
    # Interpolated in RGB: by default Vega goes from grey to orange through purple.
    shade = alt.Scale(type="sqrt", domain=[0, 1], range=list(palette.ramp), interpolate="rgb")
    shaded = {"test": "datum.certain", "field": "share", "type": "quantitative", "scale": shade, "legend": None}
    base = alt.Chart(rows).encode(
        x=alt.X(
            "error_class:N",
            sort=list(classes),
            axis=alt.Axis(title=None, labelAngle=-40, labelLimit=190, labelOverlap=False, domain=False),
        ),
        y=alt.Y(
            "tool:N",
            sort=list(tools),
            axis=names_axis(180, small=small, ticks=False),
        ),
    )
    cells = base.mark_rect(strokeWidth=2).encode(
        fill=alt.FillValue(palette.paper, condition=shaded),
        stroke=alt.StrokeValue(palette.line, condition=where("datum.certain", palette.paper)),
        tooltip=[Tooltip("tool:N"), Tooltip("error_class:N"), Tooltip("errors:Q", format=",d"),
                 Tooltip("calls:Q", format=",d"), Tooltip("share:Q", format=".1%", title="of the tool's calls")],
    ).add_params(alt.selection_point(name="picked", fields=["tool", "error_class"]))  # fmt: skip
    below, above, share = palette.on_ramp
    tests = {f"datum.certain && datum.share > {share}": above, "datum.certain": below}
    ink = alt.ColorValue(palette.ink, condition=[where(test, colour) for test, colour in tests.items()])
    labels = base.mark_text(fontSize=11).encode(text=alt.Text("errors:Q", format=",d"), color=ink)
    return tall(alt.layer(cells, labels), 26, rows["tool"].n_unique())


def dots(frame: pl.DataFrame, palette: Palette, name: str, value: str, *, small: bool = False) -> Picture:
    """A rate per name as a dot with its interval; hollow if it is of fewer than 20 calls. A label stands on the right,
    in a small window only in the tooltip.

    `frame`: name, value, low, high, rated, label; maybe tint_from and tint_to, between which a row is tinted.
    """
    rows = frame.with_columns(certain=pl.col("rated") >= words.UNCERTAIN_BELOW)
    names = names_axis(210, small=small, ticks=False, gridColor=palette.line)
    scale = alt.Scale(domain=[0, 1])
    base = alt.Chart(rows).encode(y=alt.Y(f"{name}:N", sort=frame[name].to_list(), axis=names))
    colour = palette.outcome["error"] if value == "error_rate" else palette.outcome["ok"]
    whiskers = base.mark_rule(color=colour, strokeWidth=2, opacity=0.5).encode(
        x=alt.X("low:Q", scale=scale, axis=value_axis(palette, PERCENT)), x2=alt.X2("high:Q")
    )
    point = base.mark_point(color=colour, size=70, opacity=1).encode(
        x=alt.X(f"{value}:Q", scale=scale),
        fill=alt.FillValue(palette.paper, condition=where("datum.certain", colour)),
        tooltip=[Tooltip(f"{name}:N"), Tooltip(f"{value}:Q", format=".1%"), Tooltip("label:N")],
    )
    layers = [whiskers, point]
    if "tint_from" in frame.columns:
        tint = base.transform_filter("isValid(datum.tint_from)").mark_rule(
            color=palette.outcome["error"], strokeWidth=ROW_PX - 4, opacity=0.15
        )
        layers.insert(0, tint.encode(x=alt.X("tint_from:Q", scale=scale), x2=alt.X2("tint_to:Q")))
    if small:
        return tall(alt.layer(*layers), ROW_PX, rows.height)
    said = base.mark_text(align="left", dx=8, color=palette.quiet).encode(
        x=alt.X("high:Q", scale=scale), text=alt.Text("label:N")
    )
    # Vega underestimates the width of text: without this, the last word would be cut off at the edge.
    return tall(alt.layer(*layers, said).properties(padding={"right": 14}), ROW_PX, rows.height)


def paired_bars(frame: pl.DataFrame, palette: Palette, *, small: bool = False) -> Picture:
    """Errors per dimension value in both periods, in the order of `frame`: name, a_errors, b_errors, sentence."""
    colours = {"before": palette.quiet, "now": palette.outcome["error"]}
    rows = frame.rename({"a_errors": "before", "b_errors": "now"}).unpivot(
        ["before", "now"], index=["name", "sentence"], variable_name="period", value_name="errors"
    )
    names = names_axis(260, small=small, ticks=False)
    picture: Picture = (
        alt.Chart(rows)
        .mark_bar(height={"band": 0.9})
        .encode(
            y=alt.Y("name:N", sort=frame["name"].to_list(), axis=names),
            yOffset=alt.YOffset("period:N", sort=["before", "now"]),
            x=alt.X("errors:Q", axis=value_axis(palette)),
            color=colour("period", colours),
            tooltip=[
                Tooltip("name:N"),
                Tooltip("period:N"),
                Tooltip("errors:Q", format=",d"),
                Tooltip("sentence:N"),
            ],
        )
    )
    return tall(picture, PAIR_PX, frame.height)


def dumbbells(frame: pl.DataFrame, palette: Palette, *, small: bool = False) -> Picture:
    """A measure of both sides per name, A hollow, B filled.

    `frame`: name, a, b, low and high of each, verdict, sentence.
    """
    names = names_axis(210, small=small, ticks=False, gridColor=palette.line)
    base = alt.Chart(frame).encode(y=alt.Y("name:N", sort=frame["name"].to_list(), axis=names))
    axis = value_axis(palette, PERCENT)
    clear = {"worse": palette.outcome["error"], "better": palette.alert["resolved"]}
    ink = alt.ColorValue(
        palette.quiet, condition=[where(f"datum.verdict === '{word}'", colour) for word, colour in clear.items()]
    )
    tooltip = [Tooltip("name:N"), Tooltip("sentence:N")]
    line = base.mark_rule(strokeWidth=3, opacity=0.35).encode(x=alt.X("a:Q", axis=axis), x2=alt.X2("b:Q"), color=ink)
    layers = [line]
    for side, offset in (("a", -4), ("b", 4)):
        layers.append(
            base.mark_rule(color=palette.quiet, opacity=0.6, yOffset=offset).encode(
                x=alt.X(f"{side}_low:Q"), x2=alt.X2(f"{side}_high:Q")
            )
        )
    first = base.mark_point(size=70, opacity=1, fill=palette.paper, yOffset=-4).encode(
        x=alt.X("a:Q"), color=ink, tooltip=tooltip
    )
    second = base.mark_point(size=70, opacity=1, filled=True, yOffset=4).encode(
        x=alt.X("b:Q"), color=ink, tooltip=tooltip
    )
    return tall(alt.layer(*layers, first, second), 34, frame.height)


def over_share(frame: pl.DataFrame, palette: Palette) -> Picture:
    """Shares as bars, each with a tick at the share of all calls; rows without a share are headings.

    One chart, because a browser takes as long for each as for all of this one. `frame`: name, share, expected, events.
    """
    room = alt.Axis(title=None, labels=False, ticks=False, domain=False, minExtent=NAMES_PX)
    base = alt.Chart(frame.with_row_index("place")).encode(y=alt.Y("place:O", axis=room))
    values = base.transform_filter("isValid(datum.share)").encode(
        tooltip=[Tooltip("name:N"), Tooltip("events:Q", format=",d"),
                 Tooltip("share:Q", format=".1%", title="of this group"),
                 Tooltip("expected:Q", format=".1%", title="of all calls")],
    )  # fmt: skip
    x = alt.X("share:Q", axis=value_axis(palette, PERCENT), scale=alt.Scale(domain=[0, 1]))
    bars = values.mark_bar(color=palette.outcome["error"], height=12).encode(x=x)
    ticks = values.mark_tick(color=palette.ink, thickness=2, size=18).encode(x=alt.X("expected:Q"))
    text = alt.Text("name:N")
    names = values.mark_text(align="right", dx=-10, limit=NAMES_PX - 10, color=palette.ink).encode(
        x=alt.value(0), text=text
    )
    headings = (
        base.transform_filter("!isValid(datum.share)")
        .mark_text(align="left", dx=-NAMES_PX, color=palette.quiet)
        .encode(x=alt.value(0), text=text)
    )
    return tall(alt.layer(bars, ticks, names, headings), 24, frame.height)


def scatter(frame: pl.DataFrame, palette: Palette) -> Picture:
    """Tools by calls and error rate with its interval; size shows the sessions affected, colour the main attribution.

    `frame`: tool, calls, error_rate, low, high, sessions, attribution, label (on which side of the dot, if any).
    """
    turns = [name for name in ATTRIBUTIONS if name in set(frame["attribution"])]
    colours = {name: palette.attribution[name] for name in turns}
    base = alt.Chart(frame, height=300).encode(
        x=alt.X("calls:Q", scale=alt.Scale(type="log", nice=False, padding=frames.MARGIN_PX),
                axis=alt.Axis(title="calls", grid=False, format=".3~s", values=_marks(frame["calls"].to_list()))),
    )  # fmt: skip
    y = alt.Y("error_rate:Q", axis=value_axis(palette, PERCENT), scale=alt.Scale(domainMin=0))
    whiskers = base.mark_rule(color=palette.quiet, opacity=0.35).encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q"))
    points = base.mark_circle(opacity=0.9).encode(
        y=y, color=colour("attribution", colours, offset=frames.DOT_PX + 7),
        size=alt.Size("sessions:Q", scale=alt.Scale(range=[40, 500]), legend=None),
        tooltip=[Tooltip("tool:N"), Tooltip("calls:Q", format=",d"), Tooltip("error_rate:Q", format=".1%"),
                 Tooltip("sessions:Q", format=",d", title="sessions hit"), Tooltip("attribution:N")],
    ).add_params(alt.selection_point(name="picked", fields=["tool"]))  # fmt: skip
    names = [
        base.transform_filter(f"datum.label == '{side}'")
        .mark_text(align=align, dx=dx, dy=-6, color=palette.ink, limit=frames.LABEL_PX)
        .encode(y=y, text=alt.Text("tool:N"))
        for side, align, dx in BESIDE
        if side in set(frame["label"])  # Vega warns of a layer without any
    ]
    return alt.layer(whiskers, points, *names)


def _marks(values: Sequence[float]) -> Sequence[float]:
    """Round numbers for a logarithmic axis; its ends if there are not two between them."""
    low, high = min(values), max(values)
    marks = [digit * 10**power for power in range(10) for digit in (1, 2, 5) if low <= digit * 10**power <= high]
    return marks if len(marks) > 1 else sorted({low, high})
