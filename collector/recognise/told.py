"""Tool results inside the messages of a later model request: what the model was told.

They tell of failures that a source hides (the exit code of Gemini CLI's shell) and of calls that have no span at all
(unknown tools, refused parameters, arguments that are no JSON). Every dialect of messages is walked by one tolerant
reader. Read and used, never stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from collector.decode.record import Record
from collector.recognise.identify import bare_id, bare_tool, only_call, params_mark, site, site_key
from collector.recognise.outputs import Output, read_output, text_of, verdict_of
from collector.recognise.readers import as_params, as_text, parsed, present
from collector.recognise.reasons import refusal_in
from collector.recognise.settle import OK_DEFAULT
from collector.recognise.sources import Row, Rules

# A text heuristic must never beat what the call's own report says (10 and more), but beats an unmarked result.
TOLD_ERROR, TOLD_MAYBE, TOLD_OK = 40, 5, 2
MARKS = re.compile(
    r"tool_call_response|tool[-_]result|functionResponse|toolResult|tool_call_id|function_call_output|toolUseId"
    r"|tool-return|retry-prompt|\[TOOL RESULT: |gen_ai\.tool\.message"
)
RESULT_BLOCK = re.compile(r"(?:\n\n---\n\n)?^\[TOOL RESULT: ([^\]\n]{1,200})\]\n", re.MULTILINE)  # Claude Code's traces
MESSAGE_EVENTS = {"gen_ai.tool.message": "tool", "gen_ai.assistant.message": "assistant", "gen_ai.user.message": "user"}
CLASS_ROLES = {"ToolMessage": "tool", "AIMessage": "ai", "AIMessageChunk": "ai"}  # of LangChain
MODEL_ROLES = frozenset(("assistant", "model", "ai"))
ANSWER_EVENTS = ("gen_ai.choice", "gen_ai.assistant.message")
CALL_TYPES = frozenset(
    ("tool_call", "tool-call", "tool_use", "function_call", "toolCall", "functionCall", "dynamic-tool")
)
RESULT_TYPES = frozenset(
    (
        "tool_call_response",
        "tool-result",
        "tool_result",
        "function_call_output",
        "tool-return",
        "retry-prompt",
        "toolResult",
        "custom_tool_call_output",
        "tool-error",
    )
)
Report = dict[str, Any]

SESSION = ("session", "session_source")
SHARED = ("source", "service", "service_version", "service_instance", "environment", *SESSION, "agent", "subagent")
ID_KEYS = ("toolCallId", "tool_call_id", "tool_use_id", "toolUseId", "call_id", "callId", "id")
NAME_KEYS = ("toolName", "tool_name", "name", "tool")
ARGUMENT_KEYS = ("input", "arguments", "args", "parameters", "tool_input")
RESULT_KEYS = ("response", "result", "output", "content", "value", "tool_response")

# Calls that never reached a tool, and so made no span.
NEVER_RAN = re.compile(
    r"\A<tool_use_error>|unknown tool|no such tool|is not a valid tool|unavailable tool|unsupported (tool )?call"
    r"|could not be executed|received tool input did not match expected schema"
    r"|tool [\"'`]?[\w./:-]{0,200}[\"'`]? ?(was |is |does )?not (found|exist|available|registered|a valid tool)"
    r"|invalid json|json parsing failed|(arguments?|parameters?) (were|was|are|is) malformed"
    r"|failed to parse .{0,40}(arguments|input|json)|arguments .{0,40}not valid json",
    re.IGNORECASE,
)
REFUSED_TEXT = re.compile(
    r"invalid (input|arguments?|parameters?) for tool|invalid tool (call|arguments?|input)"
    r"|(arguments?|parameters?) (were|was|are|is) (invalid|not valid)|error invoking tool .{1,2000}with error"
    r"|validation failed for input|inputvalidationerror|tool_use_error|validation error for"
    r"|fix the errors? and try again|missing required (parameter|argument|property)",
    re.IGNORECASE,
)
NAMED = re.compile(
    r"\btool(?: call| name)?[:= ]{0,2}[\"'`]?(?!(?:call|name|with|is|was|does)\b)([\w./-]{1,200})[\"'`]? "
    r"(?:with id|not found|is not|does not)"
    r"|(?:unknown|unavailable|no such) tool(?: name)?:? [\"'`]?([\w./-]{1,200}?)[\"'`]?(?:[.,;\s]|$)"
    r"|^(?:error: )?[\"'`]?([\w./-]{1,200})[\"'`]? is not a valid tool",
    re.IGNORECASE,
)
FAILED_START = re.compile(
    r"^\W*(error\b[: ](?!\W*\d{4}-)|tool error|failed\b|failure\b|exception\b|traceback \(most recent|an error occurred"
    r"|error (executing|calling|while)"
    r"|[A-Za-z_.]*(Error|Exception): )",
    re.IGNORECASE,
)


@dataclass(slots=True)
class Told:
    """One tool result that a model was told, with the call that asked for it. `fresh` where the request was the first
    to carry it.
    """

    call_id: str
    tool: str
    params: Any
    outcome: str
    strength: int
    text: str
    refused: bool
    fresh: bool
    exit_code: int | None
    digest: int


@dataclass(slots=True)
class _Call:
    call_id: str
    tool: str
    params: Any


@dataclass(slots=True)
class _Result:
    call_id: str
    tool: str
    value: Any
    mark: str

    @property
    def tells(self) -> bool:
        """Whether it says how a call ended: where contents are not exported, only its id is there."""
        return bool(self.call_id and (self.mark or self.value is not None))


class _Answer:
    """The model spoke: what it was told before is no news."""


ANSWER = _Answer()


def told_in(messages: Any, rules: Rules) -> list[Told]:
    """The tool results in the messages (a list, or its JSON text), in order. Empty for anything that has none."""
    if isinstance(messages, str) and not MARKS.search(messages):
        return []
    calls: dict[str, _Call] = {}
    results: list[tuple[_Result, int]] = []
    exchange = 0
    for found in _walk(_events(parsed(messages), answers=False)):
        if isinstance(found, _Result):
            results.append((found, exchange))
            continue
        exchange = len(results)
        if isinstance(found, _Call):
            calls[bare_id(found.call_id, found.tool)] = found
    found_calls = ((result, calls.get(bare_id(result.call_id, result.tool)), at) for result, at in results)
    return [_told(result, call, rules, at == exchange) for result, call, at in found_calls if result.tells]


def calls_in(messages: Any) -> list[tuple[str, str, Any]]:
    """The tool calls that messages ask for: call id, tool, arguments."""
    asked = _walk(_events(parsed(messages), answers=True))
    return [(one.call_id, one.tool, one.params) for one in asked if isinstance(one, _Call)]


def _events(messages: Any, *, answers: bool) -> Any:
    """Of messages written as events, those at the end that answer this very request, or all others."""
    if not isinstance(messages, list) or not any(isinstance(one, dict) and "event.name" in one for one in messages):
        return messages
    named = [one for one in messages if isinstance(one, dict)]
    end = len(named)
    while end and named[end - 1].get("event.name") in ANSWER_EVENTS:
        end -= 1
    return named[end:] if answers else named[:end]


def _told(result: _Result, call: _Call | None, rules: Rules, fresh: bool) -> Told:
    tool = result.tool or (call.tool if call else "")
    output = read_output(result.value, rules)
    outcome, strength, text = _judge(result, output)
    refused = outcome == "denied" or (outcome == "error" and NEVER_RAN.search(text[:4000]) is not None)
    return Told(
        call_id=bare_id(result.call_id, tool),
        tool=tool or (_named(text) if refused else ""),
        params=call.params if call else None,
        outcome=outcome,
        strength=strength,
        text=text if outcome != "ok" else "",
        refused=refused,
        fresh=fresh,
        exit_code=output.exit_code,
        digest=hash((text, result.mark)),
    )


def _named(text: str) -> str:
    """The tool that a refusal speaks of."""
    found = NAMED.search(text[:400])
    return next(name for name in found.groups() if name) if found else ""


def _judge(result: _Result, output: Output) -> tuple[str, int, str]:
    text = output.text or text_of(result.value)
    marked = verdict_of(result.mark)
    if (
        marked in ("error", "denied", "cancelled")
        or output.verdict in ("error", "denied", "cancelled")
        or output.exit_code
    ):
        outcome = next((one for one in (marked, output.verdict) if one and one != "ok"), "error")
        refusal = refusal_in(text) if outcome == "error" and not output.exit_code else ""
        return refusal or outcome, TOLD_ERROR, text
    if marked == "ok" or output.exit_code == 0:
        return "ok", TOLD_OK, text
    head = text[:400]
    refusal = refusal_in(head)
    telling = any(pattern.search(head) for pattern in (NEVER_RAN, REFUSED_TEXT, FAILED_START))
    if telling or refusal or _is_validation(result.value):
        return refusal or "error", TOLD_MAYBE, text
    return "ok", TOLD_OK, text


def _is_validation(value: Any) -> bool:
    """pydantic's list of mistakes: [{"type": "missing", "loc": ["command"], "msg": "Field required"}]."""
    value = parsed(value)
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(one, dict) and {"type", "loc", "msg"} <= one.keys() for one in value)
    )


def _walk(value: Any, depth: int = 0) -> Iterator[_Call | _Result | _Answer]:
    """Calls, results and answers in messages, parts and wrappers, in order."""
    if depth > 8:
        return
    if isinstance(value, str) and depth == 0:
        _, *parts = RESULT_BLOCK.split(value)
        blocks = zip(parts[::2], parts[1::2], strict=True)
        yield from (_Result(call_id, "", text.strip(), "") for call_id, text in blocks)
    elif isinstance(value, list):
        for one in value:
            yield from _walk(parsed(one) if depth < 2 else one, depth + 1)
    elif isinstance(value, dict):
        yield from _message(value, depth)


def _message(value: dict[str, Any], depth: int) -> Iterator[_Call | _Result | _Answer]:
    if isinstance(lc := value.get("kwargs"), dict) and "lc" in value:  # LangChain's serialised message
        path = value.get("id")  # of its class: JavaScript writes the role nowhere else
        role = CLASS_ROLES.get(str(path[-1])) if isinstance(path, list) and path else None
        value = {"type": role, **lc} if role else lc
    if as_text(value.get("role", value.get("type"))) in MODEL_ROLES:
        yield ANSWER
    for name in ("functionCall", "toolUse"):
        if isinstance(part := value.get(name), dict):
            yield _call(part)
    for name in ("functionResponse", "toolResult"):
        if isinstance(part := value.get(name), dict):
            yield _result(part)
    kind = as_text(value.get("type", value.get("part_kind")))
    ids = ("tool_call_id", "toolCallId", "id") if "event.name" in value else ("tool_call_id", "toolCallId")
    if kind in RESULT_TYPES or (value.get("role", kind) == "tool" and _first(value, ids)):
        yield _result(value)
        return
    if kind in CALL_TYPES:
        yield _call(value)
        return
    if "tool_use_id" in value and "tool_response" in value:  # Claude Code's PostToolBatch hook
        yield _call(value)
        yield _result(value)
        return
    for name in ("parts", "content", "contents", "messages", "message", "tool_calls", "inputs", "input"):
        if isinstance(part := value.get(name), (list, dict)) and part:
            yield from _tool_calls(part) if name == "tool_calls" else _walk(part, depth + 1)
        elif name == "content" and isinstance(part, str) and part[:1] in "[{" and MARKS.search(part):
            yield from _walk(parsed(part), depth + 1)


def _tool_calls(calls: list[Any] | dict[str, Any]) -> Iterator[_Call]:
    for one in calls if isinstance(calls, list) else ():
        if isinstance(one, dict):
            inner = one.get("function")
            yield _call({**one, **inner} if isinstance(inner, dict) else one)


def _call(part: Mapping[str, Any]) -> _Call:
    return _Call(
        _first(part, ID_KEYS),
        _first(part, NAME_KEYS),
        as_params(next((part[key] for key in ARGUMENT_KEYS if key in part), None)),
    )


def _result(part: Mapping[str, Any]) -> _Result:
    value = next((part[key] for key in RESULT_KEYS if key in part), None)
    mark = as_text(part.get("status")) or ""
    if (
        part.get("is_error") is True
        or part.get("isError") is True
        or part.get("type", part.get("part_kind")) in ("tool-error", "retry-prompt")
    ):
        mark = "error"
    if (
        isinstance(value, dict) and (kind := value.get("type")) and ("value" in value or kind == "execution-denied")
    ):  # AI SDK's output
        mark = {"error-text": "error", "error-json": "error", "execution-denied": "denied"}.get(str(kind), mark)
        value = value.get("value", value.get("reason"))
    return _Result(_first(part, ID_KEYS), _first(part, NAME_KEYS), value, mark)


def _first(part: Mapping[str, Any], keys: Iterable[str]) -> str:
    return next((text for key in keys if isinstance(text := part.get(key), str) and present(text)), "")


FLAT = re.compile(r"^(?P<head>.*?)\.(?P<index>\d+)\.(?:message\.)?(?P<rest>.+)$")


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
    if value and all(key.isdigit() for key in value):
        return [_listed(value[key]) for key in sorted(value, key=int)]
    return {key: _listed(one) for key, one in value.items()}


def told_reports(row: Row, record: Record, model: Report, told: dict[int, Report]) -> None:
    """Adds reports of the tool results in a model request's messages to `told`, under their digests.

    `model` has the columns of the request's own record. The same result in several requests counts once.
    """
    scope = model.get("session") or record.trace_id or model.get("service_instance", "")
    for messages in _messages(row.told, record):
        for position, one in enumerate(told_in(messages, row.rules)):
            lends = row.told_policy == "amend" or (row.told_policy == "refused" and not one.refused)
            # Without a session the next trace repeats the whole conversation: old news makes no event there.
            lends = lends or not (one.fresh or "session" in model)
            if lends and (one.outcome == "ok" or one.strength <= OK_DEFAULT):
                continue
            report = _told_report(record, model, one, position, lends=lends)
            if row.operation == "link" and record.time_ns:  # the messages of a whole run: it had ended
                report["time_ns"] = record.time_ns
            if "site" in row.keys and "params" in report:
                report["_site"] = ["", params_mark(report["params"])]
            whole = bool(one.tool), one.params is not None, "agent" in model
            digest = hash((model.get("service"), scope, one.call_id, one.digest, one.fresh, whole))
            before = told.get(digest)
            if before is None or report["time_ns"] < before["time_ns"]:
                told[digest] = report


def asked_reports(row: Row, record: Record, model: Report) -> Iterator[Report]:
    """The ids of the calls that the model asked for, for their sibling spans, which have none."""
    for messages in _messages(row.asked, record):
        calls = calls_in(messages)
        for call_id, tool, params in calls:
            report: Report = {column: model[column] for column in ("source", "service", *SESSION) if column in model}
            report.update(
                operation="tool",
                source_signal=record.signal,
                call_id=call_id,
                tool=tool,
                time_ns=record.time_ns,
                _rank=1,
                _lends=True,
            )
            report["params"] = {} if params is None else params  # OpenInference leaves empty arguments out
            if record.trace_id:
                report["trace_id"] = record.trace_id
                if record.parent_span_id:
                    place = site(record.trace_id, record.parent_span_id, bare_tool(tool))
                    report["_keys"] = [site_key(place, params_mark(report["params"]))]
                    if len(calls) == 1:
                        report["_keys"].append(only_call(record.trace_id, record.parent_span_id))
            yield report


def _messages(places: Iterable[str], record: Record) -> Iterator[Any]:
    """The messages at these places: attributes, flattened attributes, span events or the log's body."""
    attributes = record.attributes
    for key in places:
        if key == "@body":
            if isinstance(record.body, dict):
                yield [{"role": "tool", "tool_call_id": record.body.get("id"), **record.body}]
        elif key == "@events":
            yield [_event_message(one.name, one.attributes) for one in record.events if one.name in MESSAGE_EVENTS]
            yield from (value for one in record.events if (value := one.attributes.get("gen_ai.input.messages")))
        elif key.endswith(".*"):
            yield unflattened(attributes, key[:-2])
        elif present(value := attributes.get(key)):
            yield value


def _event_message(name: str, attributes: Mapping[str, Any]) -> Report:
    message = {**attributes, "role": MESSAGE_EVENTS[name]}
    if message["role"] == "tool" and "id" in attributes:
        message["tool_call_id"] = attributes["id"]
    return message


def _told_report(record: Record, model: Report, one: Told, position: int, *, lends: bool) -> Report:
    report: Report = {column: model[column] for column in SHARED if column in model}
    report.update(
        operation="tool",
        source_signal=record.signal,
        call_id=one.call_id,
        outcome=one.outcome,
        time_ns=(record.start_ns or record.time_ns or record.observed_ns) + position,
        _strength=one.strength,
        _rank=3 if one.fresh else 2,
    )
    if record.trace_id:
        report["trace_id"] = record.trace_id
    if one.tool:
        report["tool"] = one.tool
    if one.params is not None:
        report["params"] = one.params
    if lends:
        report["_lends"] = True
    if one.text:
        report["message"] = report["_text"] = one.text
    if one.exit_code:
        report["_shape"], report["tool_kind"] = ("exit_code", f"exit:{one.exit_code}"), "command"
    return report
