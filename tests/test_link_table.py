"""Tables of links: what the browser is sent for the rows and the state of the view in the link."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl
from zoneinfo import ZoneInfo

import polars as pl
import pytest

from dashboard.charts import colours
from dashboard.data.client import Collector
from dashboard.data.filters import parse
from dashboard.page import Page
from dashboard.parts import components, link_table
from tests.shown import Shown

TOOLS = [f"tool {number:02d}" for number in range(45)]
ERRORS = [number % 7 for number in range(45)]


def page_at(query: str, *, small: bool = False) -> Page:
    filters = parse(dict(parse_qsl(query)))
    return Page("tools", filters, Collector("http://127.0.0.1:9"), colours.LIGHT, ZoneInfo("UTC"), small, small)


def shown(
    query: str = "", tools: list[str] = TOOLS, errors: list[int] = ERRORS, *, small: bool = False, **how: Any
) -> Shown:
    """A table of tools, opened with this link."""
    page = page_at(query, small=small)
    rows = pl.DataFrame({"tool": tools, "errors": errors}).with_columns(
        error_rate=pl.col("errors") / 10, rated=100.0, lasting="errors", not_known_yet=pl.lit(1)
    )
    columns = {
        "tool": link_table.name("tool"),
        "errors": link_table.number("errors"),
        "error_rate": link_table.rate(page),
        "lasting": link_table.number("lasting"),
        "not_known_yet": link_table.number("not known yet"),
    }
    rows = link_table.with_rate_words(rows)
    about: dict[str, Any] = {"to": lambda row: components.address(page, "tool", tool=row["tool"])} | how
    return Shown(link_table.content(page, rows, columns, caption="Tools.", **about))


def test_rows_are_links_that_keep_the_filters_but_not_the_state_of_the_view() -> None:
    table = shown("from=-7d&tool=a&sort=tool&page=2")
    assert table.links[0] == "./tool?from=-7d&tool=tool+20"
    assert table.foot == "21–40 of 45"


@pytest.mark.parametrize(
    ("link", "first", "foot"),
    [
        ("", "tool 00", "1–20 of 45"),
        ("page=3", "tool 40", "41–45 of 45"),
        ("page=4", "tool 40", "41–45 of 45"),  # rows went meanwhile
        ("page=0", "tool 00", "1–20 of 45"),
        ("page=-1", "tool 00", "1–20 of 45"),
        ("page=x", "tool 00", "1–20 of 45"),
        ("page=²", "tool 00", "1–20 of 45"),
        (f"page={'9' * 5000}", "tool 40", "41–45 of 45"),
        ("rows=200", "tool 00", "45 of 45"),
        ("rows=0", "tool 00", "1–1 of 45"),
        (f"rows={'9' * 5000}", "tool 00", "45 of 45"),
        ("sort=-tool", "tool 44", "1–20 of 45"),
        ("sort=-errors", "tool 06", "1–20 of 45"),
        ("sort=errors&page=2", "tool 44", "21–40 of 45"),
        ("sort=nosuch", "tool 00", "1–20 of 45"),
        ("sort=-", "tool 00", "1–20 of 45"),
        ("other.sort=-tool&other.page=2", "tool 00", "1–20 of 45"),  # of another table
    ],
)
def test_the_link_says_the_order_and_the_page(link: str, first: str, foot: str) -> None:
    table = shown(link)
    assert (table["tool"][0], table.foot) == (first, foot)


def test_tables_of_a_page_have_their_own_state() -> None:
    table = shown("sort=tool&other.sort=-tool", name="other")
    assert table["tool"][0] == "tool 44"
    heading = table.data["columns"][0]
    assert heading["sorted"] == "descending"
    assert heading["to"] == "./tools?sort=tool&other.sort=tool"


def test_a_heading_turns_the_order_and_begins_with_the_first_page() -> None:
    table = shown("page=2", usual="-errors,tool")
    tool, errors, *_ = table.data["columns"]
    assert errors["sorted"] == "descending"
    assert (tool["to"], errors["to"]) == ("./tools?sort=tool", "./tools?sort=errors")
    assert "sorted" not in tool
    again = shown("sort=errors", usual="-errors,tool").data["columns"][1]
    assert (again["sorted"], again["to"]) == ("ascending", "./tools?sort=-errors")


def test_of_columns_in_one_order_the_first_is_marked() -> None:
    page = page_at("sort=-errors")
    rows = pl.DataFrame({"tool": ["a"], "errors": [3], "part": [0.5]})
    columns = {
        "tool": link_table.name("tool"),
        "errors": link_table.number("errors"),
        "part": link_table.text("share of errors", by="errors"),
    }
    headings = link_table.content(page, rows, columns, caption="Tools.")["columns"]
    assert [heading.get("sorted") for heading in headings] == [None, "descending", None]
    assert [heading["to"] for heading in headings[1:]] == ["./tools?sort=errors"] * 2


def test_a_part_of_something_larger_says_which() -> None:
    assert shown(which="calls 3 to 11 of 44").foot == "calls 3 to 11 of 44"


def test_what_the_browser_gets_is_bounded() -> None:
    table = shown("rows=9999", tools=["\u202e" + "x" * 1000] * 5000, errors=[1] * 5000, cut=True)
    assert len(table.links) == 200
    assert table.foot == "1–200 of the first 5,000"
    assert {len(name) for name in table["tool"]} == {400}
    assert len(json.dumps(table.data)) < 500_000


def test_counts_rates_and_what_may_last_are_written_as_elsewhere() -> None:
    wide = shown(tools=["a", ""], errors=[12_345, 0])
    assert wide.data["rows"][0]["cells"][1] == "12,345"
    assert wide["error_rate"][1] == "0\u00a0% of 100"
    assert [row["cells"][2]["share"] for row in wide.data["rows"]] == [1, 0]
    narrow = shown(tools=["a"], errors=[3], small=True, wide=("error_rate",))
    assert narrow.columns == ["tool", "errors", "lasting"]
    assert narrow.rows == [{"tool": "a", "errors": 3, "lasting": "3 to 4"}]
