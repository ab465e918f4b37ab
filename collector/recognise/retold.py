"""Reads the messages of a model request: which call each result answers, and which results are new.

Each request of a conversation repeats all messages before it, so that what a request has read is the beginning of what
the next one reads.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter, is_
from typing import Any, NamedTuple

import msgspec

from collector.recent import Recent
from collector.recognise.identify import bare_id, counted_tools
from collector.recognise.messages import Call, Found, Result, Walked, are_events, walked

Answered = tuple[Result, Call | None, int]  # and how many results there were when the model last said something

READ_REMEMBERED, READ_BYTES = 16, 256 << 10  # half of how many requests are remembered, and the longest of them
FURTHER = 8  # messages that a request may have more than the one before
TEXTS_REMEMBERED = 16

_list_in = msgspec.json.Decoder(list[Any]).decode


class Conversation:
    """Results and their calls, as far as messages are read."""

    def __init__(self) -> None:
        self.calls: dict[str, Call] = {}
        self.results: list[Answered] = []
        self.exchange = -1  # how many results there were when the model last said something
        self._waiting: dict[str, deque[Call]] = {}  # by tool, since the last message of the model
        self._seen: Counter[str] = Counter()

    def copy(self) -> Conversation:
        """Another one that has read the same."""
        other = Conversation()
        other.calls, other.results, other.exchange = self.calls.copy(), self.results.copy(), self.exchange
        other._waiting = {tool: calls.copy() for tool, calls in self._waiting.items()}
        other._seen = self._seen.copy()
        return other

    def add(self, found: Found) -> None:
        """Reads what comes next."""
        if isinstance(found, Result):
            # Here already: a later call may have the same id.
            call = _numbered(found, self._waiting, self._seen)
            if call and call.call_id != found.call_id:
                found = replace(found, call_id=call.call_id)
            self.results.append((found, call or self.call_of(found), self.exchange))
            return
        self.exchange = len(self.results)
        if isinstance(found, Call):
            self.calls[bare_id(found.call_id, found.tool)] = found
            self._waiting.setdefault(found.tool, deque()).append(found)
        else:
            self._waiting.clear()

    def call_of(self, result: Result) -> Call | None:
        """The call that a result answers, by its id."""
        return self.calls.get(bare_id(result.call_id, result.tool))


_READ: Recent[tuple[Sequence[Walked], Conversation]] = Recent(READ_REMEMBERED)  # by the object of the last message


def conversation(messages: Sequence[Sequence[Found]]) -> Conversation:
    """What these messages tell; those that an earlier request had at its beginning are not read again."""
    known = [message for message in messages if isinstance(message, Walked)]
    whole = 0 < len(known) == len(messages) and sum(map(attrgetter("size"), known)) <= READ_BYTES
    done, read = _begun(known) if whole else (0, Conversation())
    for message in messages[done:]:
        for found in message:
            read.add(found)
    if whole and done < len(known):
        _READ.put(id(known[-1]), (known, read.copy()))
    return read


def _begun(messages: Sequence[Walked]) -> tuple[int, Conversation]:
    """How many of these messages an earlier request had at most, and what they tell."""
    for end in range(len(messages), max(0, len(messages) - FURTHER), -1):
        before = _READ.get(id(messages[end - 1]))
        if before and len(before[0]) == end and all(map(is_, before[0], messages)):
            return end, before[1].copy()
    return 0, Conversation()


def _numbered(result: Result, waiting: dict[str, deque[Call]], seen: Counter[str]) -> Call | None:
    """The call that this result answers, if its id is only the tool's name, or that with a number that restarts in each
    message (instrumentation of Google's client): then both get a unique id.
    """
    calls = next((calls for tool in counted_tools(result.call_id) if (calls := waiting.get(tool))), None)
    if not calls:
        return None
    call = next((one for one in calls if one.call_id == result.call_id), calls[0])
    calls.remove(call)
    if call.call_id == result.call_id:
        seen[call.call_id] += 1
        if (times := seen[call.call_id]) > 1:
            call = replace(call, call_id=f"{call.call_id}.{times}")
    return call


class Text(NamedTuple):
    """The JSON text of a list of messages, without the bracket that ends it, and what is in them."""

    body: str
    first: Any
    messages: list[Sequence[Found]]


_TEXTS: deque[Text] = deque(maxlen=TEXTS_REMEMBERED)


def going_on(text: str) -> Text | None:
    """The messages of a text that begins with those of an earlier one, which are not read again; None if none does."""
    if len(text) > READ_BYTES:
        return None
    before = next((one for one in _TEXTS if text.startswith(one.body)), None)
    if before is None:
        return None
    rest = text[len(before.body) :]
    if rest == "]":
        return before
    more = _listed(f"[{rest[1:]}") if rest.startswith(",") else None
    if not more:
        return None
    _TEXTS.remove(before)
    return _remembered(Text(text[:-1], before.first, before.messages + walked(more)))


def begun(text: str) -> Text | None:
    """The messages of a JSON text; None if it is not one list of them."""
    messages = _listed(text) if len(text) <= READ_BYTES else None
    return _remembered(Text(text[:-1], messages[0], walked(messages))) if messages else None


def _listed(text: str) -> list[Any] | None:
    """The messages, unless they are written as events: which of these are read depends on all of them."""
    if not text.endswith("]"):
        return None
    try:
        messages = _list_in(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return None
    return None if are_events(messages) else messages


def _remembered(text: Text) -> Text:
    _TEXTS.appendleft(text)
    return text
