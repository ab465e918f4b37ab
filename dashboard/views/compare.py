"""Compare: did this version, model, agent or period make it worse?"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import polars as pl
import streamlit as st

from dashboard.charts import proportions
from dashboard.data import frames
from dashboard.data.client import MOST
from dashboard.data.filters import NO_VALUE, OWN, escaped, rfc3339, unescaped
from dashboard.page import Page, ignored, open_page, refreshing
from dashboard.parts import components, filter_bar, link_table, seen_before, sentences, words

WAYS: Mapping[str, str] = {
    "version": "service_version", "model": "model", "agent": "agent", "service": "service",
    "environment": "environment", **{name: name for name in OWN}, "period": "",
}  # fmt: skip
MEASURES: Mapping[str, str] = {
    "error_rate": "Error rate", "mistakes_per_session": "Mistakes per session", "lasting_rate": "Lasting errors",
    "recovery_rate": "Recovery", "streak_rate": "Sessions with 3 mistakes in a row", "p95_ms": "Duration, p95",
}  # fmt: skip
COLUMNS = (
    "measure", "a", "a_low", "a_high", "a_part", "a_whole", "b", "b_low", "b_high", "b_part", "b_whole", "difference",
    "verdict", "sentence",
)  # fmt: skip
# Where only failures match, no measure is of all calls or sessions.
OF_FAILURES = {"errors": "Errors"} | {name: MEASURES[name] for name in ("lasting_rate", "recovery_rate", "p95_ms")}
TOOLS = 14


def body(page: Page) -> None:
    """What is compared, a verdict for each measure, the tools, the classes."""
    filter_bar.follow()
    asked: dict[str, str] | None = None
    sides = "A", "B"
    with components.part():
        versions = seen_before.all_versions(page)()
        if versions.is_empty():
            components.nothing(page)
            return
        wanted = {name: page.filters.state(name) for name in ("a", "b")}
        newest = frames.newest_versions(versions, **wanted)
        with st.container(horizontal=not page.small, vertical_alignment="bottom"):
            ways = list(WAYS) if newest else ["period", *[way for way in WAYS if way != "period"]]
            way = components.switch(page, "by", "Compare", ways, clears=("a", "b"))
            if WAYS[way]:
                asked, sides = _sides(page, WAYS[way], versions, newest)
            elif seen_before.kept_before(page)():
                asked, sides = {}, (f"the {words.span(page.length)} before", "this range")
        taken = (asked or {}).items()
        ignored(*(f"{name}={value}" for name, value in wanted.items() if value and (name, escaped(value)) not in taken))
        if asked is None:
            components.quiet(_nothing_to_compare(page, way))
    if asked is None:
        return
    components.beside("", _verdicts, page, asked, sides)
    components.beside("Error rate by tool", _tools, page, asked, sides, help=words.HELP["error rate"])
    about = words.HELP["only errors" if page.filters.of_failures else "to 1,000 calls"]
    components.beside("Errors by class", _classes, page, asked, sides, help=about)


def _nothing_to_compare(page: Page, way: str) -> str:
    if way == "period":
        return f"Nothing to compare with in the {words.span(page.length)} before."
    return f"Only one {way} in this range: nothing to compare. Take a longer range, or periods."


def _sides(
    page: Page, dimension: str, versions: pl.DataFrame, newest: tuple[str | None, str, str] | None
) -> tuple[dict[str, str] | None, tuple[str, str]]:
    """A and B as chosen or as in the link, or else the newest two versions, or the two values with the most calls.

    Versions of one service are compared within it, unless the filters name services: others may have the same ones by
    chance.
    """
    rows = page.ask("breakdown", by=dimension, sort="-calls", limit=MOST).pick(dimension).drop_nulls()
    values = [str(value) for value in rows[dimension]]
    if dimension == "service_version" and newest:
        return _versions(page, values, versions, newest)
    if len(values) < 2:
        return None, ("A", "B")
    chosen = _pair(values, (values[0], values[1]), "A", "B")
    return {"dimension": dimension, "a": escaped(chosen[0]), "b": escaped(chosen[1])}, chosen


def _versions(
    page: Page, values: Sequence[str], versions: pl.DataFrame, newest: tuple[str | None, str, str]
) -> tuple[dict[str, str], tuple[str, str]]:
    """Two versions, each over its days; `values` are those of this range."""
    service, *usual = newest
    own = versions.filter(pl.col("service").eq_missing(service)).drop_nulls("service_version")
    every = dict.fromkeys((*values, *own["service_version"]))
    chosen = _pair(list(every), (usual[0], usual[1]), f"A {chr(0x2002)}(before)", f"B {chr(0x2002)}(after)")
    asked = {"dimension": "service_version", "a": escaped(chosen[0]), "b": escaped(chosen[1])}
    asked |= _days(page, own, chosen)
    if not page.filters.values("service") and {*chosen} <= {*own["service_version"]}:
        asked["service"] = escaped(service or "")
    return asked, chosen


def _pair(values: Sequence[str], usual: tuple[str, str], *labels: str) -> tuple[str, str]:
    first = _choose("a", labels[0], values, usual[0])
    others = [value for value in values if value != first]
    return first, _choose("b", labels[1], others, usual[1] if usual[1] != first else usual[0])


def _days(page: Page, own: pl.DataFrame, versions: tuple[str, str]) -> dict[str, str]:
    """Each version over the days on which it ran, which are said where the range begins later: a range that has them
    all, since the events of a version lie in its own days.
    """
    ran = own.filter(pl.col("service_version").is_in(versions))
    began = ran["first_seen"].min()
    if not isinstance(began, datetime) or began >= page.filters.span(page.now)[0]:
        return {}
    days = []
    for version in versions:
        first, last = ran.filter(pl.col("service_version") == version).select("first_seen", "last_seen").row(0)
        spoken = " – ".join(dict.fromkeys(words.clock(at, page.zone, now=page.now) for at in (first, last)))
        days.append(f"{words.plain(version, 40)}: {spoken}")
    components.quiet(f"Each version over the days on which it ran, not only in this range. {' · '.join(days)}.")
    return {"from": rfc3339(began)}


def _choose(name: str, label: str, values: Sequence[str], usual: str) -> str:
    return str(st.selectbox(label, values, width=240, **components.in_link(f"compare-{name}", name, values, usual)))


def _verdicts(page: Page, asked: dict[str, str], sides: tuple[str, str]) -> None:
    measures = OF_FAILURES if page.filters.of_failures else MEASURES
    answer = page.ask("compare", measure=",".join((*measures, "not_known_yet")), **asked)
    components.caution(answer)
    rows = answer.pick(*COLUMNS)
    of = f" of {words.plain(unescaped(asked['service']) or NO_VALUE, 60)}" if "service" in asked else ""
    st.markdown(f"**{words.plain(sides[0], 60)}** → **{words.plain(sides[1], 60)}**{of}")
    said = {row["measure"]: row for row in rows.iter_rows(named=True)}
    for measure, label in measures.items():
        row = said.get(measure)
        if row and (row["a_whole"] or row["b_whole"]):
            open_ = _not_known(said.get("not_known_yet")) if measure == "lasting_rate" else ""
            st.markdown(f"{label}: {sentences.compared(row['verdict'], row['sentence'])}{open_}")
    components.sampled(page)


def _not_known(row: Mapping[str, Any] | None) -> str:
    """How many errors of each side are in no share of lasting ones, if there are any."""
    open_ = [words.count(row[f"{side}_part"] or 0) for side in "ab"] if row else []
    return f"; not known yet: {' → '.join(open_)}" if {*open_} - {"0"} else ""


def _tools(page: Page, asked: dict[str, str], sides: tuple[str, str]) -> None:
    if components.rateless(page):
        return
    answer = page.ask("compare", measure="error_rate", by="tool", operation="tool", limit=MOST, **asked)
    rows = answer.pick("tool", *COLUMNS).drop_nulls(["tool", "a", "b"])
    if rows.is_empty():
        components.quiet("No tool was called on both sides.")
        return
    enough = rows.filter((pl.col("a_whole") >= words.UNCERTAIN_BELOW) & (pl.col("b_whole") >= words.UNCERTAIN_BELOW))
    shown = (enough if enough.height else rows).sort(pl.col("difference").abs(), descending=True).head(TOOLS)
    shown = shown.with_columns(name="tool")
    for verdict in ("worse", "better"):
        if tools := shown.filter(pl.col("verdict") == verdict)["tool"].to_list():
            st.markdown(f"{sentences.VERDICTS[verdict]}: {', '.join(words.plain(tool, 40) for tool in tools)}")
    worst = str(shown["sentence"][0])
    components.chart(
        proportions.dumbbells(shown, page.palette, small=page.small), "dumbbells", f"{shown['name'][0]}: {worst}"
    )
    components.quiet(
        f"○ {words.plain(sides[0], 40)} ● {words.plain(sides[1], 40)}, with 95 % intervals; coloured where the "
        "difference is clear."
    )
    if rows.height > TOOLS:
        components.quiet(f"The {TOOLS} of {words.plural(rows.height, 'tool')} that differ most.")
    mixed = frames.equal_mix(rows)
    if mixed is not None:
        components.quiet(f"The tools' shares of calls differ; at equal mix: {words.points(mixed)}.")


def _classes(page: Page, asked: dict[str, str], sides: tuple[str, str]) -> None:
    measure, title = ("errors", "errors") if page.filters.of_failures else ("errors_per_1000", "to 1,000 calls")
    answer = page.ask("compare", measure=measure, by="error_class", limit=MOST, **asked)
    rows = answer.pick("error_class", *COLUMNS).drop_nulls("error_class")
    if rows.is_empty():
        components.quiet("No errors on either side.")
        return
    none_in_a, none_in_b = (pl.col(f"{side}_part").fill_null(0) == 0 for side in "ab")
    only = pl.when(none_in_a).then(pl.lit("only in B")).when(none_in_b).then(pl.lit("only in A"))
    said = [text.partition(", n = ")[0] for text in rows["sentence"]]
    if page.narrow:  # without the interval, for which there is no room
        said = [re.sub(r", between .*\)", ")", text) for text in said]
    if page.small:  # what is not clear says so by having no verdict
        said = [text.removeprefix("no clear difference: ") for text in said]
    shown = rows.with_columns(
        pl.Series("sentence", said, dtype=pl.String),
        only=only.otherwise(pl.lit("")),
    )
    columns = {
        "error_class": link_table.text("class", 30),
        "a_part": link_table.number("A" if page.narrow else f"A: {words.clip(sides[0], 24)}"),
        "b_part": link_table.number("B" if page.narrow else f"B: {words.clip(sides[1], 24)}"),
        "only": link_table.text("", 10, by=""),
        "sentence": link_table.text(title, fills=True, by=""),
    }
    filters = page.filters.set(asked["dimension"], sides) if "dimension" in asked else page.filters
    filters = filters.set("service", [unescaped(asked["service"])]) if "service" in asked else filters
    both = replace(page, filters=filters)
    link_table.table(
        page, shown, columns, name="classes", caption=f"Errors by class; first: {shown['error_class'][0]}.",
        to=lambda row: components.address(both, "errors", error_class=row["error_class"]), wide=("only",),
    )  # fmt: skip


page = open_page(
    "compare", "Compare", "Did this version, model, agent or period make it worse?",
    view={"by": WAYS, "a": None, "b": None}, tables=("classes",),
)  # fmt: skip
refreshing(body, page)
