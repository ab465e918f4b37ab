"""Live: what is happening right now?"""

from datetime import datetime
from typing import Any

import polars as pl
import streamlit as st

from dashboard.data import frames
from dashboard.data.client import path
from dashboard.data.filters import Condition
from dashboard.page import Page, open_page, refreshing
from dashboard.parts import components, filter_bar, link_table, share, words
from dashboard.parts.card import event_card

NEWEST = 200
EVERY_S = 2.0
COLUMNS = (
    "time", "outcome", "tool", "error_class", "project", "service", "session", "message", "event_id", "operation",
    "fingerprint",
)  # fmt: skip


def body(page: Page) -> None:
    """The event of the link in full, and the newest events."""
    if event := page.filters.state("event"):
        with components.part():
            event_card(page, page.ask_all(path("events", event)).first())
    with components.part():
        rows = _tail(page)
        if rows.is_empty():
            components.nothing(page, "events")
            return
        newest: datetime | None = rows["time"].max()  # type: ignore[assignment]
        components.quiet(f"{words.plural(rows.height, 'event')}, the newest {words.age(newest, page.now, page.zone)}.")
        shown = _in_words(rows)
        link_table.table(
            page, shown, _columns(page, shown), caption="The newest events.", to=lambda row: _address(page, row),
            wide=("outcome", "service", "session"),
        )  # fmt: skip


def _in_words(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(
        shown_tool=pl.coalesce("tool", pl.col("operation").replace(frames.NO_TOOL)),
        result=pl.coalesce("error_class", "outcome"),
    )


def _tones(page: Page) -> dict[str, str]:
    """Colours of what did not go well; `ok` is the colour of a mark, too light for words."""
    return {outcome: colour for outcome, colour in page.palette.outcome.items() if outcome != "ok"}


def _columns(page: Page, rows: pl.DataFrame) -> dict[str, link_table.Column]:
    # In narrow windows, one column has both outcome and class.
    name, title = ("result", "outcome") if page.narrow else ("error_class", "class")
    tones = _tones(page)
    told = rows.select("result", "outcome").iter_rows() if page.narrow else ()
    of_results = {result: tones[outcome] for result, outcome in told if outcome in tones}
    return {
        "time": link_table.when("time", page, day=not page.narrow),
        "outcome": link_table.text("outcome", 10, tones=tones),
        "shown_tool": link_table.name("tool", 24),
        name: link_table.text(title, 28, tones=of_results),
        "service": link_table.name("service", 18),
        "session": link_table.name("session", 18),
        "message": link_table.text("message", fills=True),
    }


def _address(page: Page, row: dict[str, Any]) -> str:
    """Where an event is told in full: in its session, in its group, or here."""
    if row["session"]:
        return components.address(page, "session", **components.session_of(row), event=row["event_id"])
    if row["fingerprint"]:
        return components.address(page, "group", fingerprint=row["fingerprint"])
    return components.address(page, "live", event=row["event_id"])


def _tail(page: Page) -> pl.DataFrame:
    """The newest events, including those that came since."""
    asked = page.filters.api()
    tail: dict[str, Any] = st.session_state.setdefault("live-tail", {})
    if tail.get("asked") != asked:
        answer = page.ask("events", limit=str(NEWEST))
        tail.update(asked=asked, rows=answer.pick(*COLUMNS), after=answer.rest["after"])
    else:
        answer = page.collector.ask("events", asked | {"after": tail["after"], "limit": "1000"}, max_age=1.0)
        share.remember("events", asked | {"limit": str(NEWEST)}, answer)
        if answer.rows.height:
            joined = pl.concat([answer.pick(*COLUMNS), tail["rows"]], how="vertical_relaxed").unique(
                "event_id", maintain_order=True
            )
            tail["rows"] = joined.sort("time", descending=True).head(NEWEST)
        tail["after"] = answer.rest["after"]
    rows: pl.DataFrame = tail["rows"]
    return rows


def _errors_only() -> None:
    filter_bar.go(filter_bar.from_link().set("outcome", ["error"] if st.session_state["live-errors"] else []))


def _pause() -> None:
    filter_bar.go(filter_bar.from_link().showing(refresh="0" if st.session_state["live-pause"] else ""))


page = open_page("live", "Live", "What is happening right now?", view={"event": None}, tables=("",))
with st.container(horizontal=True):
    st.toggle("Pause", **filter_bar.bind("live-pause", page.filters.state("refresh") == "0", _pause, label="visible"))
    only = page.filters.on("outcome") == Condition("outcome", ("error",))
    st.toggle("Errors only", **filter_bar.bind("live-errors", only, _errors_only, label="visible"))
refreshing(body, page, EVERY_S, paused=page.every is None)
