"""Marks what is new since the reader's last visit, in lists of groups, sessions and alerts."""

from datetime import datetime

import polars as pl

from dashboard.page import Page
from dashboard.parts import components, words

FRESH = "●"


def is_fresh(page: Page, began: datetime | None) -> bool:
    """Whether something has begun since the last visit; nothing has if there was none."""
    return bool(page.visited and began and began > page.visited)


def marked(page: Page, rows: pl.DataFrame, name: str, began: str, what: str) -> pl.DataFrame:
    """The rows with that mark before the names in one column, by the times in another, and a line that says so."""
    if page.visited is None:
        return rows
    fresh = pl.col(began) > page.visited
    number = rows.filter(fresh).height
    at = words.clock(page.visited, page.zone, now=page.now)
    many = f"{words.plural(number, what)} with {FRESH}" if number else f"No {what}"
    components.quiet(f"{many} {'are' if number > 1 else 'is'} new since your last visit, which ended {at}.")
    return rows.with_columns(pl.when(fresh).then(pl.format(FRESH + " {}", name)).otherwise(name).alias(name))
