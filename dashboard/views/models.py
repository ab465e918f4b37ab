"""Models: which model, version, agent or provider makes most mistakes?"""

from collections.abc import Mapping
from typing import Any

import polars as pl
import streamlit as st

from dashboard.charts import proportions
from dashboard.data.client import MOST
from dashboard.data.filters import NO_VALUE, escaped
from dashboard.page import Page, open_page, refreshing
from dashboard.parts import components, link_table, words

WAYS: Mapping[str, str] = {
    "model": "model", "version": "service_version", "agent": "agent", "provider": "provider",
}  # fmt: skip
KINDS = {"called": "as called", "equal": "at equal tools"}
DRAWN = 14
COLUMNS = (
    "calls", "sessions", "mistakes", "per_100", "low", "high", "equal_per_100", "equal_low", "equal_high", "covered",
    "errors", "lasting", "not_known_yet", "streaks", "lost_calls", "lost_input_tokens", "lost_output_tokens",
    "lost_cost_usd",
)  # fmt: skip
EQUAL = (
    "Every tool counts as much as it does over all of these calls together, so that nobody looks better for calling "
    "easier tools; a tool that it never called is left out, and “covered” says how much of all calls that leaves."
)
LOST = (
    "What failing cost, as on Overview: streaks of mistakes until the success that ended them, and requests that asked "
    "for failed calls."
)


def body(page: Page) -> None:
    """The values of a dimension by mistakes in a hundred calls, and pairs of them to compare."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        way = components.switch(page, "by", "Rank", list(WAYS))
        equal = components.switch(page, "kind", "Calls", list(KINDS), KINDS) == "equal"
    with components.part():
        if components.rateless(page):
            return
        dimension = WAYS[way]
        answer = page.ask("ranking", by=dimension, limit=MOST)
        named = ["service", dimension] if dimension == "service_version" else [dimension]
        rows = answer.pick(*named, *COLUMNS)
        if rows.is_empty():
            components.nothing(page, "calls of tools")
            return
        rows = _read(rows, named, equal=equal)
        _leaders(rows, way, equal=equal)
        _drawn(page, rows, way, equal=equal)
        if equal:
            components.quiet(EQUAL)
        _listed(page, rows, named, way, equal=equal)
        _pair(page, rows, named, way)
        components.sampled(page)


def _read(rows: pl.DataFrame, named: list[str], *, equal: bool) -> pl.DataFrame:
    """The rows with the shares that are shown and the name of each; the worst first, those of few calls last."""
    prefix = "equal_" if equal else ""
    shares = {
        "share": pl.col(f"{prefix}per_100") / 100, "low": pl.col(f"{prefix}low") / 100,
        "high": pl.col(f"{prefix}high") / 100,
    }  # fmt: skip
    each = [pl.col(name).fill_null(NO_VALUE) for name in reversed(named)]
    rows = rows.with_columns(name=pl.concat_str(each, separator=" of "), few=pl.col("calls") < 20, **shares)
    rows = rows.sort("few", "share", descending=[False, True], nulls_last=True, maintain_order=True)
    rows = rows.with_columns(lost_tokens=pl.col("lost_input_tokens") + pl.col("lost_output_tokens"))
    said = [words.rough(share, calls) for share, calls in rows.select("share", "calls").iter_rows()]
    between = [
        f"{words.rate(low)} to {words.rate(high)}" if low is not None else "" for low, high in
        rows.select("low", "high").iter_rows()
    ]  # fmt: skip
    return rows.with_columns(
        pl.Series("said", said, dtype=pl.String), pl.Series("between", between, dtype=pl.String), uncertain="few"
    )


def _leaders(rows: pl.DataFrame, way: str, *, equal: bool) -> None:
    """One sentence: who makes most mistakes and who fewest, and whether that is clear."""
    sure = rows.filter(~pl.col("few"))
    if sure.height < 2:
        st.markdown(f"Fewer than two {way}s with 20 calls or more: nothing to rank.")
        return
    most, least = sure.row(0, named=True), sure.row(-1, named=True)
    clear = most["low"] > least["high"]
    doubt = "" if clear else " Their intervals overlap: the difference is not clear."
    first, last = (f"{row['said']} of {words.plural(row['calls'], 'call')}" for row in (most, least))
    named = [f"**{words.plain(row['name'], 60)}**" for row in (most, least)]
    how = "At equal tools, " if equal else ""
    st.markdown(f"{how}{named[0]} makes most mistakes, in {first}; {named[1]} fewest, in {last}.{doubt}")


def _drawn(page: Page, rows: pl.DataFrame, way: str, *, equal: bool) -> None:
    shown = rows.drop_nulls("share").unique("name", keep="first", maintain_order=True).head(DRAWN)
    of = pl.Series([f" of {words.count(calls)}" for calls in shown["calls"]], dtype=pl.String)
    shown = shown.with_columns(rated="calls", name=pl.col("name").str.slice(0, 60), label=pl.col("said") + of)
    shown = shown.rename({"share": "error_rate"})
    if shown.is_empty():
        return
    picture = proportions.dots(shown, page.palette, "name", "error_rate", small=page.small)
    about = f"Mistakes in a hundred calls by {way}{', at equal tools' if equal else ''}; most: {shown['name'][0]}."
    components.chart(picture, "ranking", about)


def _listed(page: Page, rows: pl.DataFrame, named: list[str], way: str, *, equal: bool) -> None:
    sure = rows.filter(~pl.col("few"))
    best = sure.row(-1, named=True) if sure.height else None
    columns = {
        "name": link_table.text(way, 40, fills=True),
        "share": link_table.share("mistakes", words.HELP["mistake"], said="said", colour=page.palette.outcome["error"]),
        "between": link_table.text("95 %", 20, by=""),
        "calls": link_table.number("calls"),
        **({"covered": link_table.share("covered", EQUAL)} if equal else {}),
        "lasting": link_table.number("not repaired", words.HELP["lasting errors"]),
        "not_known_yet": link_table.number("not known yet"),
        "streaks": link_table.number("streaks"),
        "lost_calls": link_table.number("calls lost", LOST),
        "lost_tokens": link_table.number("tokens lost", LOST),
        "lost_cost_usd": link_table.text("money lost", 12, LOST, form=words.dollars),
    }  # fmt: skip

    def to(row: dict[str, Any]) -> str:
        other = best if best and best["name"] != row["name"] else rows.row(0, named=True)
        return _compared(page, row, other, named) if other["name"] != row["name"] else ""

    link_table.table(
        page, rows, columns, caption="Mistakes, the worst first; each row opens Compare beside the one with fewest.",
        to=to, wide=("between", "lost_tokens", "lost_calls", "lost_cost_usd"),
    )  # fmt: skip


def _compared(page: Page, one: Mapping[str, Any], other: Mapping[str, Any], named: list[str]) -> str:
    """Where these two are compared, by their calls of tools."""
    return components.address(page, "compare", **_about(one, other, named))


def _about(one: Mapping[str, Any], other: Mapping[str, Any], named: list[str]) -> dict[str, str | None]:
    way = next(way for way, dimension in WAYS.items() if dimension == named[-1])
    about: dict[str, str | None] = {"by": way, "operation": "tool"}
    about |= {side: escaped(str(row[named[-1]] or "")) for side, row in (("a", other), ("b", one))}
    if len(named) > 1 and one["service"] == other["service"]:
        about["service"] = one["service"]
    return about


def _pair(page: Page, rows: pl.DataFrame, named: list[str], way: str) -> None:
    """Two of them, chosen by hand, and a link to Compare."""
    if rows.height < 2:
        return
    names = rows["name"].to_list()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        one = st.selectbox("Compare", names, key=f"pair-one-{way}", width=280)
        other = st.selectbox("with", [name for name in names if name != one], key=f"pair-other-{way}", width=280)
        both = [rows.filter(pl.col("name") == name).row(0, named=True) for name in (one, other)]
        components.link(page, "compare", "Open Compare →", **_about(both[0], both[1], named))


page = open_page(
    "models", "Models", "Which model, version or agent makes most mistakes?",
    view={"by": WAYS, "kind": KINDS}, tables=("",),
)  # fmt: skip
refreshing(body, page)
