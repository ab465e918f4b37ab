"""Results in the words of frameworks, words that say nothing, and placeholders for what is hidden."""

from __future__ import annotations

import re
from typing import Any

import pytest

from collector.classify.target import extract_target
from collector.recognise.outputs import read_output, spoken
from collector.recognise.readers import as_params, is_hidden
from collector.recognise.readings import Rules
from collector.tables import load_toml, schemas

PLACEHOLDERS = load_toml(schemas() / "placeholders.toml")["placeholders"]


@pytest.mark.parametrize("row", PLACEHOLDERS, ids=lambda row: row["examples"][0])
def test_rows_know_their_placeholders(row: dict[str, Any]) -> None:
    assert [one for one in row["examples"] if not re.fullmatch(row["pattern"], one, re.IGNORECASE)] == []
    assert [one for one in row["counter_examples"] if is_hidden(one)] == []


@pytest.mark.parametrize(
    ("value", "params"),
    [
        ("HIDDEN:non-empty", None),
        ('{"city": "[REDACTED]", "more": {"key": "***"}}', None),
        ({"city": "[REDACTED]", "day": 7}, {"city": "[REDACTED]", "day": 7}),
        ({}, {}),
        ("ls", "ls"),
    ],
)
def test_placeholders_are_no_arguments(value: Any, params: Any) -> None:
    assert as_params(value) == params


@pytest.mark.parametrize(
    ("output", "verdict", "text"),
    [
        ("content='Error: no order' name='order' tool_call_id='c' status='error'", "error", "Error: no order"),
        ("content=\"it's gone\" tool_call_id='c' status='error'", "error", "it's gone"),
        ("content='shipped' name='order' tool_call_id='c'", "", "shipped"),
        ("ToolMessage(content='boom', name='x', tool_call_id='c', status='error')", "error", "boom"),
        ("meta=None content=[TextContent(type='text', text='no row')] isError=True", "error", "no row"),
        ("CallToolResult(meta=None, content=[TextContent(type='text', text='1')], isError=False)", "", "1"),
        ("content='a word in a file'", "", "content='a word in a file'"),
    ],
)
def test_results_in_python_s_words_are_unwrapped(output: str, verdict: str, text: str) -> None:
    read = read_output(output, Rules())
    assert (read.verdict, read.text) == (verdict, text)


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("[object Object]", ""),
        ("Error: [object Object]", ""),
        ("undefined", ""),
        ("None", ""),
        ("[REDACTED]", ""),
        ('[{"type":"text","text":"Note not found: 17"}]', "Note not found: 17"),
        ('{"isError":true,"content":[{"type":"text","text":"no"}]}', "no"),
        ('{"error": {"code": 429, "message": "slow down"}}', '{"error": {"code": 429, "message": "slow down"}}'),
        ("undefined is not a function", "undefined is not a function"),
    ],
)
def test_messages_are_unwrapped_and_words_for_nothing_are_none(said: str, text: str) -> None:
    assert spoken(said) == text


@pytest.mark.parametrize(
    ("message", "target"),
    [
        ("Exit code 127\n/bin/bash: line 1: jqq: command not found", "jqq"),
        ("bash: /usr/local/bin/foo: No such file or directory", "/usr/local/bin/foo"),
        ("/bin/sh: 1: foo: not found", None),
        ("File a.txt not found. Try /b/c.txt instead", "a.txt"),
        ("See /docs/a.md for details", None),
    ],
)
def test_who_speaks_and_what_is_advised_is_no_target(message: str, target: str | None) -> None:
    assert extract_target(message) == target
