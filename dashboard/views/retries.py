"""Retries: does trying again help, and does the agent know?"""

import polars as pl
import streamlit as st

from dashboard import charts, components, frames, tables, words
from dashboard.client import Problem
from dashboard.components import Figure, Page

CERTAIN = words.UNCERTAIN_BELOW
STRIP = 240  # bars in the strip of storms
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
    with components.part("Storms", "At least ten errors of one class within a minute of each other."):
        _storms(page)
    with components.part("What failing cost", "Streaks from their first mistake to the success; retries in vain."):
        _costs(page)
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


def _storms(page: Page) -> None:
    """Bursts with their states, over a strip of the errors that rate limits are."""
    names = (
        "error_class", "state", "started", "ended", "sessions", "calls", "most_in_a_minute", "told_to_wait", "honoured",
    )  # fmt: skip
    rows = page.ask("retries/storms", sort="-ended", limit="100").pick(*names)
    step = page.bucket(STRIP)
    strip = page.ask("timeseries", category="rate_limit", outcome="error", bucket=f"{step}s").pick("time", "errors")
    if strip.height:
        components.quiet("Rate-limit errors over time")
        picture = charts.storm_strip(page.drawn(strip), page.palette, page.axis, step)
        components.chart(picture, "strip", f"{words.count(components.total(strip, 'errors'))} rate-limit errors.")
    if rows.is_empty():
        components.quiet("No storm in this range.")
        return
    said = [
        "ongoing"
        if state == "ongoing"
        else f"ended {words.clock(ended, page.zone, now=page.now)}, {words.age(ended, page.now, page.zone)}"
        for state, ended in rows.select("state", "ended").iter_rows()
    ]
    waits = [
        f"{words.count(kept)} of {words.count(told)}" if told else words.NONE
        for kept, told in rows.select("honoured", "told_to_wait").iter_rows()
    ]
    shown = rows.with_columns(pl.Series("now", said), pl.Series("waits", waits))
    columns = {
        "started": tables.when("started", page),
        "now": tables.text("state", 190),
        "error_class": tables.text("class", 180),
        "sessions": tables.number("sessions"),
        "calls": tables.number("calls"),
        "most_in_a_minute": tables.number("most a minute"),
        "waits": tables.text("Retry-After honoured", 140),
    }
    text = f"Latest storm: {rows['error_class'][0]}, {said[0]}."
    picked = tables.table(page, shown, columns, key="storms", alt_text=text, select=True, rows_shown=8)
    chosen = picked or rows.row(0, named=True)
    label = f"{words.plain(chosen['error_class'])} in Errors →"
    components.link(page, "errors", label, error_class=chosen["error_class"])


def _costs(page: Page) -> None:
    cost = page.ask("costs").first()
    if not cost.get("streaks") and not cost.get("wasted_retries"):
        components.quiet("No streak and no retry in vain.")
        return
    tokens = (cost.get("wasted_input_tokens"), cost.get("wasted_output_tokens"))
    used = sum(number for number in tokens if number is not None) if any(n is not None for n in tokens) else None
    money = cost.get("wasted_cost_usd")
    unsaid = "the agents do not tell" if used is None else ""
    items = [
        Figure("Calls in streaks", words.count(cost.get("calls")), note=f"{words.count(cost.get('streaks'))} streaks"),
        Figure("Time in streaks", words.duration((cost.get("seconds") or 0) * 1000)),
        Figure("Retries in vain", words.count(cost.get("wasted_retries")),
               note=words.duration(cost.get("wasted_ms") or 0)),
        Figure("Tokens in vain", words.count(used), note=unsaid),
        Figure("Money in vain", words.NONE if money is None else f"${money:,.2f}", note=unsaid),
    ]  # fmt: skip
    components.figures(page, items)


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
