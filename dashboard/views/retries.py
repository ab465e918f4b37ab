"""Retries: does trying again help, and does the agent know?"""

import polars as pl
import streamlit as st

from dashboard import charts, components, frames, tables, words
from dashboard.client import Problem
from dashboard.components import Figure, Page

CERTAIN = words.UNCERTAIN_BELOW
NAMES = (
    "error_class", "errors", "retried", "rated", "recovered", "lasting", "recovery_rate", "low", "high",
    "identical_retries", "declared", "declared_retryable", "taxonomy_retryable", "median_seconds",
)  # fmt: skip


def body(page: Page) -> None:
    """Figures, said against seen, curves, the table."""
    with components.part():
        total = page.ask("retries").first()
        if not total.get("errors"):
            components.nothing(page, "errors with a session")
            return
        components.figures(page, _figures(page, total))
    rows = pl.DataFrame()
    with components.part("Said against seen", words.HELP["retryable, observed"]):
        rows = frames.disagreement(page.ask("retries", by="error_class", limit="200").pick(*NAMES))
        _said_and_seen(page, rows)
    with components.part():
        _curves(page)
    with components.part("By class", words.HELP["recovery"]):
        _table(page, rows)
    with components.part("By tool"):
        _tools(page)


def _figures(page: Page, total: dict[str, float | None]) -> list[Figure]:
    retried, identical = total.get("retried") or 0, total.get("identical_retries") or 0
    share = f"{words.rate(identical / retried)} of what was tried again" if retried else ""
    return [
        Figure(
            "Errors",
            words.count(total.get("errors")),
            "Errors in sessions: what can be tried again.",
            to="errors",
            more="all errors",
        ),
        Figure("Tried again", words.count(retried), "A second attempt came within 30 minutes."),
        Figure(
            "Recovery",
            words.rate(total.get("recovery_rate")),
            words.HELP["recovery"],
            note=components.sampling(page),
        ),
        Figure("Lasting errors", words.count(total.get("lasting")), words.HELP["lasting errors"]),
        Figure("Identical retries", words.count(identical), "The same call again, with equal arguments.", note=share),
    ]


def _said_and_seen(page: Page, rows: pl.DataFrame) -> None:
    tried = rows.drop_nulls("recovery_rate").sort(pl.col("rated") < CERTAIN, maintain_order=True).head(12)
    if tried.is_empty():
        components.quiet("No error was tried again in this range.")
        return
    shown = tried.with_columns(name=pl.col("error_class") + "  " + pl.col("said_words"), label=pl.col("finding"))
    components.chart(
        charts.dots(shown, page.palette, "name", "recovery_rate"),
        "said",
        f"First: {shown['name'][0]} {shown['label'][0]}.",
    )
    components.quiet(
        "The dot is the observed recovery. ● said to be retryable, ○ not; by the agent, else by Misstep's table."
    )


def _curves(page: Page) -> None:
    try:
        rows = page.ask("retries/curve").pick("axis", "at", "recovery_rate", "low", "high")
    except Problem as problem:
        if problem.state != "missing":
            raise
        return
    if rows.is_empty():
        return
    left, right = components.pair("curves")
    with left:
        st.subheader("Recovered within so many attempts", anchor=False)
        components.chart(
            charts.recovery_curve(rows.filter(pl.col("axis") == "attempts"), page.palette),
            "attempts",
            "Recovery by attempt.",
        )
    with right:
        st.subheader("Recovered within so many seconds", anchor=False)
        components.chart(
            charts.time_to_recovery(rows.filter(pl.col("axis") == "seconds"), page.palette),
            "seconds",
            "Recovery by time.",
        )


def _table(page: Page, rows: pl.DataFrame) -> None:
    shown = rows.with_columns(
        pl.Series("again", [words.duration(None if s is None else s * 1000) for s in rows["median_seconds"]]),
        pl.Series("observed", [words.rate_of(*pair) for pair in rows.select("recovery_rate", "rated").rows()]),
    )
    columns = {
        "error_class": tables.text("class", 190),
        "said_words": tables.text("said", 100, words.HELP["retryable, declared"]),
        "observed": tables.text("observed recovery", 135, help=words.HELP["retryable, observed"]),
        "finding": tables.text("finding", 215),
        "errors": tables.number("errors"),
        "retried": tables.number("tried again"),
        "lasting": tables.number("lasting", words.HELP["lasting errors"]),
        "identical_retries": tables.number("identical"),
        "again": tables.text("median time", "small"),
    }
    picked = tables.table(page, shown, columns, key="retries", alt_text="Recovery by class.", select=True)
    if picked:
        components.link(
            page, "errors", f"{words.plain(picked['error_class'])} in Errors →", error_class=picked["error_class"]
        )


def _tools(page: Page) -> None:
    rows = page.ask("retries", by="tool", operation="tool", sort="-lasting", limit="8").pick(
        "tool", "lasting", "errors", "recovery_rate", "rated"
    )
    for tool, lasting, errors, rate, rated in rows.drop_nulls("tool").iter_rows():
        recovered = f"recovered {words.rate_of(rate, rated)}"
        facts = f"{words.count(lasting)} of {words.plural(errors, 'error')} lasting · {recovered}"
        components.row(page, "tool", tool, facts, tool=tool)


page = components.open_page("retries", "Retries", "Does trying again help, and does the agent know?")
components.refreshing(body, page)
