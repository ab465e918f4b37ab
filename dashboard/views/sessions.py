"""Sessions: which runs went badly?"""

import polars as pl

from dashboard.data import frames
from dashboard.page import Page, open_page, refreshing
from dashboard.parts import components, tables, words

SESSIONS = 500  # in the table
LONGEST_ID = 24  # characters that its column has room for: browsers cut longer ones without a sign


def body(page: Page) -> None:
    """The list of sessions, worst streak first."""
    with components.part():
        answer = page.ask("sessions", sort="-worst_streak,-errors", limit=str(SESSIONS))
        names = (
            "session", "service", "agent", "model", "started", "ended", "calls", "errors", "denied",
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
        pl.Series("session", [words.clip(session, LONGEST_ID) for session in rows["session"]], dtype=pl.String),
        id=pl.col("session"),
    )
    columns = {
        "session": tables.text("session", 175),
        "service": tables.text("service", 125),
        "agent": tables.text("agent", 65),
        "model": tables.text("model", 115),
        "errors": tables.number("errors", width=60),
        "lasting": tables.number("lasting", words.HELP["lasting errors"], width=65),
        "not_known_yet": tables.number("not known yet", words.HELP["lasting errors"], width=100),
        "worst_streak": tables.number("streak", words.HELP["streak"], width=60),
        "calls": tables.number("calls", width=60),
        "strip": tables.strip(),
        "started": tables.when("started", page),
        "length": tables.text("length", "small"),
    }
    worst = shown.row(0, named=True)
    text = f"Worst streak: {words.count(worst['worst_streak'])} in session {worst['id']}."
    picked = tables.table(page, shown, columns, key="sessions", alt_text=text, select=True, rows_shown=20,
                          wide=("service", "agent", "model", "started", "not_known_yet"))  # fmt: skip
    chosen = picked or worst
    label = "Open" if picked else "Worst:" if worst["errors"] else "Latest:"
    label = f"{label} {words.plain(chosen['id'], 60)} →"
    components.link(page, "session", label, session=chosen["id"], service=chosen["service"])


page = open_page("sessions", "Sessions", "Which runs went badly?")
refreshing(body, page)
