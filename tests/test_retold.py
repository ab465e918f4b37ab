"""A request that goes on where an earlier one ended is read as if there had been no earlier one."""

from __future__ import annotations

import json
from collections import deque
from random import Random
from typing import Any

import pytest

from collector.recent import Recent
from collector.recognise import retold
from collector.recognise.messages import walked
from collector.recognise.readings import Rules
from collector.recognise.results import ToolResult, tool_results

RULES = Rules()
SYSTEM = {"role": "system", "content": "You are careful."}


def asked(call_id: str, tool: str, path: str) -> dict[str, Any]:
    return {
        "role": "assistant",
        "tool_calls": [{"id": call_id, "function": {"name": tool, "arguments": {"path": path}}}],
    }


def told(call_id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def conversation(random: Random, turns: int) -> list[dict[str, Any]]:
    """Turns with calls whose ids are unique, the tool's name, or that with a number that begins again."""
    messages: list[dict[str, Any]] = [SYSTEM, {"role": "user", "content": f"Do it. {random.random()}"}]
    for turn in range(turns):
        tool = random.choice(("read", "write"))
        call_id = random.choice((f"call_{turn:012x}", tool, f"{tool}_1", f"functions.{tool}:0"))
        text = random.choice(("ok", "Error: no such file: a.py", "", "x" * random.choice((10, 9_000))))
        messages += [asked(call_id, tool, f"{turn}.py"), told(call_id, text)]
        if random.random() < 0.2:
            messages.append({"role": "user", "content": "Go on."})
    return messages


def alone(messages: list[dict[str, Any]] | str, monkeypatch: pytest.MonkeyPatch) -> list[ToolResult]:
    """The results as a reader finds them that has read nothing yet."""
    with monkeypatch.context() as patched:
        patched.setattr(retold, "_READ", Recent(1))
        patched.setattr(retold, "_TEXTS", deque())
        return tool_results(messages, RULES)


@pytest.mark.parametrize("seed", range(12))
def test_each_request_is_read_as_if_it_were_the_first(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    one, other = conversation(random, 8), conversation(random, 8)
    for end in (*range(2, len(one)), 5, len(one)):
        for messages in (one[:end], other[:end], one[: end // 2] + other[end // 2 : end]):
            assert tool_results(messages, RULES) == alone(messages, monkeypatch)


@pytest.mark.parametrize("seed", range(12))
def test_each_text_is_read_as_if_it_were_the_first(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    one, other = conversation(random, 8), conversation(random, 8)
    separators = random.choice(((",", ":"), (", ", ": "), (" , ", ":")))
    for end in (*range(2, len(one)), 5, len(one)):
        for messages in (one[:end], other[:end], one[: end // 2] + other[end // 2 : end]):
            text = json.dumps(messages, separators=separators)
            assert tool_results(text, RULES) == alone(messages, monkeypatch)


TOLD_TEXT = json.dumps([SYSTEM, asked("call_0000000000a1", "read", "a"), told("call_0000000000a1", "Error: none")])
MORE_TEXT = json.dumps(told("call_0000000000a2", "Error: no"))


@pytest.mark.parametrize(
    "text",
    [
        TOLD_TEXT,
        TOLD_TEXT[:-1],
        f"{TOLD_TEXT[:-1]},{MORE_TEXT}",
        f"{TOLD_TEXT[:-1]},{MORE_TEXT}]]",
        f"{TOLD_TEXT[:-1]},]",
        f"{TOLD_TEXT[:-1]}{MORE_TEXT}]",
        f"{TOLD_TEXT[:-1]} , {MORE_TEXT} ]",
        f"{TOLD_TEXT[:-1]},{MORE_TEXT}] ",
        f"{TOLD_TEXT[:-1]},NaN,{MORE_TEXT}]",
        f'{TOLD_TEXT[:-1]},{{"event.name":"gen_ai.choice"}},{MORE_TEXT}]',
        f'{TOLD_TEXT[:-1]},"a","\ud800",{MORE_TEXT}]',
        TOLD_TEXT + TOLD_TEXT,
    ],
)
def test_a_text_that_only_begins_like_another_is_read_for_itself(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = alone(text, monkeypatch)
    tool_results(TOLD_TEXT, RULES)
    assert tool_results(text, RULES) == expected
    assert tool_results(TOLD_TEXT, RULES) == alone(TOLD_TEXT, monkeypatch)


def test_of_a_text_only_what_is_new_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = conversation(Random(98), 0)
    read: list[object] = []

    def reading(some: list[Any]) -> list[Any]:
        read.extend(some)
        return walked(some)

    monkeypatch.setattr(retold, "walked", reading)
    for turn in range(20):
        messages += [asked(f"call_{turn:012x}", "read", "a"), told(f"call_{turn:012x}", "ok")]
        assert len(tool_results(json.dumps(messages), RULES)) == turn + 1
    assert read == messages


def test_what_was_read_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = [*conversation(Random(99), 0)]
    read: list[object] = []
    add = retold.Conversation.add

    def reading(self: retold.Conversation, found: Any) -> None:
        read.append(found)
        add(self, found)

    monkeypatch.setattr(retold.Conversation, "add", reading)
    for turn in range(20):
        messages += [asked(f"call_{turn:012x}", "read", "a"), told(f"call_{turn:012x}", "ok")]
        assert len(tool_results(messages, RULES)) == turn + 1
    assert len(read) <= 20 * 3  # of each turn the model's message, its call and the result
