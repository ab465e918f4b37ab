"""Tables whose rows are plain links, as HTML: one click opens a row, a middle click a tab, its address can be copied.

A view says which columns it has and where a row leads, and `table` does the rest::

    columns = {"tool": link_table.text("tool", 40), "calls": link_table.number("calls")}
    link_table.table(page, rows, columns, caption="Tools, worst first.",
                     to=lambda row: components.address(page, "tool", tool=row["tool"]))

Sort, page and rows a page are in the address: `sort`, `page`, `rows` for a page's main table, `name.sort` and so on for
one with a name; `open_page` is told of them by `tables=("", "name")`. Where the API answers with the first
of many rows, ask it with `sort=order(…)`, so that the order is of all rows. Text of agents needs no escaping here.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import polars as pl

from dashboard import menu
from dashboard.data import frames
from dashboard.data.filters import of_table
from dashboard.page import Page, ignored
from dashboard.parts import share as sharing
from dashboard.parts import words
from dashboard.parts.linking import component

Kind = Literal["text", "number", "share", "bars", "time"]
To = Callable[[dict[str, Any]], str]
MOST_ROWS = 200  # on one page
MOST_TEXT = 400  # characters of a cell
ROWS = 20
MAY_LAST = {"lasting", "not_known_yet"}
SMALL_TEXT = 18  # widest text on a phone, in characters


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its heading, what kind of values it has, and how they are shown.

    `by`: the column that its heading sorts by, `""` for none. `most`: characters that are shown of a text. `ends`: a
    text that is cut keeps its end. `fills`: it takes the room that others leave. `said`: the column with its
    words. `indent`: the column with its depth.
    """

    label: str
    kind: Kind = "text"
    help: str = ""
    by: str | None = None
    most: int = 24
    ends: bool = False
    fills: bool = False
    said: str = ""
    indent: str = ""
    colour: str = ""
    tones: Mapping[str, str] | None = None  # colours of values
    form: Callable[[Any], Any] = str


def text(label: str, most: int = 24, help: str = "", **how: Any) -> Column:
    """A column of text; see `Column` for the rest."""
    return Column(label, help=help, most=most, **how)


def name(label: str, most: int = 24, help: str = "", **how: Any) -> Column:
    """A column of ids and names, of which the end tells them apart."""
    return Column(label, help=help, most=most, ends=True, **how)


def number(label: str, help: str = "", **how: Any) -> Column:
    """A column of counts, on the right."""
    return Column(label, "number", help, form=lambda value: f"{value:,.0f}", **how)


def share(label: str, help: str = "", *, said: str = "", colour: str = "", **how: Any) -> Column:
    """A column of shares of 1: in words, those of the column `said` or a percentage, beside a bar."""
    return Column(label, "share", help, said=said, colour=colour, **how)


def rate(page: Page) -> Column:
    """The column `error_rate` of rows that `with_rate_words` has been over."""
    return share("error rate", words.HELP["error rate"], said="rate", colour=page.palette.outcome["error"])


def when(label: str, page: Page, *, day: bool = True, **how: Any) -> Column:
    """A column of times in the reader's zone, with or without the day, and its year if the range begins in another."""
    other_year = page.span[0].astimezone(page.zone).year != page.now.astimezone(page.zone).year
    form = ("%-d %b %Y " if other_year else "%-d %b ") * day + "%H:%M:%S"
    return Column(label, "time", form=lambda time: f"{time.astimezone(page.zone):{form}}", **how)


def strip(page: Page, column: str = "last 60 calls") -> Column:
    """A column of sessions' last calls, a letter for each: ok is low, errors are of full height."""
    letters = {"o": "ok", "e": "error", "c": "cancelled", "d": "denied"}

    def drawn(said: str) -> dict[str, Any]:
        outcomes = [letters.get(letter, "unknown") for letter in said]
        counts = {outcome: outcomes.count(outcome) for outcome in dict.fromkeys(sorted(outcomes))}
        return {
            "bars": [height / 4 for height in frames.strip(said)],
            "colours": [page.palette.outcome[outcome] for outcome in outcomes],
            "title": ", ".join(f"{number} {outcome}" for outcome, number in counts.items()),
        }

    return Column(column, "bars", "ok is low, cancelled, denied or unknown half, error full height", "", form=drawn)


def trend(label: str, page: Page, *, by: str = "") -> Column:
    """A column of counts over time as small bars, each row on its own scale."""

    def drawn(counts: list[float]) -> dict[str, Any]:
        top = max(counts, default=0) or 1
        return {"bars": [count / top for count in counts], "title": f"at most {top:,.0f} in one part"}

    return Column(label, "bars", "The range in 24 equal parts.", by, colour=page.palette.outcome["error"], form=drawn)


def with_rate_words(rows: pl.DataFrame) -> pl.DataFrame:
    """Adds `rate` (the error rate with its denominator, as text) and `uncertain`, from error_rate and rated."""
    doubtful = [words.uncertain(of) for of in rows["rated"]]
    return rows.with_columns(
        frames.rates(rows, "rate", "error_rate", "rated"), pl.Series("uncertain", doubtful, dtype=pl.Boolean)
    )


def order(page: Page, columns: Mapping[str, Column], usual: str = "", *, name: str = "") -> str:
    """How a table is sorted, as the API has it: by the heading that the link names, else `usual`."""
    asked = page.filters.state(of_table(name, "sort"))
    return asked if asked.removeprefix("-") in {_by(key, column) for key, column in columns.items()} - {""} else usual


def table(page: Page, rows: pl.DataFrame, columns: Mapping[str, Column], *, name: str = "", **how: Any) -> None:
    """Shows what `content` says, and names what it does not understand of the link.

    Args:
        name: tells the tables of a page apart in its address; its main table has none.
        how: see `content`.
    """
    asked = page.filters.state(of_table(name, "sort"))
    if asked not in {"", order(page, columns, name=name)}:
        ignored(f"{of_table(name, 'sort')}={asked}")
    component("link_table")(key=f"table-{page.name}-{name}", data=content(page, rows, columns, name=name, **how))


def content(
    page: Page, rows: pl.DataFrame, columns: Mapping[str, Column], *, caption: str, to: To | None = None,
    name: str = "", usual: str = "", wide: Collection[str] = (), rows_shown: int = ROWS, cut: bool = False,
    which: str = "",
) -> dict[str, Any]:  # fmt: skip
    """What the browser gets: rows as links to where `to` says, in the order of the link, a page of them at a time.

    Args:
        caption: what the table is, for readers who hear it.
        usual: the order in which the rows come, as the API has it; `""` if headings do not tell it.
        wide: columns that only wide windows show.
        rows_shown: rows a page, unless the link asks for more.
        cut: whether the API has more rows than these.
        which: of what larger whole all these rows are a part; else the line below the table counts them.
    """
    sorted_by = order(page, columns, usual, name=name)
    if sorted_by != usual:
        down = sorted_by.startswith("-")
        rows = rows.sort(sorted_by.removeprefix("-"), descending=down, nulls_last=True, maintain_order=True)
    shown, foot = _part(page, rows, name, rows_shown, cut)
    foot["said"] = which or foot["said"]
    columns, shown = _fitting(page, columns, shown, wide)
    sorted_key = next((key for key, column in columns.items() if _by(key, column) == _first_of(sorted_by)), "")
    return {
        "caption": caption,
        "view": sharing.address(menu.address(page.name), page.filters),
        "columns": [
            _heading(page, key, column, name, sorted_by, marked=key == sorted_key) for key, column in columns.items()
        ],
        "rows": [
            {"to": to(row) if to else "", "cells": [_cell(row, key, column) for key, column in columns.items()]}
            for row in shown.iter_rows(named=True)
        ],
        "foot": foot,
    }


def _by(key: str, column: Column) -> str:
    return key if column.by is None else column.by


def _first_of(sorted_by: str) -> str:
    return sorted_by.partition(",")[0].removeprefix("-")


def _address(page: Page, view: Mapping[str, str]) -> str:
    """The page itself with another state of its view."""
    return sharing.address(menu.address(page.name), page.filters.showing(**view))


def _heading(page: Page, key: str, column: Column, name: str, sorted_by: str, *, marked: bool) -> dict[str, Any]:
    said: dict[str, Any] = {"name": key, "label": column.label, "kind": column.kind, "help": column.help}
    said |= {"most": column.most, "ends": column.ends, "fills": column.fills, "colour": column.colour}
    if by := _by(key, column):
        falling = sorted_by.startswith("-")
        if marked:
            said["sorted"] = "descending" if falling else "ascending"
        down = not falling if by == _first_of(sorted_by) else column.kind != "text"
        turned = {of_table(name, "sort"): f"-{by}" if down else by, of_table(name, "page"): ""}
        said["to"] = _address(page, turned)
    return said


def _part(page: Page, rows: pl.DataFrame, name: str, rows_shown: int, cut: bool) -> tuple[pl.DataFrame, dict[str, Any]]:
    """The rows of the page that the link asks for, and the line below the table with links to others."""
    per_page, at = (page.filters.state(of_table(name, key)) for key in ("rows", "page"))
    size = min(max(int(per_page[:4]), 1), MOST_ROWS) if per_page.isdecimal() else rows_shown
    last = max(-(-rows.height // size), 1)
    number = min(max(int(at[:6]), 1), last) if at.isdecimal() else 1
    first = (number - 1) * size
    these = f"{first + 1:,}–{min(first + size, rows.height):,}" if rows.height > size else f"{rows.height:,}"
    said = f"{these} of {'the first ' if cut else ''}{rows.height:,}"
    turns = {"← Previous": number - 1, "Next →": number + 1}
    links = [
        {"label": label, "to": _address(page, {of_table(name, "page"): str(turn) if turn > 1 else ""})}
        for label, turn in turns.items()
        if 1 <= turn <= last
    ]
    if rows.height > size and size < MOST_ROWS:
        more = {of_table(name, "rows"): str(MOST_ROWS), of_table(name, "page"): ""}
        links.append({"label": f"{MOST_ROWS} a page", "to": _address(page, more)})
    return rows.slice(first, size), {"said": said, "links": links}


def _fitting(
    page: Page, columns: Mapping[str, Column], rows: pl.DataFrame, wide: Collection[str]
) -> tuple[Mapping[str, Column], pl.DataFrame]:
    """The columns that a window has room for: in narrow ones, lasting errors are a range instead of two columns."""
    if not page.narrow:
        return columns, rows
    columns = {key: column for key, column in columns.items() if key not in wide}
    if columns.keys() >= MAY_LAST:
        said = [words.may_last(*counts) for counts in rows.select("lasting", "not_known_yet").iter_rows()]
        rows = rows.with_columns(lasting=pl.Series(said, dtype=pl.String))
        columns = {key: column for key, column in columns.items() if key != "not_known_yet"}
        columns["lasting"] = replace(columns["lasting"], form=str)
    if page.small:
        columns = {key: replace(column, most=min(column.most, SMALL_TEXT)) for key, column in columns.items()}
    return columns, rows


def _cell(row: Mapping[str, Any], key: str, column: Column) -> str | dict[str, Any]:
    value = row[key]
    if column.kind == "share":
        said = row[column.said] if column.said else words.rate(value)
        drawn: dict[str, Any] = {"text": said, "quiet": bool(row.get("uncertain"))}
        return drawn if value is None else drawn | {"share": round(min(max(value, 0), 1), 4)}
    if value is None or value == "":
        return words.NONE if value is None else ""
    shown = column.form(value)
    if isinstance(shown, dict):
        return shown
    said = words.line(shown, MOST_TEXT)
    tone = (column.tones or {}).get(value)
    more = ({"tone": tone} if tone else {}) | ({"depth": row[column.indent]} if column.indent else {})
    return {"text": said} | more if more else said
