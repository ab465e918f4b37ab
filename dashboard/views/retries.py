"""Retries: does trying again help, and does the agent know?"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import polars as pl

from dashboard.charts import attempts, charts, proportions
from dashboard.data import frames
from dashboard.data.client import MOST
from dashboard.data.filters import rfc3339
from dashboard.page import Page, open_page, refreshing
from dashboard.parts import components, link_table, sentences, words
from dashboard.parts.components import Figure

STORM = "At least ten errors of one class within a minute of each other."
COSTS = (
    "Streaks from their first mistake to the success that ended them, and the model requests that asked for failed"
    " calls, each once; and retries in vain, with the requests that asked for them: these can be in both."
)
CLASSES = {"by": "error_class", "limit": MOST}  # all of them: the totals are their sums
CURVE = {"by": "error_class", "limit": MOST}
STORMS = {"sort": "-ended", "limit": MOST}
DOTS = 12  # classes of which what was said stands against what was seen
CONTRARY = 0.2  # recovery below which retrying that was said to help does not, and the same from above
CURVES = 5  # classes drawn besides all errors
CURVES_BY = {"attempts": (attempts.recovery_curve, "attempt"), "seconds": (attempts.time_to_recovery, "time")}
CERTAIN = words.UNCERTAIN_BELOW
STRIP = 240  # bars in the chart of rate-limit errors
NAMES = (
    "error_class", "errors", "retried", "rated", "recovered", "lasting", "not_known_yet", "recovery_rate", "low",
    "high", "identical_retries", "declared", "said_retryable", "verdict", "disagreement", "median_seconds",
)  # fmt: skip


def body(page: Page) -> None:
    """Figures, costs, said against seen, curves, storms, tables."""
    asking = page.later("retries", **CLASSES)
    page.later("sources", **components.SENDERS)  # for the figures
    page.later("retries/storms", **STORMS)  # the slowest of the parts, which begin after the first answer
    page.later("retries/curve", **CURVE)
    total: dict[str, float | None] = {}
    with components.part():
        total = frames.retried(asking().pick(*NAMES))
        if not total.get("errors"):
            components.nothing(page, "errors with a session")
            return
    if not total:
        return
    components.beside("", _figures, page, total)
    components.beside("What failing cost", _costs, page, help=COSTS)
    components.beside("Said against seen", _said_and_seen, page, help=words.HELP["retryable, observed"])
    titles = {"attempts": "Recovered within so many attempts", "seconds": "Recovered within so much time"}
    for place, axis in zip(components.pair("curves"), titles, strict=True):
        with place:
            components.beside(titles[axis], _recovered, page, axis, help=words.HELP["recovery"])
    components.beside("Storms", _storms, page, help=STORM)
    components.beside("By class", _table, page, help=words.HELP["recovery"])
    components.beside("By tool", _tools, page)


def _figures(page: Page, total: dict[str, float | None]) -> None:
    retried, identical = total.get("retried") or 0, total.get("identical_retries") or 0
    share = words.rate_of(identical / retried, retried) if retried else ""
    items = [
        Figure(
            "Errors",
            words.count(total.get("errors")),
            "Errors in sessions: what can be tried again.",
            to="errors",
            more="all errors",
        ),
        Figure(
            "Tried again",
            words.count(retried),
            "A second attempt came within 30 minutes. Those of agents that report no successes are left out of the "
            "recovery.",
            note=f"of {words.plural(total.get('errors'), 'error')}",
        ),
        Figure(
            "Recovery",
            words.rough(total.get("recovery_rate"), total.get("rated")),
            words.HELP["recovery"],
            note=components.sampling(page) or f"of {words.count(total.get('rated'))} tried again",
        ),
        Figure(
            "Lasting errors",
            words.count(total.get("lasting")),
            words.HELP["lasting errors"],
            note=components.of_errors(total),
        ),
        Figure("Identical retries", words.count(identical), "The same call again, with equal arguments.", note=share),
    ]
    components.figures(page, items)


def _classes(page: Page) -> pl.DataFrame:
    """What was said and what was seen of each class, the strongest disagreement first."""
    rows = page.ask("retries", **CLASSES).pick(*NAMES)
    return frames.findings(rows.drop_nulls("error_class"))


def _said_and_seen(page: Page) -> None:
    tried = _classes(page).drop_nulls("recovery_rate")
    shown = tried.sort(pl.col("rated") < CERTAIN, maintain_order=True).head(DOTS)
    if tried.is_empty():
        components.quiet("No error was tried again in this range.")
        return
    many = pl.Series([words.count(rated) for rated in shown["rated"]])
    glyph, against = pl.col("said_words").str.slice(0, 1), pl.col("said_retryable")
    shown = shown.with_columns(
        name=glyph + " " + pl.col("error_class") if page.small else pl.col("error_class") + "  " + pl.col("said_words"),
        label=pl.format("{} (n = {})", "finding", many),
        tint_from=pl.when(against).then(0.0).when(~against).then(1 - CONTRARY),
        tint_to=pl.when(against).then(CONTRARY).when(~against).then(1.0),
    )
    components.chart(
        proportions.dots(shown, page.palette, "name", "recovery_rate", small=page.small),
        "said",
        f"First: {shown['name'][0]} {shown['label'][0]}.",
    )
    components.quiet(
        "The dot is the observed recovery, tinted where it would contradict what was said. "
        "● said to be retryable, ○ not; by the agent, else by Misstep's table."
    )
    if tried.height > DOTS:
        components.quiet(f"The first {DOTS} of {tried.height} classes; all of them are below.")


def _curve(page: Page, axis: str) -> pl.DataFrame:
    """Recovery by attempts or seconds: of all errors, and of the classes that were retried most often."""
    names = ("axis", "at", "retried", "recovery_rate", "low", "high")
    asking = page.later("retries/curve")
    each = page.ask("retries/curve", **CURVE).pick(*names, "error_class").drop_nulls("error_class")
    whole = asking().pick(*names).with_columns(error_class=pl.lit(attempts.ALL))
    most = each.group_by("error_class").agg(pl.col("retried").max()).filter(pl.col("retried") >= CERTAIN)
    most = most.sort("retried", "error_class", descending=[True, False]).head(CURVES)
    shown = each.filter(pl.col("error_class").is_in(most["error_class"].to_list()))
    return pl.concat([whole, shown.select(whole.columns)]).filter(pl.col("axis") == axis)


def _recovered(page: Page, axis: str) -> None:
    rows = _curve(page, axis)
    if rows.is_empty():
        components.quiet("No error was tried again in this range.")
        return
    draw, by = CURVES_BY[axis]
    components.chart(draw(rows, page.palette, small=page.small), axis, f"Recovery by {by} and class.")


def _storms(page: Page) -> None:
    """Storms with their states, below a chart of rate-limit errors."""
    names = (
        "error_class", "state", "started", "ended", "sessions", "calls", "most_in_a_minute", "told_to_wait", "honoured",
    )  # fmt: skip
    bursts = page.later("retries/storms", **STORMS)
    step = page.bucket(STRIP)
    strip = page.ask("timeseries", category="rate_limit", outcome="error", bucket=f"{step}s").pick("time", "errors")
    rows = bursts().pick(*names)
    if strip.height:
        components.quiet("Rate-limit errors over time")
        picture = charts.storm_strip(page.drawn(strip), page.palette, page.axis, step)
        components.chart(picture, "strip", f"{words.plural(components.total(strip, 'errors'), 'rate-limit error')}.")
    if rows.is_empty():
        components.quiet("No storm in this range.")
        return
    said = [
        sentences.storm(state, started, ended, page.now, page.zone)
        for state, started, ended in rows.select("state", "started", "ended").iter_rows()
    ]
    waits = [
        f"{words.count(kept)} of {words.count(told)}" if told else words.NONE
        for kept, told in rows.select("honoured", "told_to_wait").iter_rows()
    ]
    shown = rows.with_columns(pl.Series("now", said), pl.Series("waits", waits))
    columns = {
        "error_class": link_table.text("class", 28),
        "now": link_table.text("state", 36, by="started"),
        "started": link_table.when("started", page),
        "sessions": link_table.number("sessions"),
        "calls": link_table.number("calls"),
        "most_in_a_minute": link_table.number("most a minute"),
        "waits": link_table.text("Retry-After honoured", 20, by="told_to_wait"),
    }

    def during(row: dict[str, Any]) -> str:
        span = (rfc3339(row["started"]), rfc3339(row["ended"] + timedelta(seconds=1)))
        storm = replace(page, filters=page.filters.between(*span))
        return components.address(storm, "errors", error_class=row["error_class"])

    link_table.table(
        page, shown, columns, name="storms", caption=f"Latest storm: {rows['error_class'][0]}, {said[0]}.", to=during,
        wide=("started", "most_in_a_minute", "waits"), rows_shown=8,
    )  # fmt: skip


def _costs(page: Page) -> None:
    cost = page.ask("costs").first()
    if not cost.get("streaks") and not cost.get("wasted_retries"):
        components.quiet("No streak and no retry in vain.")
        return
    asking = cost.get("asking") or 0
    beside = f", with {words.plural(asking, 'request')} that asked for failed calls" if asking else ""
    items = [
        Figure("Calls spent", words.count(cost.get("calls")),
               note=f"in {words.plural(cost.get('streaks'), 'streak')}{beside}"),
        Figure("Time in streaks", words.duration((cost.get("seconds") or 0) * 1000)),
        Figure("Tokens spent", words.count(sentences.tokens(cost)),
               note=sentences.not_told(cost.get("tokens_not_told_by"))),
        Figure("Money spent", words.dollars(cost.get("cost_usd")),
               note=sentences.not_told(cost.get("money_not_told_by"))),
        Figure("Retries in vain", words.count(cost.get("wasted_retries")), note=_in_vain(cost)),
    ]  # fmt: skip
    components.figures(page, items)


def _in_vain(cost: Mapping[str, Any]) -> str:
    """Time, tokens and money of retries that did not help, as far as they are reported."""
    tokens, money = sentences.tokens(cost, "wasted_"), cost.get("wasted_cost_usd")
    parts = [words.duration(cost["wasted_ms"])] if cost.get("wasted_ms") else []
    parts += [words.plural(tokens, "token")] if tokens is not None else []
    return " · ".join(parts + ([words.dollars(money)] if money is not None else []))


def _table(page: Page) -> None:
    rows = _classes(page)
    shown = rows.with_columns(
        pl.Series("again", [words.duration(None if s is None else s * 1000) for s in rows["median_seconds"]]),
        frames.rates(rows, "observed", "recovery_rate", "rated"),
    )
    columns = {
        "error_class": link_table.text("class", 26),
        "said_words": link_table.text("said", 14, words.HELP["retryable, declared"]),
        "observed": link_table.text("observed recovery", 16, words.HELP["retryable, observed"], by="recovery_rate"),
        "finding": link_table.text("finding", 34, words.HELP["said and seen"]),
        "disagreement": link_table.number("against", "Errors that contradict what was said."),
        "errors": link_table.number("errors"),
        "retried": link_table.number("again", "Those that were tried again within 30 minutes."),
        "lasting": link_table.number("lasting", words.HELP["lasting errors"]),
        "not_known_yet": link_table.number("not known yet", words.HELP["lasting errors"]),
        "identical_retries": link_table.number("identical"),
        "again": link_table.text("median time", 10, by="median_seconds"),
    }
    link_table.table(
        page, shown, columns, name="classes", caption="Recovery by class.",
        to=lambda row: components.address(page, "errors", error_class=row["error_class"]),
        wide=("said_words", "errors", "retried", "disagreement", "identical_retries", "again"),
    )  # fmt: skip


def _tools(page: Page) -> None:
    answer = page.ask("retries", by="tool", operation="tool", sort=components.LASTING_FIRST, limit="8")
    rows = answer.pick("tool", *components.LASTING, "recovery_rate", "rated").drop_nulls("tool")
    if rows.is_empty():
        components.quiet("No tool failed.")
    for tool, *lasting, rate, rated in rows.iter_rows():
        recovered = f"recovered {words.rate_of(rate, rated)}" if rated else "none tried again"
        facts = f"{words.lasting(*lasting)} · {recovered}"
        components.row(page, "tool", tool, facts, tool=tool)
    if answer.cut:
        components.link(page, "tools", "All tools →")


page = open_page("retries", "Retries", "Does trying again help, and does the agent know?", tables=("storms", "classes"))
refreshing(body, page)
