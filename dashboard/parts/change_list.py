"""Which values of which dimensions explain a rise or fall in errors: the rows, and the list of them."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from dashboard.data.filters import DIMENSIONS, escaped
from dashboard.page import Page
from dashboard.parts import components, words

NAMES = (
    "dimension", "value", "rate", "a_errors", "a_calls", "b_errors", "b_calls", "state", "verdict",
    "sentence",
)  # fmt: skip
# What calls have whether or not they fail; for the others, all calls are the whole.
WITH_CALLS = ("tool", "service", "service_version", "model", "agent", "environment", "provider", "mcp_server")
HALF = 0.5
NEARLY = 0.95  # of the errors of two values, so that they are one fact by two names
ORDER = (
    "At equal traffic: the errors that come from failing more (or less) often than before, not from more or fewer "
    "calls. Only what is statistically clear is listed."
)
VOLUME = "volume"
# What people mention first when they say what broke.
ACTS = ("service_version", "tool", "model", "agent", "service", "error_class")
# Dimensions that would only repeat these in words that nobody can act on are left out. Overview leaves out the volume
# too, for which every session of both periods is counted.
ALL = (VOLUME, *ACTS, "mcp_server", "category", "attribution", "fingerprint", "provider", "environment")


def rows(page: Page, by: Sequence[str], verdict: str) -> pl.DataFrame:
    """The values of these dimensions that clearly changed in the same way as the whole, at equal traffic; most first.

    `verdict` is that on the whole: where it is not clear, there is nothing to explain. `also` names the values of other
    dimensions that are nearly the same events, as a service and its agent: one fact by several names.
    """
    answer = page.ask("changes", measure="errors", limit="200", by=",".join(by)).pick(*NAMES)
    clear = pl.col("verdict") == (verdict if verdict in ("worse", "better") else "")
    same_way = pl.col("rate") * (1 if verdict == "worse" else -1) > 0
    found = answer.filter(pl.col("dimension") != VOLUME, pl.col("value").is_not_null(), clear, same_way)
    return _facts(page, found)


def _facts(page: Page, found: pl.DataFrame) -> pl.DataFrame:
    """The rows, each fact once under the name that comes first; the other names of it are its `also`."""
    facts: list[dict[str, Any]] = []
    for row in found.iter_rows(named=True):
        same = next((fact for fact in facts if _alike(fact, row) and _same_events(page, fact, row)), None)
        if same is None:
            facts.append({**row, "also": []})
        else:
            same["also"].append(subject(row))
    return pl.DataFrame(facts, schema={**found.schema, "also": pl.List(pl.String)})


def _alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two values have nearly as many errors, before and now."""
    pairs = [(one[name] or 0, other[name] or 0) for name in ("a_errors", "b_errors")]
    near = all(min(pair) >= NEARLY * max(pair) for pair in pairs)
    return near and one["dimension"] != other["dimension"]


def _same_events(page: Page, one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether nearly all errors of either value are errors of the other: of now, or of before if there are none."""
    both = page.ask("breakdown", previous="true", **{row["dimension"]: escaped(row["value"]) for row in (one, other)})
    told = both.first()
    name, own = ("errors", "b_errors") if one["b_errors"] else ("previous_errors", "a_errors")
    return (told.get(name) or 0) >= NEARLY * max(one[own] or 0, other[own] or 0)


def most(found: pl.DataFrame, whole: float) -> str:
    """What stands out most, with the version that brought it: `Most of it: tool = x on version = 3.2`; may be empty.

    `whole`: the change of all calls at equal traffic, in errors.
    """
    if found.is_empty():
        return ""
    half = HALF * abs(whole)
    # What was called can be acted on sooner than what came of it.
    tools = found.filter(pl.col("dimension") == "tool", pl.col("rate").abs() >= half)
    leads = found["dimension"][0] == "error_class" and tools.height > 0
    first = (tools if leads else found).row(0, named=True)
    part = "Most of it" if abs(first["rate"]) >= half else "What stands out"
    named = f"{part}: {words.plain(subject(first), 80)}"
    brought = _versions(found, half)
    if brought.is_empty() or first["dimension"] == "service_version":
        return named
    return f"{named} on {words.plain(subject(brought.row(0, named=True)), 40)}"


def version(found: pl.DataFrame, whole: float) -> str | None:
    """The version that `most` names, if it names one."""
    brought = _versions(found, HALF * abs(whole))
    if found.height and found["dimension"][0] == "service_version":
        brought = found
    return str(brought["value"][0]) if brought.height else None


def _versions(found: pl.DataFrame, least: float) -> pl.DataFrame:
    """The versions that account for at least so many errors of the change."""
    return found.filter(pl.col("dimension") == "service_version", pl.col("rate").abs() >= least)


def nothing(verdict: str) -> str:
    """What is said where nothing is listed."""
    return "No single value stands out." if verdict in ("worse", "better") else "No clear change: nothing to explain."


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


def listed(page: Page, found: pl.DataFrame, *, limit: int = components.FULL_WIDTH) -> None:
    """Shows a link for each value, with its change at equal traffic: of a version to its comparison with the one
    before, of others to their errors.
    """
    if found.height:
        components.quiet("At equal traffic · errors before → now")
    for row in found.iter_rows(named=True):
        part = f"{words.count(abs(row['rate']))} {'more' if row['rate'] > 0 else 'fewer'}"
        errors = words.count(row["b_errors"])
        how = f"new, {errors}" if row["state"] == "new" else f"{words.count(row['a_errors'])} → {errors}"
        rated = row["dimension"] in WITH_CALLS and not page.filters.of_failures
        failed = f" of {words.plural(row['b_calls'], 'call')}" if rated else ""
        also = "".join(f" · also {words.plain(name, 40)}" for name in row["also"])
        facts = f"{part} · {how}{failed}{also}"
        to = "group" if row["dimension"] == "fingerprint" else "errors"
        about = {row["dimension"]: row["value"]}
        if row["dimension"] == "service_version":
            to, about = "compare", {"by": "version", "b": escaped(row["value"])}
        components.row(page, to, subject(row), facts, limit=limit, **about)
