"""The top of the Overview: the verdict and the figures, each compared with the period before."""

from typing import Any

import polars as pl

from dashboard.data import frames
from dashboard.page import BARS, Page
from dashboard.parts import change_list, components, seen_before, sentences, words
from dashboard.parts.components import Figure

TREND_BARS = 24
OPEN = {"state": "open", "sort": "-length", "limit": "6"}  # the longest streaks
COMPARED = "hit_rate,lasting,not_known_yet"


def totals(page: Page, max_age: float | None = None) -> dict[str, Any]:
    """The totals of the range, at most `max_age` seconds old, and those of the period before as `previous_…`; no
    calls, and neither errors nor rate of it, where it is not kept.
    """
    kept = seen_before.kept_before(page)
    answer = page.ask("breakdown", max_age, previous="true")
    now = answer.first() | {"newest": answer.rest.get("newest")}
    return now if kept() else now | {"previous_calls": 0, "previous_errors": None, "previous_error_rate": None}


def measured(page: Page) -> str:
    """What is told and compared: the rate of errors, or their number where only failures match."""
    return "errors" if page.filters.of_failures else "error_rate"


def comparable(page: Page, now: dict[str, Any]) -> bool:
    """Whether the period before has what is `measured`: calls, or, where only failures match, a number of errors."""
    return now.get("previous_errors") is not None if page.filters.of_failures else bool(now.get("previous_calls"))


def against(page: Page) -> dict[str, dict[str, Any]]:
    """Measures by session of the period before (a) and of this one (b), and the verdict on what is `measured`."""
    asking = page.later("compare", measure=f"{measured(page)},{COMPARED}")
    page.later("streaks", **OPEN)  # for the figures
    return {row["measure"]: row for row in asking().rows.iter_rows(named=True)}


def verdict(page: Page, now: dict[str, Any], most: str = "") -> str:
    """One sentence: better or worse than before."""
    told = sentences.counted if page.filters.of_failures else sentences.verdict
    return told(now, words.span(page.length), most)


def most(page: Page, now: dict[str, Any]) -> tuple[str, str | None]:
    """What explains most of the change, if the change is clear, and the version that this names."""
    rows = change_list.rows(page, change_list.ACTS, now["verdict"])
    calls, before = now["calls"] or 0, now["previous_calls"] or 0
    rates = [errors / of if of else 0.0 for errors, of in
             ((now["errors"] or 0, calls), (now["previous_errors"] or 0, before))]  # fmt: skip
    whole = (rates[0] - rates[1]) * (calls + before) / 2
    return change_list.most(rows, whole), change_list.version(rows, whole)


def figures(page: Page, now: dict[str, Any], both: dict[str, dict[str, Any]]) -> list[Figure]:
    """The five figures; `now` comes from `totals` and `both` from `against`."""
    hit, lasting, open_ = both["hit_rate"], both["lasting"], both["not_known_yet"]
    only = page.filters.of_failures
    before = now.get("previous_errors") is not None if only else now.get("previous_calls")
    share = "" if only or words.uncertain(hit["b_whole"]) else f"{words.rate(hit['b'])} of all"
    return [
        _number(page, now) if only else _rate(page, now, both["error_rate"]["difference"] if before else None),
        Figure(
            "Lasting errors", words.count(lasting["b_part"]), words.HELP["lasting errors"], to="retries",
            delta=sentences.settled_change(lasting, open_) if before else None,
            more=f"of {words.plural(lasting['b_whole'], 'error')}{'' if lasting['b_whole'] else ' with a session'}",
            note=components.not_known(open_["b_part"]),
        ),
        Figure(
            "Sessions hit", words.count(hit["b_part"]), "Sessions with at least one error.", to="sessions",
            delta=sentences.change(hit["b_part"], hit["a_part"] if before else None),
            note=share, more="all of them" if only else f"of {words.plural(hit['b_whole'], 'session')}",
        ),
        _worst_streak(page, open_streaks(page)),
        _alerts(page),
    ]  # fmt: skip


def _rate(page: Page, now: dict[str, Any], difference: float | None) -> Figure:
    change = round(difference or 0, 3)
    return Figure(
        "Error rate", words.rough(now.get("error_rate"), now.get("rated")), words.HELP["error rate"], to="errors",
        delta=words.points(change) if change else None, clear=sentences.clear(now), trend=trend(page, now),
        more=f"of {words.plural(now.get('rated'), 'call')}", note=components.sampling(page),
    )  # fmt: skip


def _number(page: Page, now: dict[str, Any]) -> Figure:
    return Figure(
        "Errors", words.count(now.get("errors")), words.HELP["only errors"], to="errors", more="all of them",
        delta=sentences.change(now.get("errors"), now.get("previous_errors")), clear=sentences.clear(now),
        note=components.sampling(page),
    )  # fmt: skip


def series(page: Page, now: dict[str, Any]) -> dict[str, str]:
    """The query for calls and errors over time, with those of the period before if it had errors."""
    past = {"previous": "true"} if now.get("previous_errors") else {}
    return {"bucket": f"{page.bucket(BARS)}s", **past}


def trend(page: Page, now: dict[str, Any]) -> list[float]:
    """The error rate in each of some longer buckets of the range, 0 if there is none."""
    rows = page.ask("timeseries", **series(page, now)).pick("time", "error_rate", "rated")
    step = page.bucket(TREND_BARS)
    return frames.filled(frames.longer(rows, step), step, page.span)["error_rate"].to_list()


def open_streaks(page: Page) -> pl.DataFrame:
    """The longest open streaks."""
    return page.ask("streaks", **OPEN).rows


def _worst_streak(page: Page, rows: pl.DataFrame) -> Figure:
    if rows.is_empty():
        return Figure("Worst open streak", "none", words.HELP["streak"], to="streaks", more="all streaks",
                      note="no agent is failing in a row")  # fmt: skip
    worst = rows.row(0, named=True)
    since = words.duration((page.now - worst["started"]).total_seconds() * 1000)
    about = {"session": worst["session"], "service": worst.get("service")}
    note = f"{words.plain(worst.get('tool'), 24)} · {since}" if worst.get("tool") else f"for {since}"
    length = words.count(worst["length"])
    return Figure(
        "Worst open streak", length, words.HELP["streak"], note=note, to="session", more="open session", about=about
    )


def _alerts(page: Page) -> Figure:
    rows = components.alerts(page.collector)
    firing = rows.filter(pl.col("state") == "firing")["rule"].unique(maintain_order=True)
    pending = rows["state"].eq("pending").sum()
    note = ", ".join(words.plain(rule, 30) for rule in firing.head(3)) or "no rule is met"
    number = rows["state"].eq("firing").sum()
    more = f"{pending}{' more' if number else ''} pending" if pending else "all alerts"
    help = "Alerts that fire now, without those that are silenced or held back."
    return Figure("Alerts", f"{number} firing", help, note=note, to="alerts", more=more)
