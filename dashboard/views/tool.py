"""One tool: why does it fail, for whom, since when?"""

import polars as pl

from dashboard.charts import charts, proportions
from dashboard.data.client import MOST
from dashboard.page import Page, open_page, refreshing
from dashboard.parts import components, error_texts, link_table, time_marks, words
from dashboard.parts.components import Figure

RATES = 24  # buckets; with more, each would have too few calls for a rate
MODELS, LISTED = 12, 8
DURATIONS = "p50: half of the calls were faster; p95: all but one in twenty were."


def body(page: Page) -> None:
    """Figures, rate over time, classes, models, durations and groups of one tool."""
    tool = page.filters.only("tool")
    if not tool:
        components.link(page, "tools", "Choose a tool on the Tools page →")
        return
    page.later("retries")  # this and the next for the figures
    page.later("sources", **components.SENDERS)
    totals: dict[str, float | None] = {}
    with components.part():
        totals = page.ask("breakdown", measures="sessions,p50_ms,p95_ms").first()
        if not totals.get("calls"):
            components.nothing(page)
            components.link(page, "tools", "Choose a tool on the Tools page →")
            return
        components.figures(page, _figures(page, totals))
        components.reconciled(page, totals)
    if not totals:
        return
    left, right = components.pair("tool-1")
    with left:
        components.beside("Error rate over time", _rate, page, help=words.HELP["error rate"])
    with right:
        components.beside("Duration over time", _durations, page, help=DURATIONS)
    left, right = components.pair("tool-2")
    with left:
        components.beside("By class", _classes, page)
    with right:
        components.beside("By model", _models, page)
    left, right = components.pair("tool-3")
    with left:
        components.beside("Groups", _groups, page, help=words.HELP["spread"])
    with right:
        components.beside("Streaks of this tool", _streaks, page, help=words.HELP["streak"])
    components.beside("Error texts, and what the model did next", error_texts.texts, page, help=error_texts.HELP)
    components.beside("Parameters most often wrong", error_texts.parameters, page)
    components.beside("Targets that fail most", _targets, page)


def _figures(page: Page, totals: dict[str, float | None]) -> list[Figure]:
    retries = page.ask("retries").first()
    mine = {"tool": page.filters.only("tool")}
    rate = Figure("Error rate", words.rough(totals.get("error_rate"), totals.get("rated")), words.HELP["error rate"],
                  to="errors", more=f"of {words.plural(totals.get('rated'), 'call')}", about=mine,
                  note=components.sampling(page))  # fmt: skip
    number = Figure("Errors", words.count(totals.get("errors")), words.HELP["only errors"], to="errors",
                    more="all of them", about=mine, note=components.sampling(page))  # fmt: skip
    return [
        number if page.filters.of_failures else rate,
        Figure("Lasting errors", words.count(retries.get("lasting")), words.HELP["lasting errors"],
               note=components.of_errors(retries)),
        Figure("Recovery", words.rough(retries.get("recovery_rate"), retries.get("rated")), words.HELP["recovery"],
               note=f"of {words.count(retries.get('rated'))} tried again"),
        Figure("Cancelled · denied", f"{words.count(totals.get('cancelled'))} · {words.count(totals.get('denied'))}",
               words.HELP["unknown"] if totals.get("unknown") else None,
               note=f"of {words.plural(totals.get('calls'), 'call')}"
               + (f", {words.count(totals['unknown'])} unknown" if totals.get("unknown") else "")),
        Figure("Duration, p50", words.duration(totals.get("p50_ms")), "Half of the calls were faster than this.",
               note=f"p95 {words.duration(totals.get('p95_ms'))}"),
    ]  # fmt: skip


def _rate(page: Page) -> None:
    if components.rateless(page):
        return
    answer = page.ask("timeseries", bucket=f"{page.bucket(RATES)}s")
    rows = page.drawn(answer.pick("time", "error_rate", "low", "high", "rated"))
    if rows["error_rate"].is_null().all():
        components.quiet("Only its failures are reported: it has no rate.")
        return
    picture = charts.rate_over_time(rows, page.palette, page.axis, deploys=time_marks.on_axis(page), narrow=page.narrow)
    worst = rows.drop_nulls("error_rate").sort("error_rate", descending=True).row(0, named=True)
    highest = f"highest {words.rate_of(worst['error_rate'], worst['rated'])} calls from {worst['time']:%-d %b %H:%M}"
    components.chart(picture, "rate", f"Error rate over time with its interval; {highest}.")
    components.sampled(page)


def _durations(page: Page) -> None:
    answer = page.ask("timeseries", bucket=f"{page.bucket(RATES)}s", measures="p50_ms,p95_ms")
    rows = answer.pick("time", "p50_ms", "p95_ms").drop_nulls()
    if rows.is_empty():
        components.quiet("The agents that call it do not tell how long it took.")
        return
    picture = charts.durations(page.drawn(rows), page.palette, page.axis)
    slowest = words.duration(rows["p95_ms"].max())  # type: ignore[arg-type]
    components.chart(picture, "durations", f"Median and 95th percentile of durations over time, at most {slowest}.")


def _models(page: Page) -> None:
    if components.rateless(page):
        return
    answer = page.ask("breakdown", by="model", limit=str(MODELS))
    rows = answer.pick("model", "error_rate", "low", "high", "rated")
    rows = rows.drop_nulls(["model", "error_rate"]).sort("error_rate", descending=True)
    if rows.is_empty():
        components.quiet("Neither these calls nor the sessions that they are in tell a model.")
        return
    picture = proportions.dots(
        link_table.with_rate_words(rows).with_columns(label=pl.col("rate")),
        page.palette,
        "model",
        "error_rate",
        small=page.small,
    )
    components.chart(picture, "models", f"Error rate by model; highest: {rows['model'][0]}.")
    if answer.cut:
        components.quiet(f"The {MODELS} models with the most errors.")


def _classes(page: Page) -> None:
    rows = (
        page.ask("breakdown", by="error_class", outcome="error", limit=MOST).pick("error_class", "errors").drop_nulls()
    )
    if rows.is_empty():
        components.quiet("It has not failed.")
        return
    rows = rows.with_columns(share=pl.col("errors") / rows["errors"].sum())
    columns = {
        "error_class": link_table.text("class", 36),
        "errors": link_table.number("errors"),
        "share": link_table.share("share of errors", by="errors"),
    }
    tool = page.filters.only("tool")
    link_table.table(
        page, rows, columns, name="classes", usual="-errors", caption=f"Most errors are {rows['error_class'][0]}.",
        to=lambda row: components.address(page, "errors", error_class=row["error_class"], tool=tool), rows_shown=12,
    )  # fmt: skip


def _groups(page: Page) -> None:
    answer = page.ask("groups", sort="-events", limit=str(LISTED))
    rows = answer.pick("fingerprint", "error_class", "template", "events")
    for fingerprint, name, template, events in rows.iter_rows():
        room = max(20, 50 - len(name or ""))  # fits on one line in half the width
        facts = f"{words.plural(events, 'event')} · {words.plain(template, room)}"
        components.row(page, "group", name or "", facts, fingerprint=fingerprint)
    if rows.is_empty():
        components.quiet("No group of errors.")
    elif answer.cut:
        components.link(page, "errors", "All groups →", tool=page.filters.only("tool"), sort="-events")


def _targets(page: Page) -> None:
    rows = page.ask("breakdown", by="target", sort="-errors", limit=str(LISTED)).pick("target", "errors", "calls")
    rows = rows.drop_nulls("target").filter(pl.col("errors") > 0)
    for target, errors, calls in rows.iter_rows():
        of = "" if page.filters.of_failures else f" of {words.plural(calls, 'call')}"
        facts = f"{words.count(errors)}{of} failed"
        components.row(page, "errors", target, facts, target=target, tool=page.filters.only("tool"))
    if rows.is_empty():
        components.quiet("No call that failed names its target.")


def _streaks(page: Page) -> None:
    answer = page.ask("streaks", scope="tool", min_length="2", sort="-length", limit=str(LISTED))
    rows = answer.rows
    for row in rows.iter_rows(named=True):
        since = words.age(row["started"], page.now, page.zone)
        about = {"scope": "tool", "started": row["started"].isoformat()} | components.session_of(row)
        facts = f"{words.count(row['length'])} in a row · {row['state']} · {since}"
        components.row(page, "streak", row["session"], facts, limit=components.HALF_WIDTH, **about)
    if rows.is_empty():
        components.quiet("No two mistakes in a row with this tool.")
        return
    which = f"The {LISTED} longest. " if answer.cut else ""
    components.quiet(f"{which}Only this tool counts: calls of other tools neither lengthen such a streak nor end it.")


page = open_page(
    "tool", "Tool", "Why does it fail, for whom, and since when?", tables=("classes", "texts", "parameters")
)
refreshing(body, page)
