"""One session step by step: its calls over time, those around the selected one, and that one in full."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import polars as pl

from dashboard import menu
from dashboard.data import client, frames
from dashboard.data.client import path
from dashboard.data.filters import EVER
from dashboard.menu import SUBJECTS
from dashboard.page import Page
from dashboard.parts import components, link_table, recorder, share, words
from dashboard.parts.card import event_card
from dashboard.parts.recorder import Recording

WINDOW = (240, 120, 60)  # calls that are drawn in wide, narrow and small windows of the browser
BESIDE = 7  # calls listed before and after the selected one
PAGES = 5  # of the API's rows; later calls are left out
SLACK = 100  # calls that may have come since the index was read
INDEX = ("outcome", "operation")  # what is asked of every call
SCOPES, KINDS = ("session", "tool", "target"), ("mistake", "error", "denied")  # of streaks


@dataclass(frozen=True, slots=True)
class Story:
    """All calls of a session: their `order`, `event_id`, `time`, `sequence`, and what else was asked for.

    `summary` is the API's row of the session, empty if several services have one of this name; `cut`: it has more calls
    than these.
    """

    session: str
    index: pl.DataFrame
    summary: dict[str, Any]
    cut: bool

    def order_of(self, event: str) -> int | None:
        """The position of an event among the calls; None if it is none of them."""
        found = self.index.filter(pl.col("event_id") == event)["order"]
        return int(found[0]) if found.len() else None


def whole(page: Page) -> dict[str, str | None]:
    """What queries about a session override: it is shown whole, whatever filters the link brought from another page."""
    others = (condition.dimension for condition in page.filters.conditions)
    return {"from": EVER, "to": None, "q": None} | {name: None for name in others if name not in SUBJECTS["session"]}


def told(page: Page, session: str, *columns: str) -> Story:
    """The calls of a session in order, in few columns, `columns` among them."""
    asked = whole(page) | {"session": None, "limit": client.MOST, "columns": ",".join((*INDEX, *columns))}
    first = answer = page.ask(path("sessions", session), **asked)
    parts = [answer.rows]
    while (further := answer.rest.get("next")) and len(parts) < PAGES:
        answer = page.ask(path("sessions", session), **asked, cursor=further)
        parts.append(answer.rows)
    index = pl.concat(parts, how="diagonal_relaxed")
    summary = dict(first.rest.get("summary") or {})
    return Story(session, frames.ordered(index) if index.height else index, summary, bool(answer.rest.get("next")))


def show(page: Page, story: Story, part: pl.DataFrame, streaks: pl.DataFrame, at: int, said: str) -> None:
    """Shows the calls of a part of the story's index, with that of the order `at` selected.

    `said`: the answer in a sentence, for readers who cannot see it.
    """
    rows = _window(page, part, at)
    if rows.filter(pl.col("order") == at).is_empty():
        components.quiet("This call is no longer kept.")
        return
    width = recorder.PLOT_PX[_size(page)]
    recording = Recording(rows, part, at, streaks, lambda event: here(page, event), width)
    recorder.show(recording, f"recorder-{page.name}", page.palette, page.zone, said)
    left, right = components.pair("session-detail")
    with left:
        _beside(page, rows, at, story.index.height)
    with right:
        event_card(page, rows.row(by_predicate=pl.col("order") == at, named=True), rows, streaks)


def _size(page: Page) -> int:
    return page.narrow + page.small


def here(page: Page, event: str) -> str:
    """The address of this page with another event selected."""
    return share.address(menu.address(page.name), page.filters.showing(event=event))


def _window(page: Page, part: pl.DataFrame, at: int) -> pl.DataFrame:
    """The calls around one of a part, whole and in order.

    Windows begin at multiples of half their length, so that a step to the next call seldom asks for another.
    """
    size = WINDOW[_size(page)]
    place = part["order"].index_of(at) or 0
    start = max(0, min((place // (size // 2)) * (size // 2) - size // 4, part.height - size))
    shown = part[start : start + size]
    times = part["time"].dt.timestamp("ns")
    first, last = times[start], times[start + shown.height - 1]
    at_once = times.is_between(first, last).sum()
    span_asked = {
        "from": _exactly(first), "to": _exactly(last + 1), "sort": "time",
        "limit": str(min(at_once + SLACK, int(client.MOST))),
    }  # fmt: skip
    rows = page.ask("events", **whole(page) | span_asked).having(*DRAWN)
    return shown.select("order", "event_id").join(rows, on="event_id", how="inner", maintain_order="left")


def _exactly(time_ns: int) -> str:
    """A time as the API takes it, with all its digits."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def _beside(page: Page, rows: pl.DataFrame, at: int, calls: int) -> None:
    """The calls before and after the selected one, as a table of links; `calls`: how many the session has."""
    near = rows.filter(pl.col("order").is_between(at - BESIDE, at + BESIDE))
    shown = near.with_columns(
        call=pl.Series([f"▸ {order:,}" if order == at else f"{order:,}" for order in near["order"]]),
        tool=pl.coalesce("tool", pl.col("operation").replace(frames.NO_TOOL)),
        result=pl.coalesce("error_class", "outcome"),
        took=pl.Series([words.duration(ms) for ms in near["duration_ms"]], dtype=pl.String),
        tokens=pl.sum_horizontal("input_tokens", "output_tokens", ignore_nulls=True).replace(0, None),
    )
    link_table.table(
        page, shown, _columns(page), caption=f"The calls before and after call {at:,}, which is marked with ▸.",
        to=lambda row: here(page, row["event_id"]), rows_shown=2 * BESIDE + 1, wide=("tokens",),
        which=f"calls {near['order'][0]:,} to {near['order'][-1]:,} of {calls:,}",
    )  # fmt: skip


def _columns(page: Page) -> dict[str, Any]:
    tones = {outcome: page.palette.outcome[outcome] for outcome in ("cancelled", "denied", "unknown")}
    time = {} if page.small else {"time": link_table.when("time", page, day=False, by="")}
    return {
        "call": link_table.text("call", 8, by=""),
        **time,
        "tool": link_table.text("tool", 14 if page.small else 20, by=""),
        "result": link_table.text("outcome", 24, by="", tones=tones),
        "took": link_table.text("took", 9, by=""),
        "tokens": link_table.number("tokens", by=""),
    }


DRAWN = (
    "operation", "outcome", "subagent", "tool", "error_class", "duration_ms", "target",
    "input_tokens", "output_tokens", "cost_usd", "params_hash", "asked_by", "model",
)  # fmt: skip
