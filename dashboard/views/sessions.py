"""Sessions: which runs went badly?"""

from typing import Any

import polars as pl

from dashboard.data.client import MOST
from dashboard.page import Page, open_page, refreshing
from dashboard.parts import components, endings, fresh_rows, link_table, words

WORST = "-worst_streak,-errors"
ANY = "any"
NAMES = (
    "session", "project", "service", "model", "started", "ended", "state", "ended_in", "calls", "errors", "lasting",
    "not_known_yet", "worst_streak", "seconds", "strip",
)  # fmt: skip


def body(page: Page) -> None:
    """The list of sessions, worst streak first."""
    state = components.switch(page, "state", "Ended", (ANY, *endings.STATES), endings.STATES)
    with components.part():
        columns = _columns(page)
        chosen = {} if state == ANY else {"state": state}
        answer = page.ask("sessions", sort=link_table.order(page, columns, WORST), limit=MOST, **chosen)
        rows = answer.pick(*NAMES)
        if rows.is_empty() and chosen:
            components.quiet(f"No session of this range is “{endings.STATES[state]}”.")
            return
        if rows.is_empty():
            components.nothing(page, "sessions")
            return
        worst = rows.sort("worst_streak", descending=True).row(0, named=True)
        rows = fresh_rows.marked(page, rows.with_columns(id="session"), "session", "started", "session")
        link_table.table(
            page,
            rows.with_columns(
                length=pl.Series([words.duration(seconds * 1000) for seconds in rows["seconds"]], dtype=pl.String),
                state=pl.coalesce("ended_in", pl.col("state").replace(endings.STATES)),
            ),
            columns,
            caption=f"Sessions. Worst streak: {words.count(worst['worst_streak'])} in session {worst['session']}.",
            to=lambda row: components.address(page, "session", **components.session_of(row | {"session": row["id"]})),
            usual=WORST,
            wide=("service", "model", "started", "length"),
            cut=answer.cut,
        )


def _columns(page: Page) -> dict[str, Any]:
    return {
        "session": link_table.name("session", 20),
        "state": link_table.text("ended", 20, endings.HELP),
        "errors": link_table.number("errors"),
        "lasting": link_table.number("lasting", words.HELP["lasting errors"]),
        "not_known_yet": link_table.number("not known yet", words.HELP["lasting errors"]),
        "worst_streak": link_table.number("streak", words.HELP["streak"]),
        "calls": link_table.number("calls"),
        "strip": link_table.strip(page),
        "service": link_table.name("service", 16),
        "model": link_table.name("model", 16),
        "started": link_table.when("started", page),
        "length": link_table.text("length", 12, by="seconds"),
    }


page = open_page("sessions", "Sessions", "Which runs went badly?", view={"state": tuple(endings.STATES)}, tables=("",))
refreshing(body, page)
