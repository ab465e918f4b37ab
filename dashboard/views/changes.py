"""What changed: which values explain that errors rose or fell since the period before?"""

from typing import Any

import polars as pl
import streamlit as st

from dashboard.charts import proportions
from dashboard.page import Page, open_page, refreshing
from dashboard.parts import change_list, components, headline, seen_before, sentences

BARS, LISTED = 16, 40


def body(page: Page) -> None:
    """The parts of the change, both periods side by side, each value with its sentence."""
    total: dict[str, Any] = {}
    verdict = ""
    with components.part():
        kept = seen_before.kept_before(page)
        total = page.ask("breakdown", previous="true").first()
        if not total.get("calls"):
            components.nothing(page)
            return
        if not headline.comparable(page, total) or not kept():
            change_list.nothing_before(page)
            return
        answer = page.ask("compare", measure=headline.measured(page))
        components.caution(answer)
        [(verdict, said)] = answer.pick("verdict", "sentence").rows()
        st.markdown(sentences.compared(verdict, said))
        components.sampled(page)
        if change_list.rows(page, change_list.ALL, verdict).is_empty():
            components.quiet(change_list.nothing(verdict))
            components.link(page, "compare", "Compare versions, models or agents instead →")
            return
        for volume in change_list.volume(page):
            components.quiet(volume)
    if total:
        components.beside("Errors before and now", _periods, page, verdict)
        components.beside("One by one", _values, page, verdict, help=change_list.ORDER)


def _periods(page: Page, verdict: str) -> None:
    rows = change_list.rows(page, change_list.ALL, verdict)
    shown = rows.head(BARS).with_columns(
        pl.Series("name", [change_list.subject(row)[:60] for row in rows.head(BARS).iter_rows(named=True)]),
        a_errors=pl.col("a_errors").cast(pl.Float64), b_errors=pl.col("b_errors").cast(pl.Float64),
    ).unique("name", maintain_order=True)  # fmt: skip
    bars = proportions.paired_bars(shown, page.palette, small=page.small)
    components.chart(bars, "changes", str(rows["sentence"][0]))


def _values(page: Page, verdict: str) -> None:
    rows = change_list.rows(page, change_list.ALL, verdict)
    change_list.listed(page, rows.head(LISTED))
    if rows.height > LISTED:
        components.quiet(f"The first {LISTED}.")


page = open_page("changes", "What changed", "Which versions, tools, models or classes explain the change?")
refreshing(body, page)
