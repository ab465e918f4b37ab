"""Bounds of an event's texts: longer ones are cut with a mark, and cost no more than the part that is kept."""

from __future__ import annotations

import gc
import json
import tracemalloc
from typing import Any

import pytest

from collector.engine.duckdb.store import Store
from collector.sanitise.bounds import beginning
from collector.scrub import JSON_BYTES, MESSAGE_CHARS, NAME_CHARS, READ_BYTES
from tests.doors import NOW, held, only, spans, taken

CALL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "write", "error.type": "ValueError"}


def column(name: str, **attributes: Any) -> str:
    """A column of the event of a span with these attributes."""
    return str(only(taken(spans({"attributes": {**CALL, **attributes}, "status": 2}), "traces"))[name])


@pytest.mark.parametrize(
    ("name", "key", "limit"),
    [
        ("tool", "gen_ai.tool.name", NAME_CHARS),
        ("message", "error.message", MESSAGE_CHARS),
        ("params", "gen_ai.tool.call.arguments", JSON_BYTES["params"]),
    ],
)
def test_what_is_too_long_ends_in_its_length(name: str, key: str, limit: int) -> None:
    text = "word " * 10_000
    assert column(name, **{key: "short"}) in ("short", '"short"')
    assert limit <= len(column(name, **{key: text})) < limit + 40
    assert "… [cut, 5000" in column(name, **{key: text})


def test_of_many_secrets_only_those_are_cut_that_may_be_kept() -> None:
    arguments = json.dumps({f"k{number}": {"password": f"fox-{number}-hole"} for number in range(40_000)})
    report = only(taken(spans({"attributes": {**CALL, "gen_ai.tool.call.arguments": arguments}}), "traces"))
    assert "fox-" not in report["params"]
    assert report["params"].endswith(f'… [cut, {len(arguments.replace(" ", ""))} characters]"')
    assert 100 < report["redactions"] < 5_000


def test_redactions_are_secrets_not_masked_names_and_addresses() -> None:
    asked = {"path": "/home/ann/x", "to": "ann.lee@corp-mail.com"}
    for secrets in ({}, {"password": "fox-7-hole"}):
        arguments = json.dumps(asked | secrets)
        report = only(taken(spans({"attributes": {**CALL, "gen_ai.tool.call.arguments": arguments}}), "traces"))
        assert json.loads(report["params"])["path"] == "~/x"
        assert report.get("redactions", 0) == len(secrets)


NESTED: Any = 1
for _ in range(100_000):
    NESTED = [NESTED]


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ({"a": "x" * 10, "b": 1}, {"a": "x" * 10, "b": 1}),
        ({"a": "x" * READ_BYTES, "b": 1}, {"a": "x" * READ_BYTES}),
        ([["x" * READ_BYTES, "y"], "z"], [["x" * READ_BYTES]]),
        ("text" * READ_BYTES, "text" * READ_BYTES),
    ],
)
def test_the_beginning_of_a_value(value: object, kept: object) -> None:
    assert beginning(value, READ_BYTES) == kept


def test_a_bottomless_value_is_left_to_the_sanitiser() -> None:
    assert beginning(NESTED, READ_BYTES) is NESTED


LONG = 100_000  # characters; if they were cached, forty of each of nine names would take 36 MB


def strange(number: int) -> bytes:
    """A failed call whose names are all new and long."""
    name = f"{number}-" + "n" * LONG
    known = {"gen_ai.tool.name": name, "error.type": name, "error.message": name, "gen_ai.tool.type": name}
    record = {"name": name, "attributes": {**CALL, **known, name: "x"}, "status": 2}
    return spans(record, service=name, scope=name)


def test_names_without_end_are_not_remembered() -> None:
    for number in range(3):
        taken(strange(number), "traces")
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(100, 140):
            taken(strange(number), "traces")
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < 4 << 20


TOLD = ("attempt", "status_code", "reported_streak", "sequence", "input_tokens", "output_tokens", "retry_after_ms")
HUGE = (
    2**31,
    -(2**31) - 1,
    2**63,
    -(2**63) - 1,
    2**64,
    10**400,
    1e300,
    "4294967295",
    "9" * 40,
    True,
    [1],
    {"a": 1},
    "x",
)


@pytest.mark.parametrize("name", [*TOLD, "duration_ms", "cost_usd"])
def test_a_number_that_no_column_holds_costs_only_itself(store: Store, name: str) -> None:
    """However large it is: not its event, nor those beside it."""
    call = {"tool": "t", "outcome": "error", "message": "no"}
    events = [call | {name: value} for value in HUGE] + [call | {name: 3}]
    rows = held(store, [taken(json.dumps(events).encode(), "events")])
    assert len(rows) == len(events)
    assert 3 in {row[name] for row in rows}


def test_a_number_that_fits_is_kept_whole(store: Store) -> None:
    call = {"tool": "t", "outcome": "ok", "sequence": 2**63 - 1, "attempt": 2**31 - 1, "status_code": 200.0}
    [row] = held(store, [taken(json.dumps(call).encode(), "events")])
    assert (row["sequence"], row["attempt"], row["status_code"]) == (2**63 - 1, 2**31 - 1, 200)


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(NOW - 10**9, NOW, 1000.0), (1, NOW, None), (NOW, NOW - 1, None)],
)
def test_a_duration_needs_two_times_that_can_be(start: int, end: int, expected: float | None) -> None:
    record = {"attributes": CALL, "status": 2, "startTimeUnixNano": str(start), "endTimeUnixNano": str(end)}
    assert only(taken(spans(record), "traces")).get("duration_ms") == expected


def test_half_a_character_in_arguments_is_replaced() -> None:
    for text in ('{"path": "a", "t": "\\ud83d"}', "{'path': 'a', 't': '\\ud83d'}"):
        assert json.loads(column("params", **{"gen_ai.tool.call.arguments": text})) == {"path": "a", "t": "\ufffd"}


@pytest.mark.parametrize("name", ["input_tokens", "output_tokens"])
def test_counts_that_no_call_can_have_do_not_spoil_sums(store: Store, name: str) -> None:
    rows = held(
        store,
        [taken(json.dumps([{"tool": "t", "outcome": "ok", name: each} for each in (2**62, -1, 7)]).encode(), "events")],
    )
    assert [row[name] for row in rows if row[name] is not None] == [7]
