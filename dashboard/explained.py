"""Which values of which dimensions explain a rise or fall in errors: the rows, and the list of them."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from dashboard import components, words
from dashboard.filters import DIMENSIONS
from dashboard.page import Page

NAMES = (
    "dimension", "value", "contribution", "share", "a_errors", "a_calls", "b_errors", "b_calls", "state", "verdict",
    "sentence",
)  # fmt: skip
# What calls have whether or not they fail; for the others, all calls are the whole.
WITH_CALLS = ("tool", "service", "service_version", "model", "agent", "environment", "provider", "mcp_server")
HALF = 0.5
ORDER = "First what has more of the change than its share of the calls, or of the errors before, explains."
BAR, THIN = 6, "▏▎▍▌▋▊▉█"  # characters of a full bar; parts of a character
VOLUME = "volume"
# What people mention first when they say what broke.
ACTS = ("service_version", "tool", "model", "agent", "service", "error_class")
# Dimensions that would only repeat these in words that nobody can act on are left out. Overview leaves out the volume
# too, for which every session of both periods is counted.
ALL = (VOLUME, *ACTS, "mcp_server", "category", "attribution", "fingerprint", "provider", "environment")


def rows(page: Page, by: Sequence[str]) -> pl.DataFrame:
    """The values of these dimensions that explain the change in errors; clear ones first."""
    answer = page.ask("changes", measure="errors", limit="200", by=",".join(by)).pick(*NAMES)
    return answer.filter(pl.col("dimension") != VOLUME, pl.col("value").is_not_null())


def most(found: pl.DataFrame) -> str:
    """What stands out most, with the version that brought it: `Most of it: tool = x on version = 3.2`; may be empty."""
    if found.is_empty():
        return ""
    first = found.row(0, named=True)
    share = first["share"] or 0.0
    part = "Most of it" if share >= HALF else f"What stands out, {words.part(share)} of it"
    named = f"{part}: {words.plain(subject(first), 80)}"
    brought = found.filter(pl.col("dimension") == "service_version", pl.col("share") >= HALF)
    if brought.is_empty() or first["dimension"] == "service_version":
        return named
    return f"{named} on {words.plain(subject(brought.row(0, named=True)), 40)}"


def volume(page: Page) -> list[str]:
    """The same change in terms of sessions, calls per session, and the error rate."""
    answer = page.ask("changes", measure="errors", limit="200", by=",".join(ALL)).pick("dimension", "sentence")
    said = answer.filter(pl.col("dimension") == VOLUME)["sentence"]
    return [words.plain(one[:1].upper() + one[1:]) for one in said]


def subject(row: dict[str, Any]) -> str:
    """The subject of a row: `tool = apply_diff`; the class and message of a group, since a class has several groups."""
    if row["dimension"] == "fingerprint":  # whose sentence is `new: class of tool: how many: message`
        named, *_, message = f"{row['sentence']}: ".removeprefix("new: ").split(": ", 2)
        return f"group {named}: {message}".removesuffix(": ")
    return f"{DIMENSIONS[row['dimension']]} = {row['value']}"


def nothing_before(page: Page) -> None:
    """Shows that the period before has nothing to compare with, and what else can be compared."""
    components.quiet(f"Nothing to compare with in the {words.span(page.length)} before.")
    components.link(page, "compare", "Compare versions, models or agents instead →")


def listed(page: Page, found: pl.DataFrame, *, rise: bool, limit: int = components.FULL_WIDTH) -> None:
    """Shows a link to the errors of each value, with its part of the rise (or fall); the bars are aligned."""
    if found.height:
        components.quiet(f"Share of the {'rise' if rise else 'fall'} · errors before → now")
    for row in found.iter_rows(named=True):
        share = row["share"] or 0.0
        length = min(abs(share), 1.0) * BAR
        bar = ("█" * round(length) if length >= 1 else THIN[int(length * len(THIN))]).ljust(BAR, "▁")
        part = words.part(share) if share > 0 else "against it"
        errors = words.count(row["b_errors"])
        how = f"new, {errors}" if row["state"] == "new" else f"{words.count(row['a_errors'])} → {errors}"
        rated = row["dimension"] in WITH_CALLS and not page.filters.of_failures
        failed = f" of {words.plural(row['b_calls'], 'call')}" if rated else ""
        to = "group" if row["dimension"] == "fingerprint" else "errors"
        facts = f"{part} · {how}{failed}"
        components.row(page, to, subject(row), facts, before=bar, limit=limit, **{row["dimension"]: row["value"]})
