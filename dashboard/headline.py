"""The figures on top of the Overview, each beside the period before it or with its course over time."""

from typing import Any

import polars as pl

from dashboard import components, frames, sentences, words
from dashboard.components import Figure, Page

TREND_BARS = 24


def figures(page: Page, now: dict[str, Any]) -> list[Figure]:
    """The five figures; `now` are the totals of the range with those of the period before as `previous_…`."""
    clear = sentences.clear(now)
    step = page.bucket(TREND_BARS)
    every = page.ask("timeseries", bucket=f"{step}s").pick("time", "errors", "error_rate")
    failed = page.ask("timeseries", bucket=f"{step}s", outcome="error", measures="sessions").pick("time", "sessions")
    trend, hits = (frames.filled(rows, step, page.span) for rows in (every, failed))
    hit = page.ask("breakdown", measures="sessions", outcome="error").first()
    retries = page.ask("retries").first()
    rate, was = now.get("error_rate"), now.get("previous_error_rate")
    return [
        Figure(
            "Error rate", words.rate(rate), words.HELP["error rate"], to="errors",
            delta=words.points(rate - was) if rate is not None and was is not None else None, clear=clear,
            trend=trend["error_rate"].to_list(), more=f"of {words.count(now.get('rated'))} calls",
            note=components.sampling(page),
        ),
        Figure(
            "Lasting errors", words.count(retries.get("lasting")), words.HELP["lasting errors"], to="retries",
            trend=trend["errors"].to_list(), more=f"of {words.plural(retries.get('errors'), 'error')}",
        ),
        Figure(
            "Sessions hit", words.count(hit.get("sessions")), "Sessions with at least one error.", to="sessions",
            trend=hits["sessions"].to_list(), more=f"of {words.plural(now.get('sessions'), 'session')}",
        ),
        _worst_streak(page),
        _alerts(page),
    ]  # fmt: skip


def _worst_streak(page: Page) -> Figure:
    worst = page.ask("streaks", state="open", sort="-length", limit="1").first()
    if not worst:
        return Figure("Worst open streak", "none", words.HELP["streak"], to="streaks", more="all streaks")
    since = words.duration((page.now - worst["started"]).total_seconds() * 1000)
    about = {"session": worst["session"], "service": worst.get("service")}
    note = f"{words.plain(worst.get('tool'), 24)} · {since}" if worst.get("tool") else f"for {since}"
    length = words.count(worst["length"])
    return Figure(
        "Worst open streak", length, words.HELP["streak"], note=note, to="session", more="open session", about=about
    )


def _alerts(page: Page) -> Figure:
    rows = page.collector.ask("alerts").pick("state", "rule")
    firing = rows.filter(pl.col("state") == "firing")["rule"].unique(maintain_order=True)
    pending = rows["state"].eq("pending").sum()
    note = ", ".join(words.plain(rule, 30) for rule in firing.head(3))
    number = rows["state"].eq("firing").sum()
    return Figure(
        "Alerts", f"{number} firing", "Alerts that fire now.", note=note, to="alerts", more=f"{pending} pending"
    )
