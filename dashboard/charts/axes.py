"""What charts have in common: axes, colours and how numbers are written.

Channels are written as Altair's classes: for each plain string or condition in an `encode`, Altair searches its whole
schema (1.7 and 5 ms).
"""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from importlib import import_module
from typing import Any

import altair as alt
from altair.utils import schemapi

from dashboard.charts.colours import Palette

# Loaded here: tables load it too, and Altair uses it as soon as it finds it, even half loaded by another thread.
with suppress(ImportError):
    import_module("pandas")
# A whole chart is checked when it is drawn; checking each of its parts as well takes as long as making them.
schemapi.disable_debug_mode()

HEIGHT = 220
SMALL_NAMES_PX = 120  # of names on an axis, in a small window
# A chart with a legend is always layered, even with one layer: otherwise Streamlit leaves an empty line above it.
Picture = alt.Chart | alt.LayerChart | alt.FacetChart
PERCENT = "~%"
# Vega's default is a 12-hour clock without am or pm. The first of January has its year; January is month 0.
CLOCK = (
    "timeFormat(datum.value, hours(datum.value) + minutes(datum.value) ? '%H:%M' "
    ": month(datum.value) + date(datum.value) === 1 ? '%d %b %Y' : '%d %b')"
)
# Vega's default has no space before the per cent sign; texts on the pages have one.
_NUMBERS = alt.theme.NumberLocaleKwds(decimal=".", thousands=",", grouping=[3], currency=["$", ""], percent="\u00a0%")
Span = tuple[datetime, datetime]


@alt.theme.register("misstep", enable=True)
def _theme() -> alt.theme.ThemeConfig:
    """Formats numbers in charts as elsewhere on the pages."""
    return {"config": {"locale": {"number": _NUMBERS}}}


def tight(picture: Picture) -> Picture:
    """The chart without the empty line that Streamlit otherwise leaves below it."""
    picture.padding = {"bottom": 0} | (picture.padding if isinstance(picture.padding, dict) else {})
    return picture


def tall(picture: Picture, px: float, rows: int) -> Picture:
    """The chart with so many rows of this height, beside which its axes and legend have room of their own.

    Not as a step, of which Vega warns where a chart also fits the page's width.
    """
    fitted: Picture = picture.properties(
        height=px * max(rows, 1), autosize=alt.AutoSizeParams(type="fit-x", contains="padding")
    )
    return fitted


def time_axis(span: Span, field: str = "time") -> alt.X:
    """A time axis over the whole range, also where there are no data.

    As expressions, since Vega reads dates of a mark with two ends (`x2`) in two ways, and warns that they differ.
    """
    axis = alt.Axis(title=None, labelExpr=CLOCK, grid=False, tickCount=8, labelFlush=16)
    ends = [alt.ExprRef(str(round(moment.timestamp() * 1000))) for moment in span]
    return alt.X(f"{field}:T", axis=axis, scale=alt.Scale(domain=ends))


def value_axis(palette: Palette, form: str = ",d", title: str | None = None, *, whole: bool = False) -> alt.Axis:
    least = 1 if whole or form == ",d" else 0  # counts are whole
    return alt.Axis(
        title=title, format=form, tickCount=4, gridColor=palette.line, domain=False, ticks=False, tickMinStep=least
    )


def names_axis(px: int, *, small: bool, **about: Any) -> alt.Axis:
    """An axis of names, which are cut to this many pixels, or to fewer in a small window."""
    limit = min(px, SMALL_NAMES_PX) if small else px
    return alt.Axis(title=None, labelLimit=limit, labelFlush=False, domain=False, **about)


def where(test: str, value: str | float) -> dict[str, Any]:
    """A condition of a channel: `value` where `test` is true."""
    return {"test": test, "value": value}


def colour(
    field: str, colours: dict[str, str], legend: bool = True, columns: int = 0, offset: int = 6, px: int = 200
) -> alt.Color:
    """A channel of named colours, with a legend above the chart whose names are cut to so many pixels."""
    domain = list(colours)
    columns = columns or (len(domain) if len(domain) <= 5 else 4)
    key = alt.Legend(
        title=None, orient="top", symbolType="square", symbolStrokeWidth=0, labelLimit=px, columns=columns, padding=0,
        offset=offset,
    )  # fmt: skip
    scale = alt.Scale(domain=domain, range=[colours[name] for name in domain])
    return alt.Color(f"{field}:N", scale=scale, legend=key if legend else None)


def steps(field: str, steps: Iterable[int | str], title: str) -> alt.X:
    """An axis of whole numbers, including those that do not occur."""
    axis = alt.Axis(title=title, labelAngle=0)
    return alt.X(f"{field}:O", axis=axis, scale=alt.Scale(domain=list(steps)))
