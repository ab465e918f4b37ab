"""Bounds of an event's texts: longer ones are cut with a mark, and cost no more than the part that is kept."""

from __future__ import annotations

import gc
import json
import tracemalloc
from typing import Any

import pytest

from collector.pipeline import JSON_BYTES, MESSAGE_CHARS, NAME_CHARS, READ_BYTES
from collector.sanitise.bounds import beginning
from tests.doors import only, spans, taken

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
