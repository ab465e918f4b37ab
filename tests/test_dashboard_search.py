"""What the search box shows of an answer: hits by kind, each with the link to its page."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from dashboard.data.client import read_answer
from dashboard.data.filters import escaped, parse
from dashboard.parts.search_box import content

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOSTILE = "<img src=x onerror=alert(1)>&session=other#x ![a](b) \u202e"
LATELY, LONG_AGO = "2026-11-21T11:00:00.000000000Z", "2026-11-01T11:00:00.000000000Z"


def shown(*rows: dict[str, Any], link: str = "from=-7d&tool=other&tz=UTC", **rest: Any) -> dict[str, Any]:
    """What the box shows of these rows on a page with this link."""
    usual = {"text": None, "service": None, "session": None, "event_id": None, "fingerprint": None, "events": 3,
             "last_seen": LATELY, "found": 1}  # fmt: skip
    body = {
        "rows": [{**usual, **row} for row in rows],
        "kinds": {"session": 0},
        "ids_from": 6,
        "since": LONG_AGO,
        **rest,
    }
    asked = parse({name: values[0] for name, values in parse_qs(link).items()})
    return content(read_answer(msgspec.json.encode(body), NOW), asked, NOW)


def led(row: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """Page and query of the only hit."""
    [part] = shown(row)["found"]
    [hit] = part["hits"]
    assert "://" not in hit["to"]
    address = urlsplit(hit["to"])
    return address.path, {name: values[0] for name, values in parse_qs(address.query).items()}


AT = {"session": "s&1", "service": "web", "event_id": "42", "fingerprint": "7"}
RANGE = {"from": "-7d", "tz": "UTC"}


@pytest.mark.parametrize(
    ("row", "page", "query"),
    [
        ({"kind": "session", "value": "s&1", **AT}, "./session", {"session": "s&1", "service": "web"}),
        ({"kind": "call", "value": "c", **AT}, "./session", {"session": "s&1", "service": "web", "event": "42"}),
        ({"kind": "trace", "value": "t", **AT}, "./session", {"session": "s&1", "service": "web", "event": "42"}),
        ({"kind": "event", "value": "42", **AT}, "./session", {"session": "s&1", "service": "web", "event": "42"}),
        ({"kind": "message", "value": "7", **AT}, "./session", {"session": "s&1", "service": "web", "event": "42"}),
        ({"kind": "message", "value": "7", "fingerprint": "7"}, "./group", {"fingerprint": "7"}),
        ({"kind": "event", "value": "42", "event_id": "42", "service": "web"}, "./tools", {"service": "web"}),
        ({"kind": "tool", "value": HOSTILE}, "./tool", {"tool": escaped(HOSTILE)}),
        ({"kind": "class", "value": "AError"}, "./errors", {"error_class": "AError"}),
        ({"kind": "service", "value": "a,b"}, "./", {"service": "a\\,b"}),
        ({"kind": "model", "value": "!m"}, "./", {"model": "\\!m"}),
        ({"kind": "group", "value": "7", **AT}, "./group", {"fingerprint": "7"}),
    ],
)
def test_a_hit_leads_to_its_page_in_the_same_range(row: dict[str, Any], page: str, query: dict[str, str]) -> None:
    assert led(row) == (page, RANGE | query)


def test_a_hit_outside_of_the_range_leads_to_the_day_before_it() -> None:
    _, query = led({"kind": "tool", "value": "a", "last_seen": LONG_AGO})
    assert (query["from"], query["to"]) == ("2026-10-31T11:00:01Z", "2026-11-01T11:00:01Z")


def test_hits_are_named_and_counted() -> None:
    rows: list[dict[str, Any]] = [
        {"kind": "tool", "value": "a", "found": 9},
        {"kind": "tool", "value": "b", "found": 9, "events": 1},
        {"kind": "group", "value": "7", "text": HOSTILE},
        {"kind": "unheard of", "value": "z"},
        {"kind": "call", "value": "c", "text": "edit · NoChangeError", **AT},
    ]
    found = shown(*rows)["found"]
    assert [(part["title"], part["more"], len(part["hits"])) for part in found] == [
        ("Calls", "", 1), ("Tools", "2 of 9", 2), ("Groups", "", 1),
    ]  # fmt: skip
    assert found[0]["hits"][0]["facts"].startswith("edit · NoChangeError · web · 3 events · 1")
    assert found[2]["hits"][0]["name"] == HOSTILE


def test_what_was_not_looked_through_is_said() -> None:
    assert shown()["said"] == "Nothing found. Messages: since 1 Nov."
    assert "Ids are looked for from 6 characters on." in shown(kinds={"tool": 0})["said"]
