"""Sessions: which runs went badly?"""

from typing import Any

import polars as pl

from dashboard.data.client import MOST
from dashboard.page import Page, open_page, refreshing
from dashboard.parts import components, link_table, words

WORST = "-worst_streak,-errors"
NAMES = (
    "session", "service", "model", "started", "ended", "calls", "errors", "lasting", "not_known_yet", "worst_streak",
    "strip",
)  # fmt: skip


def body(page: Page) -> None:
    """The list of sessions, worst streak first."""
    with components.part():
        columns = _columns(page)
        answer = page.ask("sessions", sort=link_table.order(page, columns, WORST), limit=MOST)
        rows = answer.pick(*NAMES)
        if rows.is_empty():
            components.nothing(page, "sessions")
            return
        lengths = [
            words.duration((end - start).total_seconds() * 1000)
            for start, end in rows.select("started", "ended").iter_rows()
        ]
        worst = rows.sort("worst_streak", descending=True).row(0, named=True)
        link_table.table(
            page,
            rows.with_columns(pl.Series("length", lengths, dtype=pl.String)),
            columns,
            caption=f"Sessions. Worst streak: {words.count(worst['worst_streak'])} in session {worst['session']}.",
            to=lambda row: components.address(page, "session", session=row["session"], service=row["service"]),
            usual=WORST,
            wide=("service", "model", "started"),
            cut=answer.cut,
        )


def _columns(page: Page) -> dict[str, Any]:
    return {
        "session": link_table.name("session", 26),
        "service": link_table.name("service", 18),
        "model": link_table.name("model", 18),
        "errors": link_table.number("errors"),
        "lasting": link_table.number("lasting", words.HELP["lasting errors"]),
        "not_known_yet": link_table.number("not known yet", words.HELP["lasting errors"]),
        "worst_streak": link_table.number("streak", words.HELP["streak"]),
        "calls": link_table.number("calls"),
        "strip": link_table.strip(page),
        "started": link_table.when("started", page),
        "length": link_table.text("length", 12, by=""),
    }


page = open_page("sessions", "Sessions", "Which runs went badly?", tables=("",))
refreshing(body, page)
