"""Says what changed, and what share of the whole change it is, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping

from collector.plural import plural
from collector.query.filters import BY_NAME, NO_VALUE
from collector.query.statement import Row
from collector.query.verdicts import percent


def amount(measure: str, change: float) -> str:
    """The size and direction of a change."""
    if measure.endswith("_rate"):
        return f"{100 * change:+.1f} pts"
    size = abs(change)
    number = f"{size:,.0f}" if size >= 0.95 or not change else f"{size:.1f}"
    counted = measure.removesuffix("s") if number == "1" else measure
    return f"{number} {'more' if change >= 0 else 'fewer'} {counted}"


def of_change(change: float, whole: float) -> str:
    """Which share of the whole change it is, behind a comma."""
    if not whole or change * whole <= 0:
        return ", against the trend" if change * whole < 0 else ""
    share = round(change / whole, 9)  # all of it may be a little more or less as a sum of floats
    part = "more than all" if share >= 1.0005 else percent(share)  # others went the other way
    return f", {part} of the {'rise' if whole > 0 else 'fall'}"


def sentence(measure: str, row: Row, whole: float, groups: Mapping[str, Row]) -> str:
    """A row of changes as a sentence; `whole` is the whole change, `groups` the groups by fingerprint."""
    much = amount(measure, row["contribution"]) + of_change(row["contribution"], whole)
    if row["dimension"] == "fingerprint" and (group := groups.get(row["value"] or "")):
        return _of_group(row, group, much)
    what = f"{row['dimension']} = {NO_VALUE if row['value'] is None else row['value']}: {much}"
    if row["state"] == "gone":
        return f"{what}; gone"
    if not _is_call(row):
        since = "new, not seen before" if row["state"] == "new" else f"{row['a_errors']:,} → {row['b_errors']:,}"
        return f"{what}; {since}"
    if row["state"] == "new":
        return f"{what}; new, {row['b_errors']:,} of {plural(row['b_calls'], 'call')} failed"
    return f"{what}; {_how_calls_changed(row)}"


def _of_group(row: Row, group: Row, much: str) -> str:
    new = "new: " if row["state"] == "new" else ""
    of = f" of {group['tool']}" if group["tool"] else ""
    return f"{new}{group['error_class']}{of}: {much}: {group['template'] or ''}".removesuffix(": ")


def _how_calls_changed(row: Row) -> str:
    """What weighs more: that calls fail more (or less) often, or that there are more (or fewer) of them."""
    calls = plural(row["b_calls"], "call")
    if abs(row["rate"]) < abs(row["traffic"]):
        word = "more" if row["b_calls"] > row["a_calls"] else "less"
        return f"it is called {word} often, {row['a_calls']:,} → {calls}"
    before, after = (row[f"{side}_errors"] / row[f"{side}_calls"] for side in "ab")
    word = "as" if after == before else "more" if after > before else "less"
    return f"it fails {word} often, {percent(before)} → {percent(after)} of {calls}"


def _is_call(row: Row) -> bool:
    return BY_NAME[row["dimension"]].about == "call"
