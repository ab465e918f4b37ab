"""Every form of a key that `schemas/sources/README.md` lists, on one record."""

from __future__ import annotations

import re
from typing import Any

import pytest

from collector.decode.record import Record, SpanEvent
from collector.recognise.messages import unflattened
from collector.recognise.readers import ANY, Around, at_path, needs, parsed, reader
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
        "given.city.value": "X",
        "given.city.type": "str",
        "given.at.night.value": 7,
        "fatal": "no",
        "ends": ["FinishReason.SAFETY", "STOP"],
        "end": '["content-filter"]',
        "stopped": "stop",
        "filter": "content_filter_note",
    },
    events=[SpanEvent("choice", 1, {"message": "first"}), SpanEvent("choice", 1, {"message": '{"id": "last"}'})],
    kind=3,
    status=2,
    parent_span_id="0b",
    status_message="lost",
    body={"at": "b"},
)
AROUND = Around({"service.name": "s"}, "scope.a", captured="add", event="e", version="1.2")

FORMS = {
    "tool": "add",
    "none": None,
    "resource:service.name": "s",
    "map#exitCode": 3,
    "text#content.0.text": "x",
    "text#content.1.text": None,
    "flat#path": "f",
    "given.*.value": {"city": "X", "at.night": 7},
    "absent.*.value": None,
    "any:*.PATH,given.at*": "f",
    "any:*given[._]city*,*fatal": "X",
    "any:nothing,other.*": None,
    "quoted#": 'call "1"',
    "plain#": "call_1",
    "digits#": "17",
    "listed#": ["a"],
    "none#": None,
    "choice>message": '{"id": "last"}',
    "choice>message#id": "last",
    "@name": "add",
    "prompt_id~#([^#]+)#": "7",
    "ends~{unusable}": "SAFETY",
    "end~{unusable}": "content-filter",
    "stopped~{unusable}": None,
    "filter~{unusable}": None,
    "@kind": 3,
    "@status": 2,
    "@parent": "0b",
    "=command": "command",
    "!fatal": True,
    "map#*.FileNotFound.path": "/a",
    "map#::": "ToolError::FileNotFound",
    "@status_message": "lost",
    "@scope": "scope.a",
    "@scope_version": "1.2",
    "@record": RECORD.attributes,
    "@body#at": "b",
    "@event": "e",
}


@pytest.mark.parametrize("key", FORMS)
def test_a_form_of_a_key(key: str) -> None:
    assert reader(key)(RECORD, AROUND) == FORMS[key]


def shape(key: str) -> str:
    """A form without its names: `metadata#exitCode` and `map#exitCode` are one."""
    if key.startswith(ANY):
        return ANY
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


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{'a': (1, 2), 'b': None}", {"a": [1, 2], "b": None}),
        ("{1: {True: 'boom'}}", {"1": {"true": "boom"}}),
        ("[{'a': b'x'}]", "[{'a': b'x'}]"),
        ("[{'a', 'b'}]", "[{'a', 'b'}]"),
        ("{(1, 2): 'x'}", "{(1, 2): 'x'}"),
        ("['a', " + "9" * 5_000 + "]", "['a', " + "9" * 5_000 + "]"),
    ],
    ids=range(6),
)
def test_what_python_writes_is_read_as_json_or_stays_text(text: str, value: object) -> None:
    assert parsed(text) == value


@pytest.mark.parametrize("place", ["²", "٣", "9" * 5_000])
def test_what_is_no_place_in_a_list_is_no_message(place: str) -> None:
    told = {f"m.{place}.message.role": "user", "m.0.message.role": "tool", f"m.0.message.parts.{place}.id": "c"}
    [message] = unflattened(told, "m")
    assert message == {"role": "tool", "parts": {place: {"id": "c"}}}
    assert at_path({"list": ["a", "b"]}, ["list", place]) is None
    assert at_path({"list": ["a", "b"]}, ["list", "-1"]) == "b"


@pytest.mark.parametrize(
    ("key", "needed"),
    [
        ("tool.name", ("tool.name",)),
        ("!tool.ok", ("tool.ok",)),
        ("error~(E[0-9]+)", ("error",)),
        ("result#", ("result",)),
        ("result#status.code", ("result", "result.status.code")),
        ("!result#ok", ("result", "result.ok")),
        ("result#text~exit ([0-9]+)", ("result", "result.text")),
        *(
            (key, ())
            for key in ("=ok", "@name", "@body#tool", "resource:service.name", "exception>exception.type", "a.*")
        ),
    ],
)
def test_a_key_gives_nothing_without_the_attributes_that_it_needs(key: str, needed: tuple[str, ...]) -> None:
    assert needs(key) == needed
    if needed:
        assert reader(key)(Record("span", "n", {"other": "x"}), Around({}, "s")) is None
