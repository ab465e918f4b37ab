"""Finds the tool calls and results in the messages of a model request or answer, of any dialect, in order.

One tolerant walk for OpenAI, Anthropic, Gemini, Genkit, Bedrock, the AI SDK, LangChain, pydantic-ai and the GenAI
conventions, whether as JSON text, as span events or flattened into attributes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain, islice
from typing import Any

import msgspec

from collector.decode.record import Record
from collector.recent import Recent
from collector.recognise.readers import PLACE, as_params, as_text, parsed, present

MARKS = re.compile(
    r"tool_call_response|tool_call_result|tool[-_]result|functionResponse|toolResponse|toolResult|tool_call_id|function_call_output|toolUseId"
    r"|tool-return|retry-prompt|is_error|\[TOOL RESULT: |gen_ai\.tool\.message"
)
RESULT_BLOCK = re.compile(r"(?:\n\n---\n\n)?^\[TOOL RESULT: ([^\]\n]{1,200})\]\n", re.MULTILINE)  # Claude Code's traces
MESSAGE_EVENTS = {"gen_ai.tool.message": "tool", "gen_ai.assistant.message": "assistant", "gen_ai.user.message": "user"}
BLANK = {"id": "", "type": ""}  # what Langtrace leaves of a call in a message of the model
PROMPT_EVENT = "gen_ai.content.prompt>gen_ai.prompt"  # all messages in one, as the conventions had it until 1.27
CLASS_ROLES = {"ToolMessage": "tool", "AIMessage": "ai", "AIMessageChunk": "ai"}  # of LangChain
MODEL_ROLES = frozenset(("assistant", "model", "ai"))
SYSTEM_ROLES = frozenset(("system", "developer"))
ANSWER_EVENTS = ("gen_ai.choice", "gen_ai.assistant.message")
CALL_TYPES = frozenset(
    ("tool_call", "tool-call", "tool_use", "function_call", "toolCall", "functionCall", "dynamic-tool")
)
RESULT_TYPES = frozenset(
    ("tool_call_response", "tool-result", "tool_result", "function_call_output", "tool-return", "retry-prompt",
     "toolResult", "custom_tool_call_output", "tool-error")
)  # fmt: skip

OUTPUT_MARKS = {"error-text": "error", "error-json": "error", "execution-denied": "denied"}  # of the AI SDK

ID_KEYS = ("toolCallId", "tool_call_id", "tool_use_id", "toolUseId", "call_id", "callId", "id", "ref")
NAME_KEYS = ("toolName", "tool_name", "name", "tool")
ARGUMENT_KEYS = ("input", "arguments", "args", "parameters", "tool_input")
RESULT_KEYS = ("response", "result", "output", "content", "value", "tool_response", "parts")  # the last is LiteLLM's
RESULT_IDS = ("tool_call_id", "toolCallId")
EVENT_RESULT_IDS = (*RESULT_IDS, "id")
ERROR_KEYS = ("is_error", "isError", "error")
ERROR_TYPES = ("tool-error", "retry-prompt")
WRAPPERS = ("parts", "content", "contents", "messages", "message", "tool_calls", "inputs", "input")
MESSAGES = re.compile(r"\s*(?:\{.*?\"messages\"\s*:\s*)?\[\s*", re.DOTALL)
COMMA = re.compile(r"\s*,\s*")
DECODER = json.JSONDecoder()
# Each request of a conversation repeats all messages before it.
WALKED_BYTES, WALKED_REMEMBERED = 8 << 10, 500  # the longest message that is remembered, and half of how many are
FLAT = re.compile(r"^(?P<head>.*?)\.(?P<index>[0-9]{1,6})\.(?:message\.)?(?P<rest>.+)$")


@dataclass(slots=True)
class Call:
    """A tool call that the model asked for; `params` is None if its arguments are not exported."""

    call_id: str
    tool: str
    params: Any


@dataclass(slots=True)
class Result:
    """A tool's result as sent to the model; `mark` is the state given by the message, such as "error"; `judged` is for
    what results.py has made of it.
    """

    call_id: str
    tool: str
    value: Any
    mark: str
    judged: Any = field(default=None, compare=False)

    @property
    def tells(self) -> bool:
        """Whether it has a result: if contents are not exported, there is only an id."""
        return bool(self.call_id and (self.mark or self.value is not None))


class ModelTurn:
    """Marks a message of the model: results before it were already in an earlier request."""


ANSWER = ModelTurn()
Found = Call | Result | ModelTurn


def calls_and_results(messages: Any, *, answers: bool) -> Iterator[Found]:
    """Calls, results and answers in messages (a list, an envelope around one, or the JSON text of these).

    Of messages written as events only those at the end that answer this request (`answers`), or only all others.
    """
    return chain.from_iterable(walked(messages, answers=answers))


def walked(messages: Any, *, answers: bool = False) -> list[Sequence[Found]]:
    """The same message by message. None of it must be changed: equal messages are walked once."""
    messages = messages_in(messages)
    if isinstance(messages, dict) and messages.get("type") == "chat_messages":  # LangWatch's
        messages = messages.get("value")
    messages = _events(messages, answers=answers)
    if not isinstance(messages, list):
        return [[*_walk(messages)]]
    return [_walked(one) if isinstance(one, dict) else [*_walk(one, 1)] for one in map(parsed, messages)]


def messages_in(value: Any) -> Any:
    """The messages of a JSON text, of a text that was cut those that are whole; any other value unchanged."""
    whole = parsed(value)
    return list(_whole(whole)) or whole if isinstance(whole, str) else whole


def beginning(value: Any) -> Any:
    """The first message that is not the system's, of messages or of their JSON text, which is read no further; None if
    there is none.
    """
    messages = _whole(value) if isinstance(value, str) else iter(value if isinstance(value, list) else ())
    for message in islice(messages, 4):
        role = as_text(message.get("role", message.get("type"))) if isinstance(message, dict) else None
        if role not in SYSTEM_ROLES:
            return message
    return None


def _whole(text: str) -> Iterator[Any]:
    """The messages of a JSON text one by one, as far as they are whole."""
    found = MESSAGES.match(text)
    while found:
        try:
            message, at = DECODER.raw_decode(text, found.end())
        except (ValueError, RecursionError):
            return
        yield message
        found = COMMA.match(text, at)


def are_events(messages: Any) -> bool:
    """Whether messages are written as events."""
    named = messages if isinstance(messages, list) else ()
    return any(isinstance(message, dict) and "event.name" in message for message in named)


def _events(messages: Any, *, answers: bool) -> Any:
    """Of messages written as events, those at the end that answer this request, or all others."""
    if not are_events(messages):
        return messages
    named = [message for message in messages if isinstance(message, dict)]
    end = len(named)
    while end and named[end - 1].get("event.name") in ANSWER_EVENTS:
        end -= 1
    return named[end:] if answers else named[:end]


def _walk(value: Any, depth: int = 0) -> Iterator[Found]:
    """Calls, results and answers in messages, parts and wrappers, in order."""
    if depth > 8:
        return
    if isinstance(value, str) and depth == 0:
        _, *parts = RESULT_BLOCK.split(value)
        blocks = zip(parts[::2], parts[1::2], strict=True)
        yield from (Result(call_id, "", text.strip(), "") for call_id, text in blocks)
    elif isinstance(value, list):
        for one in value:
            yield from _walk(parsed(one) if depth < 2 else one, depth + 1)
    elif isinstance(value, dict):
        yield from _message(value, depth)


class Walked(list[Found]):
    """What is in a message that is remembered: while it is, equal messages give the same object. `size` in bytes."""

    __slots__ = ("size",)

    def __init__(self, found: Iterable[Found], size: int) -> None:
        super().__init__(found)
        self.size = size


_WALKED: Recent[Walked] = Recent(WALKED_REMEMBERED)


def _walked(message: dict[str, Any]) -> Sequence[Found]:
    try:
        whole = msgspec.json.encode(message)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return [*_walk(message, 1)]
    if len(whole) > WALKED_BYTES:
        return [*_walk(message, 1)]
    mark = blake2b(whole, digest_size=16).digest()
    if (found := _WALKED.get(mark)) is None:
        found = Walked(_walk(message, 1), len(whole))
        _WALKED.put(mark, found)
    return found


def _message(value: dict[str, Any], depth: int) -> Iterator[Found]:
    if "lc" in value:
        value = _unserialised(value)
    if as_text(value.get("role", value.get("type"))) in MODEL_ROLES or value == BLANK:
        yield ANSWER
    if not NAMED_PARTS.isdisjoint(value):
        yield from _named_parts(value)
    kind = as_text(value.get("type", value.get("part_kind")))
    if kind in RESULT_TYPES or _is_tools(value, kind):
        yield _result(value)
    elif kind in CALL_TYPES:
        yield _call(value)
    elif kind == "function" and "id" in value:  # Langtrace's answers have calls for content
        yield from _tool_calls([value])
    elif "tool_use_id" in value and "tool_response" in value:  # Claude Code's PostToolBatch hook
        yield _call(value)
        yield _result(value)
    else:
        yield from _within(value, depth + 1)


def _unserialised(value: dict[str, Any]) -> dict[str, Any]:
    """LangChain's serialised message as the message."""
    message = value.get("kwargs")
    if not isinstance(message, dict):
        return value
    path = value.get("id")  # of its class: in JavaScript the only place of the role
    role = CLASS_ROLES.get(str(path[-1])) if isinstance(path, list) and path else None
    return {"type": role, **message} if role else message


def _named_parts(value: dict[str, Any]) -> Iterator[Call | Result]:
    """The calls and results that stand under names of their own."""
    for name, read in PARTS.items():
        if isinstance(part := value.get(name), dict):
            yield read(part)
    if value.get("role") == "function" and isinstance(texts := value.get("function"), list):  # AutoGen's: JSON texts
        for part in map(parsed, texts):
            if isinstance(part, dict):
                yield _result(part)


def _is_tools(value: dict[str, Any], kind: str | None) -> bool:
    """Whether it is a message in the role of the tool that a call's id names."""
    if value.get("role", kind) != "tool":
        return False
    return _first(value, EVENT_RESULT_IDS if "event.name" in value else RESULT_IDS) != ""


def _within(value: dict[str, Any], depth: int) -> Iterator[Found]:
    for name in WRAPPERS:
        part = value.get(name)
        if not part:
            continue
        if isinstance(part, (list, dict)):
            yield from _tool_calls(part) if name == "tool_calls" else _walk(part, depth)
        elif name == "content" and isinstance(part, str) and part[0] in "[{" and MARKS.search(part):
            yield from _walk(parsed(part), depth)


def _tool_calls(calls: list[Any] | dict[str, Any]) -> Iterator[Call]:
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            inner = call.get("function")
            yield _call({**call, **inner} if isinstance(inner, dict) else call)


def _value(part: Mapping[str, Any], keys: Iterable[str]) -> Any:
    """The value of the first of the keys that is there."""
    return next((part[key] for key in keys if key in part), None)


def _call(part: Mapping[str, Any]) -> Call:
    return Call(_first(part, ID_KEYS), _first(part, NAME_KEYS), as_params(_value(part, ARGUMENT_KEYS)))


def _result(part: Mapping[str, Any]) -> Result:
    mark = "error" if _is_marked(part) else as_text(part.get("status")) or ""
    value = _value(part, RESULT_KEYS)
    for _ in range(2):  # AI SDK's output; VoltAgent wraps it once more
        kind = as_text(value.get("type")) if isinstance(value, dict) else None
        if kind is None or ("value" not in value and kind not in OUTPUT_MARKS):
            break
        mark = OUTPUT_MARKS.get(kind, mark)
        value = value.get("value", value.get("reason"))
    return Result(_first(part, ID_KEYS), _first(part, NAME_KEYS), value, mark)


def _is_marked(part: Mapping[str, Any]) -> bool:
    """Whether a result says that it is an error."""
    if part.get("type", part.get("part_kind")) in ERROR_TYPES:
        return True
    return any(part.get(key) is True for key in ERROR_KEYS)


def _haystacks(part: Mapping[str, Any]) -> Result:
    """Haystack's result, which contains the call."""
    origin = part.get("origin")
    return _result({**(origin if isinstance(origin, dict) else {}), **part})


# The parts of messages that stand under a name of their own, and what they are.
PARTS: Mapping[str, Callable[[Mapping[str, Any]], Call | Result]] = {
    **dict.fromkeys(("functionCall", "toolRequest", "toolUse", "tool_call"), _call),
    **dict.fromkeys(("functionResponse", "toolResponse", "toolResult"), _result),
    "tool_call_result": _haystacks,
}
NAMED_PARTS = frozenset((*PARTS, "function"))


def _first(part: Mapping[str, Any], keys: Iterable[str]) -> str:
    return next((text for key in keys if isinstance(text := part.get(key), str) and present(text)), "")


def unflattened(attributes: Mapping[str, Any], head: str) -> list[dict[str, Any]]:
    """Messages that were flattened into attributes (`llm.input_messages.0.message.tool_call_id`,
    `gen_ai.prompt.0.content`), as a list.
    """
    messages: dict[int, dict[str, Any]] = {}
    for key, value in attributes.items():
        if key.startswith(head) and (found := FLAT.match(key)) and found["head"] == head:
            _put(messages.setdefault(int(found["index"]), {}), found["rest"].split("."), value)
    return [_listed(messages[index]) for index in sorted(messages)]


def _put(into: dict[str, Any], path: list[str], value: Any) -> None:
    steps = [step for step in path if step not in ("tool_call", "message_content")]
    for step in steps[:-1]:
        inner = into.setdefault(step, {})
        if not isinstance(inner, dict):
            return
        into = inner
    if steps:
        into[steps[-1]] = value


def _listed(value: Any) -> Any:
    """Maps whose keys are 0, 1, 2 … as lists."""
    if not isinstance(value, dict):
        return value
    if value and all(PLACE.fullmatch(key) for key in value):
        return [_listed(value[key]) for key in sorted(value, key=int)]
    return {key: _listed(one) for key, one in value.items()}


def messages_at(places: Iterable[str], record: Record) -> Iterator[Any]:
    """The messages at these places: attributes, flattened attributes, span events, or the body of the log record."""
    for key in places:
        if key == "@body":
            yield from _in_body(record)
        elif key == "@events":
            if record.events:
                yield from _of_events(record)
        elif ">" in key:
            yield from _in_events(record, key)
        elif key.endswith(".*"):
            yield unflattened(record.attributes, key[:-2])
        elif present(value := record.attributes.get(key)):
            yield value


def _in_body(record: Record) -> Iterator[Any]:
    body = parsed(record.body)
    if isinstance(body, dict):
        yield [{"role": "tool", "tool_call_id": body.get("id"), **body}]


def _of_events(record: Record) -> Iterator[Any]:
    """The messages that are span events, then those in attributes of span events."""
    yield [_event_message(event.name, event.attributes) for event in record.events if event.name in MESSAGE_EVENTS]
    for event in record.events:
        if value := event.attributes.get("gen_ai.input.messages"):
            yield value
    yield from _in_events(record, PROMPT_EVENT)


def _in_events(record: Record, key: str) -> Iterator[Any]:
    """The values of an attribute of the span events of a name, both in the key (`gen_ai.choice>message`)."""
    name, _, attribute = key.partition(">")
    for event in record.events:
        if event.name == name and present(value := event.attributes.get(attribute)):
            yield value


def _event_message(name: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    message = {**attributes, "role": MESSAGE_EVENTS[name]}
    if message["role"] == "tool" and "id" in attributes:
        message["tool_call_id"] = attributes["id"]
    return message
