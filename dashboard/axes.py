"""What charts have in common: axes, colours and how numbers are written."""

from collections.abc import Iterable
from datetime import UTC, datetime
from importlib import import_module

import altair as alt

from dashboard.colours import Palette

# Tables load it, and Altair looks into it if it is there: half loaded by the thread of another part, it would fail.
import_module("pandas")

HEIGHT = 220
Picture = alt.Chart | alt.LayerChart | alt.FacetChart
PERCENT = "~%"
# Vega's own default is a 12-hour clock without am or pm.
CLOCK = "timeFormat(datum.value, hours(datum.value) + minutes(datum.value) ? '%H:%M' : '%d %b')"
# Vega's own has no space before the per cent sign, which words on the pages have.
_NUMBERS = alt.NumberLocale(decimal=".", thousands=",", grouping=[3], currency=["$", ""], percent="\u00a0%")
Span = tuple[datetime, datetime]


def worded(picture: Picture) -> Picture:
    """The chart with numbers written as everywhere on the pages."""
    written: Picture = picture.configure(locale=alt.Locale(number=_NUMBERS))
    return written


def time_axis(span: Span) -> alt.X:
    """Time from end to end of the range, whether or not something happened."""
    axis = alt.Axis(title=None, labelExpr=CLOCK, grid=False, tickCount=8)
    return alt.X("time:T", axis=axis, scale=alt.Scale(domain=[moment.astimezone(UTC) for moment in span]))


def value_axis(palette: Palette, form: str = ",d", title: str | None = None) -> alt.Axis:
    return alt.Axis(
        title=title, format=form, tickCount=4, gridColor=palette.line, domain=False, ticks=False, tickMinStep=0
    )


def colour(field: str, colours: dict[str, str], legend: bool = True, columns: int = 0) -> alt.Color:
    domain = list(colours)
    columns = columns or (len(domain) if len(domain) <= 5 else 4)
    key = alt.Legend(
        title=None, orient="top", symbolType="square", labelLimit=200, columns=columns, padding=0, offset=6
    )
    scale = alt.Scale(domain=domain, range=[colours[name] for name in domain])
    return alt.Color(f"{field}:N", scale=scale, legend=key if legend else None)


def steps(field: str, steps: Iterable[int | str], title: str) -> alt.X:
    """Whole numbers, each with its place whether or not it occurs."""
    axis = alt.Axis(title=title, labelAngle=0)
    return alt.X(f"{field}:O", axis=axis, scale=alt.Scale(domain=list(steps)))
