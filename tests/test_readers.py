"""Every form of a key that `schemas/sources/README.md` lists, on one record."""

from __future__ import annotations

import re
from typing import Any

import pytest

from collector.decode.record import Record, SpanEvent
from collector.recognise.readers import Around, reader
from collector.tables import schemas

RECORD = Record(
    "span",
    "execute_tool add",
    {
        "tool": "add",
        "quoted": '"call \\"1\\""',
        "plain": "call_1",
        "digits": '"17"',
        "listed": '["a"]',
        "nothing": "null",
        "map": {"exitCode": 3, "Tool": {"FileNotFound": {"path": "/a"}}},
        "text": '{"content": [{"text": "x"}]}',
        "flat.path": "f",
        "prompt_id": "s#7#t",
        "fatal": "no",
    },
    events=[SpanEvent("choice", 1, {"message": "first"}), SpanEvent("choice", 1, {"message": '{"id": "last"}'})],
    kind=3,
    status_message="lost",
    body={"at": "b"},
)
AROUND = Around({"service.name": "s"}, "scope.a", captured="add", event="e")

FORMS = {
    "tool": "add",
    "none": None,
    "resource:service.name": "s",
    "map#exitCode": 3,
    "text#content.0.text": "x",
    "text#content.1.text": None,
    "flat#path": "f",
    "quoted#": 'call "1"',
    "plain#": "call_1",
    "digits#": "17",
    "listed#": ["a"],
    "none#": None,
    "choice>message": '{"id": "last"}',
    "choice>message#id": "last",
    "@name": "add",
    "prompt_id~#([^#]+)#": "7",
    "@kind": 3,
    "=command": "command",
    "!fatal": True,
    "map#*.FileNotFound.path": "/a",
    "map#::": "ToolError::FileNotFound",
    "@status_message": "lost",
    "@scope": "scope.a",
    "@record": RECORD.attributes,
    "@body#at": "b",
    "@event": "e",
}


@pytest.mark.parametrize("key", FORMS)
def test_a_form_of_a_key(key: str) -> None:
    assert reader(key)(RECORD, AROUND) == FORMS[key]


def shape(key: str) -> str:
    """A form without its names: `metadata#exitCode` and `map#exitCode` are one."""
    return re.sub(r"[\w.]+", "a", key) if key[0] != "@" else key.partition("#")[0]


def test_every_form_that_is_described_is_tried() -> None:
    told = (schemas() / "sources" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?`) \| ", told.partition("A **key** is")[2].partition("## Rows")[0], re.MULTILINE)
    described = {form for row in rows for form in re.findall("`([^`]+)`", row)}
    assert len(described) > 12
    assert {shape(form) for form in described} <= {shape(form) for form in FORMS}


@pytest.mark.parametrize("value", [None, 7, True, [], {}, '"', "{", '"\ud800"', "[" * 5000], ids=repr)
def test_no_value_makes_a_reader_raise(value: Any) -> None:
    record = Record("log", "n", dict.fromkeys(("tool", "quoted", "plain", "map", "text", "prompt_id", "fatal"), value))
    for key in FORMS:
        reader(key)(record, AROUND)
