"""Settles what was read of calls, by the code that settles telemetry, and keeps of each only what is named here.

Texts of prompts, outputs and files stay behind: a failure has a short message, arguments lose what they wrote.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from collector.decode.record import Record, Scope
from collector.recognise.identify import UNIQUE, canonical, uniqueness
from collector.recognise.readers import as_text
from collector.recognise.recognise import recognise
from collector.report import Report, as_row
from collector.transcripts.join import Joined
from collector.transcripts.tables import Agent

SENT = (
    "operation", "outcome", "session", "subagent", "agent", "turn", "call_id", "tool", "tool_kind", "mcp_server",
    "target", "phase", "model", "provider", "reported_class", "service", "service_version", "repository",
    "retryable_declared", "attempt", "retry_after_ms", "status_code", "duration_ms", "input_tokens", "output_tokens",
    "cost_usd",
)  # fmt: skip
KEPT = {  # of the context, in `attributes`
    "branch": "branch", "entrypoint": "entrypoint", "parent": "parent", "task": "task", "success": "task.success",
}  # fmt: skip
MESSAGE_CHARS, TEXT_CHARS = 1_000, 4_096
NAME_CHARS, COMMAND_CHARS, VALUE_CHARS = 512, 1_000, 200
# Names of arguments that hold what a file, a prompt or a message is to say; in lower case, without `_`.
WRITTEN = re.compile(
    r"(?:old|new|file|code|replace|search|insert)?_?(?:string|str|text|content|contents|code|source|lines?|body|html)"
    r"|content|contents|patch|patches|diff|edits?|changes|input|stdin|chars|prompt|message|messages|instructions?"
    r"|description|explanation|thought|thoughts|reasoning|query_text|todos?|plan|notes?|summary|answer|question|questions"
    r"|replacement|data|payload|value|cell_source|new_source|task|comment|title|keys",
    re.IGNORECASE,
)
COMMANDS = re.compile(r"(?:full_?)?(?:command|cmd|commands|script|shell_command|bash_command)", re.IGNORECASE)
PATCH = "*** Begin Patch"  # what follows is of files
HERE = re.compile(r"<<-?\s{0,20}(['\"]?)(\w{1,60})\1[^\n]{0,500}\n")
RUNNERS = r"(?:go|cargo|npm|yarn|pnpm|bun|dotnet|mvn|gradle|mix|make)"
TEST_RUN = re.compile(rf"\b(?:pytest|py\.test|jest|vitest|mocha|rspec|phpunit|ctest|{RUNNERS} (?:run )?test)\b")
REPORTED = re.compile(
    r"\b\d+ (?:failed|failing|failures?)\b|^(?:FAILED|FAIL|--- FAIL|✗|not ok)\b|test result: FAILED", re.MULTILINE
)
MASKED = re.compile(r"\|\|\s*true\b|;\s*echo\s+[\"']?[^|;&]*\$\?|\|\s*(?:tail|head|cat|tee|less|grep)\b[^|&;]*$")
SEARCHES = re.compile(r"(?:^|[;&|(]\s*)(?:grep|egrep|fgrep|rg|ag|diff|cmp|test|\[|pgrep|which)\b[^;&|]*$")


def settled(agent: Agent, joined: Iterable[Joined], file: str) -> Iterator[dict[str, Any]]:
    """What is sent of each call, in the form of `docs/transcripts.md`; `file` is the path as it may be kept."""
    lots: list[Joined] = []
    for one in joined:
        if lots and (len(lots) >= 256 or _sender(lots[-1]) != _sender(one)):
            yield from _settled(agent, lots, file)
            lots = []
        lots.append(one)
    if lots:
        yield from _settled(agent, lots, file)


def _sender(one: Joined) -> tuple[Any, Any]:
    return one.context.get("service"), one.context.get("version")


def _settled(agent: Agent, lot: list[Joined], file: str) -> Iterator[dict[str, Any]]:
    service, version = _sender(lot[0])
    resource = {"service.name": service, "service.version": version} if version else {"service.name": service}
    by_place = dict(enumerate(lot))
    records = [Record("event", attributes=_attributes(one, n), time_ns=one.time_ns) for n, one in by_place.items()]
    for report in recognise([Scope(resource, agent.id, "", records)], agent.sources).reports:
        number = (report.get("attributes") or {}).get("place")
        if number is not None:
            yield _envelope(agent, by_place[number], report, file)


def _attributes(one: Joined, number: int) -> dict[str, Any]:
    values = {**one.parts, "context": one.context, "place": number}
    if one.is_open:
        values["open"] = "true"
    return values


def _envelope(agent: Agent, one: Joined, report: Report, file: str) -> dict[str, Any]:
    sent: dict[str, Any] = {"source": "transcript", "agent_id": agent.telemetry, "time": one.time_ns}
    row = as_row(report)
    for name in SENT:
        if (value := row.get(name)) is not None:
            sent[name] = value[:NAME_CHARS] if isinstance(value, str) else value
    sent["strength"] = report.get("_strength", 0)
    attributes: dict[str, Any] = {"transcript.file": file[-300:], "transcript.offset": one.place}
    attributes.update({kept: one.context[name][:NAME_CHARS] for name, kept in KEPT.items() if one.context.get(name)})
    if agent.local_times:
        attributes["time.zone"] = "assumed"
    if one.operation == "tool" and (loaded := one.context.get("lessons")) is not None:
        attributes["lessons.loaded"] = loaded[:NAME_CHARS]
    params = report.get("params")
    if isinstance(params, str) and report.get("tool_kind") == "command" and PATCH not in params:
        params = {"command": params}  # as most agents have it
    if params is not None:
        sent["params"] = kept_params(agent, params)
        if sent["params"] != params:
            sent["params_digest"] = digest(params)
    sent["same"] = [_same(agent, one, report.get("call_id"), report.get("tool", ""), params)]
    _failure(agent, report, sent, attributes)
    sent["more"] = attributes
    return sent


def _same(agent: Agent, one: Joined, call_id: str | None, tool: str, params: Any) -> str:
    """What is equal wherever this call is read again: in a copy of the file, or in another store of the agent."""
    session = one.context.get("session", "")
    if not call_id:
        return f"{session} {one.place} {one.began_ns} {digest(params)}"
    if agent.unique_ids or uniqueness(call_id, tool) == UNIQUE:
        return call_id
    return f"{session} {call_id} {one.number} {digest(params)}" if agent.copies else f"{call_id} {one.began_ns}"


def _failure(agent: Agent, report: Report, sent: dict[str, Any], attributes: dict[str, Any]) -> None:
    """The short reason of a failure, and more of its text to classify it, which is not stored."""
    if report.get("outcome") in ("ok", "unknown", None):
        if (command := command_of(report.get("params"))) and MASKED.search(command):
            attributes["exit_masked"] = True  # whatever failed in it, the shell said that all was well
        return
    command = command_of(report.get("params"))
    text = report.get("_text") or report.get("message") or ""
    if shape := report.get("_shape"):
        sent["shape"] = list(shape)
        if report.get("outcome") == "error" and "exit:1" in shape and command and _is_benign(command, text):
            sent.update(outcome="ok", strength=20)
            attributes["benign_exit"] = True
            for name in ("shape", "reported_class"):
                sent.pop(name, None)
            return
    if message := report.get("message"):
        sent["message"] = quoted(agent, message)[:MESSAGE_CHARS]
        sent["text"] = bounded(text)
    if command and TEST_RUN.search(command) and REPORTED.search(text[-TEXT_CHARS:]):
        attributes["kind"] = "test_failure"


def _is_benign(command: str, text: str) -> bool:
    """Whether exit code 1 only says that nothing was found, or that two things differ."""
    return SEARCHES.search(command.strip()) is not None and not re.search(
        r"(?i)no such file|not found|error|invalid|usage:|denied|cannot|unrecognized|unknown", text[:2048]
    )


def quoted(agent: Agent, message: str) -> str:
    """The message up to where it repeats what stands in a file."""
    for pattern in agent.quotes:
        if found := pattern.search(message):
            message = message[: found.end()].rstrip()
    return message


def bounded(text: str) -> str:
    """Beginning and end of a long text."""
    if len(text) <= TEXT_CHARS:
        return text
    return f"{text[: TEXT_CHARS * 3 // 4]}\n{text[-TEXT_CHARS // 4 :]}"


def digest(params: Any) -> str:
    """A digest of the whole arguments, from which the collector makes its keyed hash."""
    return hashlib.blake2b(canonical(params), digest_size=16).hexdigest()


def command_of(params: Any) -> str:
    """The command line among arguments; "" without one."""
    if not isinstance(params, dict):
        return ""
    found = next((value for name, value in params.items() if COMMANDS.fullmatch(name)), "")
    if isinstance(found, list):
        found = found[-1] if len(found) == 3 and str(found[1]).startswith("-") else " ".join(map(str, found))
    return found if isinstance(found, str) else ""


def kept_params(agent: Agent, params: Any, depth: int = 0) -> Any:
    """The arguments without what was to be written or said: of that only the length."""
    if isinstance(params, str):
        return _length(params) if depth == 0 else _short(params, VALUE_CHARS)
    if isinstance(params, list):
        return [kept_params(agent, one, depth + 1) for one in params[:50]]
    if not isinstance(params, dict):
        return params
    kept: dict[str, Any] = {}
    for name, value in list(params.items())[:50]:
        name = str(name)[:100]
        if COMMANDS.fullmatch(name):
            kept[name] = _command(value)
        elif WRITTEN.fullmatch(name) or agent.private.has(name):
            kept[name] = _length(value)
        else:
            kept[name] = kept_params(agent, value, depth + 1) if depth < 3 else _length(value)
    return kept


def _command(value: Any) -> Any:
    if isinstance(value, list):
        return [_command(one) for one in value[:50]]
    text, mark, patch = (as_text(value) or "").partition(PATCH)
    if mark:
        text += f"{mark} ({len(patch)} characters)"
    at, kept = 0, []
    while found := HERE.search(text, at):
        stop = _end(text, found[2], found.end())
        kept.append(f"{text[at : found.start()]}< {found[2]} ({stop - found.end()} characters)\n")
        at = stop
    return _short("".join(kept) + text[at:], COMMAND_CHARS)


def _end(text: str, mark: str, start: int) -> int:
    """Where the line begins that ends what a command reads from its own text."""
    while start < len(text):
        line = text.find("\n", start)
        stop = len(text) if line < 0 else line
        if text[start:stop].strip() == mark:
            return start
        start = stop + 1
    return len(text)


def _short(text: str, chars: int) -> str:
    return text if len(text) <= chars else f"{text[:chars]}… ({len(text)} characters)"


def _length(value: Any) -> Any:
    if isinstance(value, bool | int | float) or value is None:
        return value
    if isinstance(value, str):
        return f"({len(value)} characters)"
    return f"({len(msgspec.json.encode(value))} bytes)"
