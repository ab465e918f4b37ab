"""Finds what shows that two model requests are of one conversation although no id of it is told: the ids of its calls.

Instrumentations of clients make each request a trace of its own. Request n + 1 retells the calls of request n, and what
the model asked for in its answer, so that both have a key in common. Only the newest calls of a request make keys: the
older ones were the newest of an earlier request.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from collector.decode.record import Record
from collector.recognise.identify import UNIQUE, Key, bare_id, canonical, is_name, uniqueness, whose
from collector.recognise.messages import Call, beginning, calls_and_results, messages_at
from collector.recognise.results import ToolResult
from collector.report import Report

# Where a request's messages are, its answer is told beside them.
ANSWERS = {
    "gen_ai.input.messages": "gen_ai.output.messages",
    "gen_ai.prompt.*": "gen_ai.completion.*",
    "llm.input_messages.*": "llm.output_messages.*",
    "ai.prompt.messages": "ai.response.toolCalls",
    "@events": "@events",
}
NEWEST = 3  # turns of a request's messages that have results
MOST_ASKED = 8  # calls of one answer


def conversation_keys(
    places: Iterable[str], record: Record, model: Report, told: Sequence[Sequence[ToolResult]]
) -> list[Key]:
    """The keys that a model request shares with those before and after it in its conversation."""
    calls = [(result.call_id, result.tool, result.params) for results in told for result in _newest(results)]
    calls += [(bare_id(call.call_id, call.tool), call.tool, call.params) for call in _asked(places, record)]
    keys: dict[Key, None] = {}
    opening: str | None = None
    for call_id, tool, params in calls:
        sure = uniqueness(call_id, tool) if call_id and not is_name(call_id, tool) else 0
        if not sure:
            continue
        key = conversation_key(model, call_id)
        if sure < UNIQUE:  # the same number may be given again: not below the same words, to the same call
            if opening is None:
                opening = _opening(places, record)
            if not opening:
                continue
            key += (tool, _digest(params or {}), opening)
        keys[key] = None
    return list(keys)


def conversation_key(told_by: Report, call_id: str) -> Key:
    """The key of the conversation in which a call with a unique id is told."""
    return *whose(told_by, "conversation"), call_id


def _newest(results: Sequence[ToolResult]) -> Iterator[ToolResult]:
    """The last result of each of the newest turns; of the newest results, where no turns are told."""
    turns: list[int] = []
    for one in reversed(results):
        if one.turn < 0 or one.turn not in turns:
            turns.append(one.turn)
            yield one
        if len(turns) == NEWEST:
            return


def _asked(places: Iterable[str], record: Record) -> list[Call]:
    """The calls that the model asked for in its answer."""
    found: list[Call] = []
    for messages in messages_at([ANSWERS[place] for place in places if place in ANSWERS], record):
        if isinstance(messages, str) and "tool" not in messages and "function" not in messages:
            continue
        found += [one for one in calls_and_results(messages, answers=True) if isinstance(one, Call)]
    return found[:MOST_ASKED]


def _opening(places: Iterable[str], record: Record) -> str:
    """A digest of the words with which the conversation began; empty if they are not told."""
    for messages in messages_at(places, record):
        if told := beginning(messages):
            return _digest(told)
    return ""


def _digest(value: Any) -> str:
    return hashlib.blake2b(canonical(value), digest_size=8).hexdigest()
