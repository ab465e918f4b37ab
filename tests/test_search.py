"""Search: every kind of thing, against plain looking through; what is bounded is said; hostile texts find texts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import polars as pl
import pytest

from collector.engine.duckdb.store import Store
from collector.query.filters import BadParameter
from collector.query.search import KINDS, search
from tests.conftest import HTTP, RunningCollector
from tests.recorded import DAY, NOW, event, failed, holding, mixed

SESSION, TRACE = "0199f2aa-7d31-7c10-bb1e-aa00cafe0001", "77984df01e593db5257cdd1aaaec1094"
BIG = 18446744073709551615


@pytest.fixture
def full(store: Store) -> Store:
    return holding(
        store,
        [
            event(123456701, time_ns=NOW - 5, session=SESSION, trace_id=TRACE, call_id="toolu_01AbCdEf",
                  tool="apply_diff"),
            failed(123456702, time_ns=NOW - 4, session=SESSION, service="web", call_id="toolu_01AbCdXX", model="gpt-5"),
            failed(123456703, time_ns=NOW - 3, session=None, message="50% of_it isn't 'there' Ünïcode",
                   fingerprint=1234567),
            failed(BIG, time_ns=NOW - 40 * DAY, message="long ago", call_id="ancient-call-1", fingerprint=99,
                   template="long <n>"),
            event(77, time_ns=NOW - 2, tool="Apply_Patch", service="shop-coder"),
        ],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("q", "found"),
    [
        (SESSION, [("session", SESSION), ("session", SESSION)]),  # of two services
        (SESSION[:6], [("session", SESSION), ("session", SESSION)]),
        (SESSION[:5], []),  # an id from six characters on
        (f"  {SESSION}\n", [("session", SESSION), ("session", SESSION)]),
        (SESSION[1:], []),
        (TRACE[:6], [("trace", TRACE)]),
        (TRACE.upper(), [("trace", TRACE)]),
        ("toolu_01AbCd", [("call", "toolu_01AbCdXX"), ("call", "toolu_01AbCdEf")]),
        ("toolu_01AbCdE", [("call", "toolu_01AbCdEf")]),
        ("ancient-call", [("call", "ancient-call-1")]),  # found only because nothing else is
        ("1234567", [("event", "123456703"), ("event", "123456702"), ("event", "123456701"), ("group", "1234567")]),
        ("123456701", [("event", "123456701")]),
        (str(BIG), [("event", str(BIG)), ("group", str(BIG))]),
        (str(BIG + 1), []),
        ("184467", [("event", str(BIG)), ("group", str(BIG))]),
        ("0123456", []),
        ("APPLY", [("tool", "Apply_Patch"), ("tool", "apply_diff")]),
        ("filenotfound", [("class", "FileNotFoundError")]),
        ("GPT", [("model", "gpt-5")]),
        ("shop", [("service", "shop-coder")]),
        ("long <", [("group", "99")]),
        ("long ago", []),  # its message is older than a week
        ("ünïcode", [("message", "1234567")]),
        ("50% of_it isn't 'there'", [("message", "1234567")]),
        ("50%of", []),
        ("of.it", []),
    ],
)
def test_each_kind_is_found_by_what_names_it(full: Store, q: str, found: list[tuple[str, str]]) -> None:
    rows = search(q, 5).rows(full)
    assert [(row["kind"], row["value"]) for row in rows] == found
    counts = {row["kind"]: row["found"] for row in rows}
    assert counts == {kind: [one for one, _ in found].count(kind) for kind in counts}


def test_a_hit_has_what_its_page_needs(full: Store) -> None:
    [call] = search("toolu_01AbCdX", 5).rows(full)
    assert (call["session"], call["service"], call["event_id"]) == (SESSION, "web", 123456702)
    assert (call["text"], call["events"], call["last_seen"]) == ("read_file · FileNotFoundError", 1, NOW - 4)
    sessions = {row["service"]: row["events"] for row in search(SESSION, 5).rows(full)}
    assert sessions == {"web": 1, "api": 1}
    [message] = search("ünïcode", 5).rows(full)
    assert (message["fingerprint"], message["event_id"], message["session"]) == (1234567, 123456703, None)
    assert message["text"] == "FileNotFoundError: 50% of_it isn't 'there' Ünïcode"


def test_names_are_counted_as_they_are(store: Store) -> None:
    """By plain counting, also where only some hours are counted beforehand."""
    events = mixed(400)
    holding(store, events)
    rows = search("a", 2).rows(store)
    tools = {row["value"]: row["events"] for row in rows if row["kind"] == "tool"}
    assert tools == {"a": sum(one.get("tool") == "a" for one in events)}
    services = [one["service"] for one in events if "a" in one["service"]]
    [service] = [row for row in rows if row["kind"] == "service"]
    assert (service["value"], service["events"]) == ("api", len(services))
    messages = [one for one in events if "does not exist" in one.get("message", "")]
    [message] = [row for row in search("NOT exist", 2).rows(store) if row["kind"] == "message"]
    assert message["events"] == len(messages)
    assert message["last_seen"] == max(one["time_ns"] for one in messages)


def test_the_very_thing_comes_first_and_no_more_than_asked(store: Store) -> None:
    names = ["diff", "apply_diff", "diffuse", *(f"old_diff_{n}" for n in range(9))]
    holding(store, [event(n + 1, tool=name) for n, name in enumerate(reversed(names))])
    rows = search("diff", 3).rows(store)
    assert [row["value"] for row in rows] == ["diff", "diffuse", "old_diff_8"]
    assert {row["found"] for row in rows} == {12}


@pytest.mark.parametrize(
    "q",
    [
        "'; drop table events; --",
        "%",
        "_",
        "\\",
        "\x00",
        "$q",
        "{found}",
        "a" * 200,
        "\u202e",
        "[",
        "(",
        "🙂",
        "1" * 200,
    ],
)
def test_hostile_texts_find_texts(full: Store, q: str) -> None:
    assert all(row["kind"] in KINDS for row in search(q, 5).rows(full))
    assert full.count("events") == 5


@pytest.mark.parametrize("q", ["", "  ", "\n\t", "a" * 201])
def test_nothing_and_too_much_are_refused(q: str) -> None:
    with pytest.raises(BadParameter, match="200 characters"):
        search(q, 5)


def test_the_api_says_what_was_looked_for_and_how_far(shared: RunningCollector) -> None:
    entry = {"service": "searched", "session": "searched-session", "tool": "searched_tool", "outcome": "error",
             "message": "the searched message"}  # fmt: skip
    assert shared.post("/v1/events", json.dumps(entry)).is_success

    def asked(**params: Any) -> httpx.Response:
        return HTTP.get(f"{shared.url}/api/v1/search", params=params)

    answer = asked(q="searched").json()
    kinds = [row["kind"] for row in answer["rows"]]
    assert kinds == ["session", "tool", "service", "group", "message"] or kinds == [
        "session",
        "tool",
        "service",
        "message",
    ]
    assert answer["kinds"]["tool"] == 1
    assert "event" not in answer["kinds"]  # it is no number
    assert (answer["ids_from"], answer["truncated"]) == (6, False)
    assert answer["since"].endswith("Z")
    assert {"session", "trace", "call"}.isdisjoint(asked(q="sear").json()["kinds"])
    for row in answer["rows"]:
        assert row["event_id"] is None or row["event_id"].isdecimal()
    arrow = HTTP.get(
        f"{shared.url}/api/v1/search",
        params={"q": "searched"},
        headers={"Accept": "application/vnd.apache.arrow.stream"},
    )
    assert pl.read_ipc_stream(arrow.content)["kind"].to_list() == kinds
    for wrong in (
        {},
        {"q": ""},
        {"q": "x" * 201},
        {"q": "x", "limit": "0"},
        {"q": "x", "from": "-1h"},
        {"q": ["a", "b"]},
    ):
        said = asked(**wrong)
        assert said.status_code == 400, wrong
        assert said.json()["error"]["parameter"] in {"q", "limit", "from"}


def test_search_wants_the_query_token(start_collector: Callable[..., RunningCollector]) -> None:
    collector = start_collector(QUERY_TOKENS="right")
    place = f"{collector.url}/api/v1/search?q=x"
    assert httpx.get(place, timeout=30).status_code == 401
    assert httpx.get(place, headers={"Authorization": "Bearer wrong"}, timeout=30).status_code == 403
    assert httpx.get(place, headers={"Authorization": "Bearer right"}, timeout=30).status_code == 200
