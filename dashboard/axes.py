"""What charts have in common: axes, colours and how numbers are written.

Channels are written as Altair's classes: for each bare string or condition in an `encode`, it goes through its whole
schema (1.7 and 5 ms).
"""

from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import altair as alt
from altair.utils import schemapi

from dashboard.colours import Palette

# Tables load it, and Altair looks into it if it is there: half loaded by the thread of another part, it would fail.
with suppress(ImportError):
    import_module("pandas")
# A chart is checked whole when it is drawn; checking each of its parts, too, takes as long as making them.
schemapi.disable_debug_mode()

HEIGHT = 220
# A chart with a legend is a layered one, were it of one layer: else Streamlit leaves a line free above the legend.
Picture = alt.Chart | alt.LayerChart | alt.FacetChart
PERCENT = "~%"
# Vega's own default is a 12-hour clock without am or pm.
CLOCK = "timeFormat(datum.value, hours(datum.value) + minutes(datum.value) ? '%H:%M' : '%d %b')"
# Vega's own has no space before the per cent sign, which words on the pages have.
_NUMBERS = alt.theme.NumberLocaleKwds(decimal=".", thousands=",", grouping=[3], currency=["$", ""], percent="\u00a0%")
Span = tuple[datetime, datetime]


@alt.theme.register("misstep", enable=True)
def _theme() -> alt.theme.ThemeConfig:
    """Numbers in all charts as everywhere on the pages."""
    return {"config": {"locale": {"number": _NUMBERS}}}


def time_axis(span: Span) -> alt.X:
    """Time from end to end of the range, whether or not something happened."""
    axis = alt.Axis(title=None, labelExpr=CLOCK, grid=False, tickCount=8)
    return alt.X("time:T", axis=axis, scale=alt.Scale(domain=[moment.astimezone(UTC) for moment in span]))


def value_axis(palette: Palette, form: str = ",d", title: str | None = None) -> alt.Axis:
    least = 1 if form == ",d" else 0  # counts are whole
    return alt.Axis(
        title=title, format=form, tickCount=4, gridColor=palette.line, domain=False, ticks=False, tickMinStep=least
    )


def where(test: str, value: str | float) -> dict[str, Any]:
    """A channel's condition: its value where the test holds."""
    return {"test": test, "value": value}


def colour(field: str, colours: dict[str, str], legend: bool = True, columns: int = 0) -> alt.Color:
    domain = list(colours)
    columns = columns or (len(domain) if len(domain) <= 5 else 4)
    key = alt.Legend(
        title=None, orient="top", symbolType="square", symbolStrokeWidth=0, labelLimit=200, columns=columns, padding=0,
        offset=6,
    )  # fmt: skip
    scale = alt.Scale(domain=domain, range=[colours[name] for name in domain])
    return alt.Color(f"{field}:N", scale=scale, legend=key if legend else None)


def steps(field: str, steps: Iterable[int | str], title: str) -> alt.X:
    """Whole numbers, each with its place whether or not it occurs."""
    axis = alt.Axis(title=title, labelAngle=0)
    return alt.X(f"{field}:O", axis=axis, scale=alt.Scale(domain=list(steps)))
