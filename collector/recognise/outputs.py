"""Reads the outcome of a call from the tool's output: failure marks in JSON, exit codes, texts that a source writes.

Outputs are read and never stored. Their words prove nothing: a call that reads a log file full of errors succeeds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from collector.recognise.readers import as_bool, as_int, as_text, parsed, present, tells_error
from collector.recognise.readings import Rules
from collector.recognise.wrapped import said

OK = ("ok", "success", "succeeded", "successful", "completed", "complete", "done", "passed", "finished")
ERROR = ("error", "errored", "failed", "failure", "fail", "exception", "timeout", "timed_out", "timedout", "invalid",
         "crashed")  # fmt: skip
CANCELLED = ("cancel", "abort", "interrupt", "user_abort", "killed_by_user")
DENIED = ("deny", "decline", "disallowed", "refused_by_user", "policy_violation")
OPEN = ("unknown", "pending", "queued", "running", "in_progress", "waiting", "working", "submitted")
WORDS = {
    word: outcome
    for outcome, words in (
        ("ok", OK),
        ("error", ERROR),
        ("cancelled", CANCELLED),
        ("denied", DENIED),
        ("unknown", OPEN),
    )
    for word in words
}
DENIED_PART = re.compile(r"(^|_)(denied|rejected|reject|declined|blocked|forbidden)(_|$)")
CANCELLED_PART = re.compile(r"(^|_)(cancell?ed|abort(ed)?|interrupted)(_|$)")

FAILURES = ("error", "denied", "cancelled")
FAILED_KEYS = ("is_error", "isError", "isFailure", "is_failure")
GOOD_KEYS = ("ok", "success", "succeeded", "Success")
EXIT_KEYS = ("exit_code", "exitCode", "returncode", "return_code", "exit_status")
STREAMED_EXIT_KEYS = (*EXIT_KEYS, "exit")
EXIT_CODE = re.compile(r"-?\d{1,5}(\.0)?")
STREAM_KEYS = frozenset(("stdout", "stderr", "output"))  # beside one of them, `exit` is an exit code too
TIMEOUT_KEYS = ("timed_out", "timedOut", "is_timeout")
DENIED_KEYS = ("denied",)
INTERRUPTED_KEYS = ("interrupted",)
STOPPED_KEYS = ("cancelled", "canceled", "aborted")
INNER_KEYS = ("output", "content", "result", "text")
ENVELOPE_KEYS = ("jsonrpc", "id")
ERROR_TEXT_KEYS = ("error_message", "errorMessage")
TEXT_KEYS = (
    *ERROR_TEXT_KEYS,
    "stderr",
    "message",
    "reason",
    "detail",
    "output",
    "stdout",
    "content",
    "text",
    "result",
    "raw_output",
    "data",
)
# What a tool says of its own call. Among other keys, these words tell of a thing: {"status": "cancelled", "order": 7}.
OWN_KEYS = frozenset((
    "status", "error", "errors", "exit", "interrupted", *FAILED_KEYS, *GOOD_KEYS, *EXIT_KEYS, *TIMEOUT_KEYS,
    *DENIED_KEYS, *STOPPED_KEYS, *INNER_KEYS, *TEXT_KEYS, "jsonrpc", "type", "code", "error_code", "errorCode",
    "error_type", "errorType", "details", "info", "hint", "suggestion", "suggestions", "warning", "warnings",
    "metadata", "meta", "_meta", "structuredContent", "isImage", "truncated", "retryable", "command", "cmd", "path",
    "file", "file_path", "cwd", "signal", "pid", "tool", "tool_name", "toolName", "tool_call_id", "toolCallId",
    "tool_use_id", "call_id", "role", "args", "arguments", "duration", "duration_ms", "durationMs",
    "duration_seconds", "elapsed", "execution_time", "executionTime", "time", "timestamp",
))  # fmt: skip
JSON_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict,
}  # fmt: skip
MAX_BLOCKS, MAX_DEPTH = 50, 5


@dataclass(slots=True)
class Output:
    """What was read from an output. `verdict` is an outcome, or "" if the output does not show it."""

    verdict: str = ""
    text: str = ""
    exit_code: int | None = None
    shape: tuple[str, ...] = ()


def verdict_of(word: Any) -> str:
    """The outcome that a status or decision word means, "unknown" if the call has not ended; "" for words that decide
    nothing (accept, unset, …).
    """
    if not isinstance(word, str) or len(word) > 60:
        return ""
    word = word.strip().lower().replace(" ", "_").replace("-", "_")
    if found := WORDS.get(word):
        return found
    if DENIED_PART.search(word):
        return "denied"
    return "cancelled" if CANCELLED_PART.search(word) else ""


def read_output(value: Any, rules: Rules) -> Output:
    """Reads an output: a text, a map, content blocks, or JSON text of these, encoded once or twice."""
    value = parsed(parsed(value))
    if isinstance(value, str):
        value = said(value)
    value = _of_block(value)
    if isinstance(value, dict):
        return _map(_opened(value), rules)
    if not isinstance(value, list):
        return _text(as_text(value) or "", rules)
    text = text_of(value)
    if any(isinstance(block, dict) and _any(block, FAILED_KEYS) for block in value):
        return Output("error", text)
    return _inner(text, rules)


def _of_block(value: Any) -> Any:
    """The map in the only content block of a result: Bedrock's `[{"json": {"error": "…"}}]`."""
    only = value[0] if isinstance(value, list) and len(value) == 1 else None
    held = only.get("json") if isinstance(only, dict) else None
    return held if isinstance(held, dict) else value


def _opened(value: dict[str, Any]) -> dict[str, Any]:
    """The content of an envelope (such as a JSON-RPC answer), whose only other entry is a map under an inner key."""
    for _ in range(MAX_DEPTH):
        held = [key for key, one in value.items() if key not in ENVELOPE_KEYS and present(one)]
        if len(held) != 1 or held[0] not in INNER_KEYS or not isinstance(value[held[0]], dict):
            break
        value = value[held[0]]
    return value


def _any(value: dict[str, Any], keys: Sequence[str]) -> bool:
    return any(key in value and as_bool(value[key]) for key in keys)


def _map(value: dict[str, Any], rules: Rules) -> Output:
    own = value.keys() <= OWN_KEYS and not _any(value, GOOD_KEYS)
    if outcome := _stopped(value, own):
        return Output(outcome, text_of(value))
    if _any(value, TIMEOUT_KEYS):
        return Output("error", text_of(value), None, ("timeout",))
    exit_code = _exit_code_of(value)
    outcome = _stated(value, own) or ("error" if _is_failed(value) else "")
    if outcome or exit_code:
        return Output(outcome, text_of(value), exit_code)
    within = _within(value, rules)
    if exit_code is not None:
        within.exit_code = exit_code
    within.text = within.text or text_of(value)
    return within


def _stopped(value: dict[str, Any], own: bool) -> str:
    """Whether the call was "denied" or "cancelled"; "" if neither."""
    if own and _any(value, DENIED_KEYS):
        return "denied"
    stopped = _any(value, INTERRUPTED_KEYS) or (own and _any(value, STOPPED_KEYS))
    return "cancelled" if stopped else ""


def _exit_code_of(value: dict[str, Any]) -> int | None:
    for key in EXIT_KEYS if STREAM_KEYS.isdisjoint(value) else STREAMED_EXIT_KEYS:
        if key in value and (code := _exit_code(value[key])) is not None:
            return code
    return None


def _stated(value: dict[str, Any], own: bool) -> str:
    """The failure that the word under `status` states, if the tool itself and no thing of its world has this status."""
    status = value.get("status")
    if not (own or status == "error" or any(present(value.get(key)) for key in ERROR_TEXT_KEYS)):
        return ""
    verdict = verdict_of(status)
    return verdict if verdict in FAILURES else ""


def _is_failed(value: dict[str, Any]) -> bool:
    """Whether a key tells of a failure."""
    if _any(value, FAILED_KEYS) or any(as_bool(value.get(key)) is False for key in GOOD_KEYS):
        return True
    error = value.get("error")
    return error is True or (isinstance(error, (str, dict, list)) and tells_error(error))


def _within(value: dict[str, Any], rules: Rules) -> Output:
    """What the content under an inner key says."""
    within = next((inner for key in INNER_KEYS if present(inner := value.get(key))), None)
    return _inner(text_of(within), rules) if isinstance(within, (str, list)) else Output()


def _exit_code(value: Any) -> int | None:
    if type(value) is int:
        return value
    written = isinstance(value, (str, float)) and EXIT_CODE.fullmatch(str(value))
    return as_int(value) if written else None


def _inner(text: str, rules: Rules) -> Output:
    """A text inside a wrapper, which may be JSON again ([{"text": "{\\"exit_code\\": 2}"}])."""
    inner = parsed(text)
    return _map(inner, rules) if isinstance(inner, dict) else _text(text, rules)


def _text(text: str, rules: Rules) -> Output:
    """Applies the patterns of the source; its own preamble is not part of the tool's output."""
    if not rules.reads_text:
        return Output("", text)
    for verdict, patterns in (("denied", rules.denied_output), ("cancelled", rules.cancelled_output)):
        for pattern in patterns:
            if pattern.search(text):
                return Output(verdict, text)
    rest = text
    for pattern in rules.preamble:
        if found := pattern.match(text):
            rest = text[found.end() :] or text
    if (code := exit_code_in(text, rules)) is not None:
        return Output("", rest, code)
    failed = bool(rules.error_start and rules.error_start.match(text))
    return Output("error" if failed or any(pattern.search(text) for pattern in rules.error_output) else "", rest)


def spoken(text: str) -> str:
    """The text of an error without what is written around it; "" if it says nothing."""
    value = said(text)
    return value if isinstance(value, str) else text_of(value)


def exit_code_in(text: str, rules: Rules) -> int | None:
    """The exit code that the source itself writes into a text; None if there is none."""
    codes = (as_int(found[1]) for pattern in rules.exit_header if (found := pattern.search(text)))
    return next((code for code in codes if code is not None), None)


def text_of(value: Any, depth: int = 0) -> str:
    """The readable text of a result: error, message, stderr, or content blocks, however wrapped."""
    if isinstance(value, str):
        return value
    if depth > MAX_DEPTH:
        return ""
    if isinstance(value, list):
        return "\n".join(text for one in value[:MAX_BLOCKS] if (text := text_of(one, depth + 1)))
    if not isinstance(value, dict):
        return as_text(value) or ""
    return next((text for part in _text_parts(value) if (text := text_of(part, depth + 1))), "") or as_text(value) or ""


def _text_parts(value: dict[str, Any]) -> Iterator[Any]:
    error = value.get("error")
    if isinstance(error, dict):
        yield error.get("message")
    if isinstance(error, (str, dict, list)):
        yield error
    if "lc" in value:  # LangChain's serialised message
        yield value.get("kwargs")
    if isinstance(message := value.get("msg"), str):  # an error of pydantic: {"type", "loc", "msg"}
        place = ".".join(map(str, value["loc"])) if isinstance(value.get("loc"), list) else ""
        yield f"{place}: {message} [{value.get('type', '')}]" if place else message
    yield from (value[key] for key in TEXT_KEYS if present(value.get(key)))


def breaks_schema(schemas: Sequence[Any], params: Any) -> bool:
    """Whether arguments violate the tool's JSON schema: not a map, a required one missing, a wrong plain type."""
    schema = next((schema for schema in map(parsed, schemas) if isinstance(schema, dict)), {})
    properties = schema.get("properties")
    if params is None or not isinstance(properties, dict):
        return False
    if not isinstance(params, dict):
        return True
    required = schema.get("required")
    names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    if any(name not in params and _is_needed(properties.get(name)) for name in names):
        return True
    return any(_wrong_type(properties.get(name), value) for name, value in params.items())


def _is_needed(schema: Any) -> bool:
    """Whether a parameter that is listed as required must be there: strict modes list all."""
    return isinstance(schema, dict) and schema.keys().isdisjoint(("default", "anyOf"))


def _wrong_type(schema: Any, value: Any) -> bool:
    kind = schema.get("type") if isinstance(schema, dict) else None
    wanted = JSON_TYPES.get(kind) if isinstance(kind, str) else None
    return wanted is not None and value is not None and not isinstance(value, wanted)
