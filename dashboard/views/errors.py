"""Errors: what goes wrong, and is it new?"""

import polars as pl

from dashboard.charts import charts
from dashboard.data import frames
from dashboard.data.client import MOST
from dashboard.page import Page, open_page, refreshing
from dashboard.parts import components, fresh_rows, link_table, time_marks, words

STATES = ("new", "regressed", "ongoing", "ignored", "resolved")
USUAL = "-events"
GROUPS = 500  # that are asked for at once
NAMES = (
    "state", "error_class", "template", "tool", "trend", "events", "sessions", "spread", "recovery_rate", "rated",
    "lasting", "not_known_yet", "growth", "first_seen", "last_seen", "fingerprint",
)  # fmt: skip


def body(page: Page) -> None:
    """Chart, tree of classes, and list of groups."""
    with components.part("Errors over time"):
        rows, step = components.over_time(page, outcome="error")
        if rows.is_empty():
            components.nothing(page, "errors")
            return
        picture = charts.errors_over_time(
            rows, page.palette, page.axis, step, deploys=time_marks.on_axis(page), narrow=page.narrow, small=page.small
        )
        text = f"{words.plural(components.total(rows, 'errors'), 'error')} over time by category."
        components.brushed(page, picture, "errors", text)
        components.sampled(page)
    components.beside("Groups", _groups, page, help=words.HELP["spread"])
    components.beside("By domain, category and class", _tree, page)


def _tree(page: Page) -> None:
    rows = page.ask("breakdown", by=",".join(frames.LEVELS), outcome="error", limit=MOST).pick(*frames.LEVELS, "errors")
    columns = {
        "name": link_table.text("domain, category, class", 40, by="", indent="depth"),
        "errors": link_table.number("errors", by=""),
        "share": link_table.share("share of errors", by=""),
    }
    link_table.table(
        page, frames.tree(rows), columns, name="tree", caption="Errors by domain, category and class.",
        to=lambda row: components.address(page, "errors", **{row["dimension"]: row["name"]}),
    )  # fmt: skip


def _groups(page: Page) -> None:
    columns = _columns(page)
    asked = {"sort": link_table.order(page, columns, USUAL), "limit": str(GROUPS), "measures": "recovery_rate"}
    answer = page.ask("groups", **asked)
    rows = answer.pick(*NAMES)
    if rows.is_empty():
        components.nothing(page, "groups")
        return
    counts = dict(rows.group_by("state").len().iter_rows())
    more = "+" if answer.cut else ""
    labels = {"all": f"All {rows.height}{more}"}
    for state in STATES:  # that none is among some of the groups does not tell how many there are
        number = f" {counts.get(state, 0)}{more}" if state in counts or not more else ""
        labels[state] = state.capitalize() + number
    state = components.switch(page, "state", "State", list(labels), labels, clears=("page",))
    if more and state != "all":
        answer = page.ask("groups", state=state, **asked)
        rows = answer.pick(*NAMES)
    rows = rows if state == "all" else rows.filter(pl.col("state") == state)
    if rows.is_empty():
        components.quiet(f"No group is {state}.")
        return
    shown = fresh_rows.marked(page, _in_words(page, rows), "error_class", "first_seen", "group")
    link_table.table(
        page, shown, columns, usual=USUAL, cut=answer.cut,
        caption=f"Groups of equal errors; first: {shown['error_class'][0]}.",
        to=lambda row: components.address(page, "group", fingerprint=row["fingerprint"]),
        wide=("state", "trend", "sessions", "spread_words", "recovery", "first", "may_last"),
    )  # fmt: skip


def _in_words(page: Page, rows: pl.DataFrame) -> pl.DataFrame:
    said = {
        "spread_words": [words.rate(share) for share in rows["spread"]],
        "first": [words.elapsed(moment, page.now) for moment in rows["first_seen"]],
        "may_last": [words.may_last(*counts) for counts in rows.select("lasting", "not_known_yet").iter_rows()],
        "last": [words.elapsed(moment, page.now) for moment in rows["last_seen"]],
    }
    texts = (pl.Series(name, each, dtype=pl.String) for name, each in said.items())
    return rows.with_columns(frames.rates(rows, "recovery", "recovery_rate", "rated"), *texts)


def _columns(page: Page) -> dict[str, link_table.Column]:
    tones = {
        "new": page.palette.outcome["error"],
        "regressed": page.palette.alert["firing"],
        "resolved": page.palette.alert["resolved"],
    }
    return {
        "error_class": link_table.text("class", 26),
        "events": link_table.number("events"),
        "template": link_table.text("message", fills=True),
        "tool": link_table.name("tool", 18),
        "state": link_table.text("state", 12, tones=tones),
        "trend": link_table.trend("trend", page, by="growth"),
        "sessions": link_table.number("sessions"),
        "spread_words": link_table.text("spread", 8, words.HELP["spread"], by="spread"),
        "recovery": link_table.text("recovery", 16, words.HELP["recovery"], by="recovery_rate"),
        "may_last": link_table.text("lasting", 10, words.HELP["lasting errors"], by="lasting"),
        "first": link_table.text("first", 8, "How long ago it was seen for the first time.", by="first_seen"),
        "last": link_table.text("last", 8, "How long ago it was seen last.", by="last_seen"),
    }


page = open_page(
    "errors", "Errors", "What goes wrong, and is it new?", view={"state": ("all", *STATES)}, tables=("", "tree")
)
refreshing(body, page)
