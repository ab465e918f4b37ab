"""Finds tool results in the messages of a later model request: what the model was told.

They show failures that a source hides (the exit code of Gemini CLI's shell) and calls without any span (unknown tools,
refused parameters, arguments that are not JSON). They are read and used, never stored.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from collector.decode.record import Record
from collector.recognise.identify import (
    bare_id,
    call_key,
    counted_tools,
    hand_off,
    is_name,
    key64,
    only_call,
    params_mark,
)
from collector.recognise.messages import MARKS, Call, Result, calls_and_results, messages_at, messages_in
from collector.recognise.outputs import Output, read_output, text_of, verdict_of
from collector.recognise.readers import parsed
from collector.recognise.readings import Rules
from collector.recognise.reasons import refusal_in
from collector.recognise.sources import Row
from collector.report import ASKED_TWIN, RESULT_TWIN, Rank, Report, Role, Strength, each_twin, part_of

Answered = tuple[Result, Call | None, int]  # a result, its call, how many results the model had seen before it

CALLS = re.compile("[Tt]ool|unction")  # in the JSON text of an answer that asks for any
REMINDER = "<system-reminder>"  # what Claude Code appends for the model: each time another text
TRANSFER = "transfer_to_"  # what tools that hand over to another agent are called

REPEATED_ID = re.compile(r"\.[0-9]+\Z")  # as `_numbered` writes it
SESSION = ("session", "session_source")
SHARED = ("source", "service", "service_version", "service_instance", "environment", *SESSION, "agent", "subagent")

# What may stand before the words that count: "MCP error -32602: ", "Error executing tool read: ". Further on, a result
# that says them may be code, a log or a page about them.
LEAD = r"\A[^\w#/*-]{0,4}(?>[^\n:]{0,80}\b(?:\w{0,40}(?:error|exception)|failed|invalid)\b[^\n:]{0,80}: ){0,3}"
A_NAME = r"[\"'`]?[\w./:-]{1,200}[\"'`]?"
# Texts of calls that never reached a tool, and so made no span.
NEVER_RAN = re.compile(
    rf"\A\s*<tool_use_error>|{LEAD}(?:the |this )?(?:requested )?(?:"
    rf"(?:unknown|no such|unavailable|unsupported) (?:tool|function|call)\b"
    rf"(?=\W*\Z|[:.,;\n]| [\"'`]| {A_NAME}\W*(?:\Z|[:.,;\n]))"
    r"|(?:unknown|unavailable) (?:tool|function) name\b|unsupported tool call\b"
    r"|model tried to call (?:an )?unavailable tool\b"
    rf"|(?:(?:tool|function) (?:call with name )?)?{A_NAME} is not (?:a valid tool|part of the provided tools)\b"
    rf"|(?:tool|function)(?: call| name)? ?{A_NAME} ?(?:with id \S{{1,200}} )?(?:was |is |does )?"
    r"not (?:found|exist|available|registered)\b"
    r"|tool (?:was |is |does )?not (?:found|exist|available|registered)\b|could not find (?:the )?tool\b"
    rf"|(?:tool|function)(?: call)? [^\n]{{1,300}}could not be executed"
    rf"|tool call {A_NAME} was rejected before execution"
    r"|(?:error invoking tool (?s:.{1,2000}))?received tool input did not match expected schema"
    r"|invalid json\b|json parsing failed"
    r"|(?:failed to parse|error while decoding) .{0,40}(?:arguments|input|json)\b|could not parse (?:the )?arguments\b"
    r"|(?:tool |function )?(?:call )?(?:arguments?|parameters?) .{0,40}(?:malformed|not valid json)\b)",
    re.IGNORECASE,
)
REFUSED_TEXT = re.compile(
    rf"{LEAD}(?:the |\d{{1,3}} )?(?:"
    r"invalid (?:input|arguments?|parameters?|params)(?:\Z|[:.\n]| for\b)|invalid tool (?:call|arguments?|input)\b"
    r"|(?:tool |function )?(?:call )?(?:arguments?|parameters?) (?:were|was|are|is) (?:invalid|not valid)\b"
    r"|(?:input )?validation (?:errors?|failed)(?::| for\b)|inputvalidationerror\b"
    r"|missing required (?:parameter|argument|property)\b)"
    r"|\bfix the errors? and try again\b\W*\Z",
    re.IGNORECASE,
)
NAMED = re.compile(
    r"\btool(?: call| name)?[:= ]{0,2}[\"'`]?(?!(?:call|name|with|is|was|does)\b)([\w./-]{1,200})[\"'`]? "
    r"(?:with id|not found|is not|does not)"
    r"|(?:unknown|unavailable|no such) (?:tool|function)(?: name| available)?:? "
    r"[\"'`]?([\w./-]{1,200}?)[\"'`]?[.,;]?(?:[\s<]|$)"
    r"|^(?:error: )?[\"'`]?([\w./-]{1,200})[\"'`]? is not a valid tool"
    r"|\binputvalidationerror: ([\w./-]{1,200}) failed\b",
    re.IGNORECASE,
)
# "Error rate: 2 %", "Failed logins: 3", "# Exception handling", "error.log": texts about errors are results; a date
# begins a log.
NOUNS = r"(?:handl|report|logg|track|monitor|budget|rat)ing"
BAD_JSON = (  # all that Python's decoder says of arguments
    r"(?:Expecting (?:value|property name enclosed in double quotes|'[:,]' delimiter)|Unterminated string starting at"
    r"|Invalid control character(?: [^\n]{1,20})? at|Invalid \\(?:uXXXX )?escape(?:: [^\n]{1,20})?|Extra data"
    r"|Illegal trailing comma before end of (?:object|array))"
    r": line \d{1,9} column \d{1,9} \(char \d{1,9}(?: - \d{1,9})?\)\W*\Z"
)
STOP = r"(?=[:,!]|\.(?:\s|\Z)|\s*(?:\Z|\n))"
FAILED_START = re.compile(
    r"^\W*(?:"
    r"(?:error|failure|exception)(?!\W*\d{4}-)"
    r"(?:[:,\[!]|\.(?=\s|$)| [-–(]|$"
    r"| (?:code|in|on|at|from|of type|during|while|when|occurred|raised|thrown|returned)\b"
    rf"| [A-Z]{{0,6}}\d| (?!{NOUNS})\w+ing\b)"
    r"|failed(?:[:,!]|\.(?=\s|$)| [-–(]|$| (?:to|with|because|due|in|on|at|for|after|while)\b| \w+ing\b)"
    r"|failure to\b|tool error|traceback \(most recent|an error occurred|errno \d{1,3}\] "
    r"|(?:client|server) error '\d{3}\b"
    r"|[\w.]{1,200}\(\) missing \d+ required"
    rf"|{BAD_JSON}"
    r"|[A-Za-z_.]{0,200}(?:Error|Exception): "
    r"|(?:(?:tool|function|command|request|operation|query|execution)(?: call| execution)? )?"
    rf"(?:failed(?: with\b|{STOP})|timed out(?: after\b| waiting\b|{STOP}))|timeout: (?!\d|set\b)\w+ \w"
    rf"|(?:process )?exit(?:ed with)? code:? (?!0\b)\d{{1,3}}{STOP}|<error>|fatal: "
    r"|(?:unable to|cannot|can't|could not|couldn't) "
    r"(?:access|connect|create|delete|execute|fetch|list|load|open|parse|read|resolve|run|start|stat|write)\b"
    rf"|(?:file|path|directory|resource) (?:not found|does not exist){STOP}"
    rf"|(?:permission|access) denied{STOP}|no such file or directory\b"
    rf"|(?-i:E(?:NOENT|ACCES|PERM|EXIST|ISDIR|NOTDIR|NOSPC|CONNREFUSED|CONNRESET|TIMEDOUT|NOTFOUND)){STOP}"
    rf"|HTTP (?:error )?[45]\d\d{STOP}"
    rf"|(?:[\w./-]{{1,60}}: ){{1,2}}(?:(?:line )?\d+: )?[\w./-]{{1,60}}: (?:command )?not found{STOP})",
    re.IGNORECASE,
)


@dataclass(slots=True)
class ToolResult:
    """One tool result sent to a model, with the call that asked for it. `fresh`: this request was the first to have
    it. `turn`: the same for all results that the model had asked for at once; -1 if its messages are not told.
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
    turn: int


def tool_results(messages: Any, rules: Rules) -> list[ToolResult]:
    """The tool results in the messages (a list, or its JSON text), in order."""
    if isinstance(messages, str):
        if not MARKS.search(messages):
            return []
        messages = messages_in(messages)
    calls: dict[str, Call] = {}
    results: list[Answered] = []
    waiting: dict[str, deque[Call]] = {}  # by tool, since the last message of the model
    seen: Counter[str] = Counter()
    exchange = -1  # how many results there were when the model last said something
    for found in calls_and_results(messages, answers=False):
        if isinstance(found, Result):
            # Here already: a later call may have the same id.
            call = _numbered(found, waiting, seen) or calls.get(bare_id(found.call_id, found.tool))
            results.append((found, call, exchange))
            continue
        exchange = len(results)
        if isinstance(found, Call):
            calls[bare_id(found.call_id, found.tool)] = found
            waiting.setdefault(found.tool, deque()).append(found)
        else:
            waiting.clear()
    if len(results) > 1 and exchange < 0 and _unanswered(messages):
        exchange = len(results)
        results[-1] = (*results[-1][:2], exchange)
    known = [(one, call or calls.get(bare_id(one.call_id, one.tool)), at) for one, call, at in results]
    told = (answered for answered in _in_order(known, calls) if answered[0].tells)
    return [_tool_result(one, call, rules, at, at == exchange) for one, call, at in told]


def _in_order(results: list[Answered], calls: dict[str, Call]) -> list[Answered]:
    """The results, paired with the calls in order if no id tells the call of any: OpenLLMetry writes one id of OpenAI's
    responses on the call (`fc_…`) and the other on its result (`call_…`).
    """
    if len(results) != len(calls) or any(call or one.tool for one, call, _ in results):
        return results
    return [(one, call, at) for (one, _, at), call in zip(results, calls.values(), strict=True)]


def _unanswered(messages: Any) -> bool:
    """Whether a conversation that begins with a prompt lacks the model's own messages, as OpenLIT sends it: then only
    its last result is certainly new. If a request has only results, all of them are new.
    """
    first = messages[0] if isinstance(messages, list) and messages else None
    asks = isinstance(first, dict) and first.get("role") in ("system", "developer", "user")
    return asks and not any(calls_and_results([first], answers=False))


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
    result.call_id = call.call_id
    return call


def calls_in(messages: Any) -> list[tuple[str, str, Any]]:
    """The tool calls that messages ask for: call id, tool, arguments."""
    asked = calls_and_results(messages, answers=True)
    return [(one.call_id, one.tool, one.params) for one in asked if isinstance(one, Call)]


def _tool_result(result: Result, call: Call | None, rules: Rules, turn: int, fresh: bool) -> ToolResult:
    tool = result.tool or (call.tool if call else "")
    output = read_output(result.value, rules)
    outcome, strength, text = _judge(result, output)
    refused = outcome == "denied" or (outcome == "error" and NEVER_RAN.search(text[:4000]) is not None)
    return ToolResult(
        call_id=bare_id(result.call_id, tool),
        tool=tool or (_named(text) if refused else ""),
        params=call.params if call else None,
        outcome=outcome,
        strength=strength,
        text=text if outcome != "ok" else "",
        refused=refused,
        fresh=fresh,
        exit_code=output.exit_code,
        digest=key64(text, str(result.mark)),
        turn=turn,
    )


def _named(text: str) -> str:
    """The tool that a refusal names."""
    found = NAMED.search(text[:400])
    return next(name for name in found.groups() if name) if found else ""


def _judge(result: Result, output: Output) -> tuple[str, int, str]:
    text = (output.text or text_of(result.value)).partition(REMINDER)[0].rstrip()
    marked = verdict_of(result.mark)
    if (
        marked in ("error", "denied", "cancelled")
        or output.verdict in ("error", "denied", "cancelled")
        or output.exit_code
    ):
        outcome = next((one for one in (marked, output.verdict) if one and one != "ok"), "error")
        refusal = refusal_in(text) if outcome == "error" and not output.exit_code else ""
        return refusal or outcome, Strength.ERROR, text
    if marked == "ok" or output.exit_code == 0:
        return "ok", Strength.RESULT_OK, text
    head = text[:400]
    refusal = refusal_in(head.lstrip().partition("\n")[0])
    telling = any(pattern.search(head) for pattern in (NEVER_RAN, REFUSED_TEXT, FAILED_START))
    if telling or refusal or _is_validation(result.value):
        return refusal or "error", Strength.RESULT_MAYBE, text
    return "ok", Strength.RESULT_OK, text


def _is_validation(value: Any) -> bool:
    """pydantic's list of errors: [{"type": "missing", "loc": ["command"], "msg": "Field required"}]."""
    value = parsed(value)
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(one, dict) and {"type", "loc", "msg"} <= one.keys() for one in value)
    )


def result_reports(
    row: Row, record: Record, model: Report, results: Iterable[Sequence[ToolResult]], told: dict[int, Report]
) -> None:
    """Adds reports of the tool results in a model request's messages to `told`, by their digests.

    `model` has the columns of the request's own record. A result that several requests repeat counts once.
    """
    scope = model.get("session") or record.trace_id or model.get("service_instance", "")
    told_as = {role for role, *_ in each_twin(row.twin)}
    roles = [role for role in (Role.FRAMEWORK, Role.CLIENT) if role in told_as]
    for some in results:
        for position, one in enumerate(some):
            lends = row.told_policy == "amend" or (row.told_policy == "refused" and not one.refused)
            # Without a session the next trace repeats the whole conversation: repeated results must make no events.
            lends = lends or not (one.fresh or "session" in model)
            if lends and (one.outcome == "ok" or one.strength <= Strength.OK_DEFAULT):
                continue
            report = _result_report(roles, record, model, one, position, lends=lends)
            if row.operation == "link" and record.time_ns:  # the messages of a whole run, which has ended
                report["time_ns"] = record.time_ns
            if "site" in row.keys and "params" in report:
                report["_site"] = ["", params_mark(report["params"])]
            whole = bool(one.tool), one.params is not None, "agent" in model
            digest = key64(*map(str, (model.get("service"), scope, one.call_id, one.digest, one.fresh, whole)))
            before = told.get(digest)
            if before is None or report["time_ns"] < before["time_ns"]:
                told[digest] = report


def asked_ids(row: Row, record: Record) -> str:
    """The ids of the calls that the answer to this model request asks for, with spaces between."""
    answers = [one for one in messages_at(row.asks, record) if not isinstance(one, str) or CALLS.search(one)]
    asked = (one for messages in answers for one in calls_in(messages))
    ids = (bare_id(call_id, tool) for call_id, tool, _ in asked if call_id and not is_name(call_id, tool))
    return " ".join(dict.fromkeys(one for one in ids if one.split() == [one]))


def asked_reports(row: Row, record: Record, model: Report) -> Iterator[Report]:
    """Reports that give the ids of the calls that the model asked for to their sibling spans, which have none."""
    for messages in messages_at(row.asked, record):
        # OpenInference leaves empty arguments out
        calls = [(call_id, tool, {} if params is None else params) for call_id, tool, params in calls_in(messages)]
        transfers = sum(tool.startswith(TRANSFER) for _, tool, _ in calls)
        for call_id, tool, params in calls:
            report: Report = {
                **part_of(model, ("source", "service", *SESSION)),
                "operation": "tool",
                "source_signal": record.signal,
                "tool": tool,
                "params": params,
                "time_ns": record.time_ns,
                "_rank": Rank.ASKED,
                "_lends": True,
            }
            if not is_name(call_id, tool):
                report["call_id"] = call_id
            if record.trace_id:
                report["trace_id"] = record.trace_id
                if record.parent_span_id:
                    report["parent_span_id"], report["_twin"] = record.parent_span_id, ASKED_TWIN
                    keys = report["_keys"] = []
                    if len(calls) == 1 and row.sole:  # in other tables one span may contain all steps of a run
                        keys.append(only_call(record.trace_id, record.parent_span_id))
                    if transfers == 1 and tool.startswith(TRANSFER):
                        keys.append(hand_off(record.trace_id, record.parent_span_id))
            yield report


def _twins(roles: Iterable[str], report: Report) -> Iterator[Sequence[str]]:
    """Role and columns by which a result is found: in the trace without its id, else by its id in another's trace."""
    if "trace_id" in report and "tool" in report and "params" in report:
        yield RESULT_TWIN
    if "call_id" in report:
        yield from ((role, "call_id") for role in roles)


def _result_report(
    roles: Sequence[str], record: Record, model: Report, one: ToolResult, position: int, *, lends: bool
) -> Report:
    told = Rank.CLIENT if Role.CLIENT in roles else Rank.FRESH
    report: Report = {
        **part_of(model, SHARED),
        "operation": "tool",
        "source_signal": record.signal,
        "outcome": one.outcome,
        "time_ns": (record.start_ns or record.time_ns or record.observed_ns) + position,
        "_strength": one.strength,
        "_rank": told if one.fresh else Rank.REPEATED,
    }
    if record.trace_id:
        report["trace_id"] = record.trace_id
    if record.trace_id and is_name(REPEATED_ID.sub("", one.call_id), one.tool):
        report["_keys"] = [("told", record.trace_id, one.call_id)]
    else:
        report["call_id"] = one.call_id
        if one.fresh and "session" not in model and (key := call_key(model.get("service", ""), one.call_id, one.tool)):
            report["_keys"] = [key]
    if one.tool:
        report["tool"] = one.tool
    if one.params is not None:
        report["params"] = one.params
    if lends:
        report["_lends"] = True
    elif twins := [*_twins(roles, report)]:
        report["_twin"] = twins
    if one.text:
        report["message"] = report["_text"] = one.text
    if one.exit_code:
        report["_shape"], report["tool_kind"] = ("exit_code", f"exit:{one.exit_code}"), "command"
    return report
