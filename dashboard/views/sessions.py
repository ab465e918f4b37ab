"""Sessions: which runs went badly?"""

import polars as pl

from dashboard.data import frames
from dashboard.page import Page, open_page, refreshing
from dashboard.parts import components, tables, words

SESSIONS = 500  # in the table


def body(page: Page) -> None:
    """The list of sessions, worst streak first."""
    with components.part():
        answer = page.ask("sessions", sort="-worst_streak,-errors", limit=str(SESSIONS))
        names = (
            "session", "service", "model", "started", "ended", "calls", "errors", "denied",
            "lasting", "not_known_yet", "worst_streak", "strip",
        )  # fmt: skip
        rows = answer.pick(*names)
        if rows.is_empty():
            components.nothing(page, "sessions")
            return
        if answer.cut:
            components.quiet(f"The {SESSIONS} with the longest streaks.")
        _table(page, rows)


def _table(page: Page, rows: pl.DataFrame) -> None:
    lengths = [
        words.duration((end - start).total_seconds() * 1000) for start, end in rows.select("started", "ended").rows()
    ]
    shown = rows.with_columns(
        pl.Series("length", lengths),
        frames.strips(rows),
    )
    columns = {
        "session": tables.text("session", 165),
        "service": tables.text("service", 115),
        "model": tables.text("model", 100),
        "errors": tables.number("errors", width=55),
        "lasting": tables.number("lasting", words.HELP["lasting errors"], width=60),
        "not_known_yet": tables.number("not known yet", words.HELP["lasting errors"], width=95),
        "worst_streak": tables.number("streak", words.HELP["streak"], width=55),
        "calls": tables.number("calls", width=50),
        "strip": tables.strip(150),
        "started": tables.when("started", page),
        "length": tables.text("length", 70),
    }
    worst = shown.row(0, named=True)
    text = f"Worst streak: {words.count(worst['worst_streak'])} in session {worst['session']}."
    picked = tables.table(page, shown, columns, key="sessions", alt_text=text, select=True, rows_shown=20,
                          wide=("service", "model", "started"))  # fmt: skip
    chosen = picked or worst
    label = "Open" if picked else "Worst:" if worst["errors"] else "Latest:"
    label = f"{label} {words.plain(chosen['session'], 60)} →"
    components.link(page, "session", label, session=chosen["session"], service=chosen["service"])


page = open_page("sessions", "Sessions", "Which runs went badly?")
refreshing(body, page)
