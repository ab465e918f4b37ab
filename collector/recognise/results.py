"""Finds tool results in the messages of a later model request.

They show failures that a source hides (the exit code of Gemini CLI's shell) and calls without any span (unknown tools,
refused parameters, arguments that are not JSON). They are read and used, never stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from collector.decode.record import Record
from collector.recognise.identify import (
    bare_id,
    call_key,
    hand_off,
    is_name,
    key64,
    only_call,
    params_mark,
    whose,
)
from collector.recognise.messages import MARKS, Call, Found, Result, calls_and_results, messages_at, messages_in, walked
from collector.recognise.outputs import Output, read_output, text_of, verdict_of
from collector.recognise.readers import parsed
from collector.recognise.readings import Rules
from collector.recognise.reasons import refusal_in
from collector.recognise.result_texts import named_tool, never_ran, seeming_failure
from collector.recognise.retold import Answered, begun, conversation, going_on
from collector.recognise.sources import Row
from collector.report import ASKED_TWIN, RESULT_TWIN, Rank, Report, Role, Strength, each_twin, part_of

CALLS = re.compile("[Tt]ool|unction")  # in the JSON text of an answer that asks for any
FAILURES = frozenset(("error", "denied", "cancelled"))
REMINDER = "<system-reminder>"  # what Claude Code appends for the model: each time another text
TRANSFER = "transfer_to_"  # what tools that hand over to another agent are called

REPEATED_ID = re.compile(r"\.[0-9]+\Z")  # as `_numbered` writes it
SESSION = ("session", "session_source")
SHARED = (
    "source", "service", "service_version", "service_instance", "environment", "project", *SESSION, "agent", "subagent",
)  # fmt: skip


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
    first, found = _read(messages)
    if not any(found):
        return []
    read = conversation(found)
    if len(read.results) > 1 and read.exchange < 0 and _unanswered(first):
        read.exchange = len(read.results)
        read.results[-1] = (*read.results[-1][:2], read.exchange)
    known = [(result, call or read.call_of(result), turn) for result, call, turn in read.results]
    return [
        _tool_result(result, call, rules, turn, turn == read.exchange)
        for result, call, turn in _in_order(known, read.calls)
        if result.tells
    ]


def _read(messages: Any) -> tuple[Any, Sequence[Sequence[Found]]]:
    """The first message as it is, and what is in each; nothing of a text without marks of results."""
    if isinstance(messages, str):
        if (text := going_on(messages)) is not None:
            return text.first, text.messages
        if not MARKS.search(messages):
            return None, ()
        if (text := begun(messages)) is not None:
            return text.first, text.messages
        messages = messages_in(messages)
    return messages[0] if isinstance(messages, list) and messages else None, walked(messages)


def _in_order(results: list[Answered], calls: dict[str, Call]) -> list[Answered]:
    """The results, paired with the calls in order if no id tells the call of any: OpenLLMetry writes one id of OpenAI's
    responses on the call (`fc_…`) and the other on its result (`call_…`).
    """
    if len(results) != len(calls) or any(call or one.tool for one, call, _ in results):
        return results
    return [(one, call, at) for (one, _, at), call in zip(results, calls.values(), strict=True)]


def _unanswered(first: Any) -> bool:
    """Whether a conversation that begins with a prompt lacks the model's own messages, as OpenLIT sends it: then only
    its last result is certainly new. If a request has only results, all of them are new.
    """
    asks = isinstance(first, dict) and first.get("role") in ("system", "developer", "user")
    return asks and not any(calls_and_results([first], answers=False))


def calls_in(messages: Any) -> list[tuple[str, str, Any]]:
    """The tool calls that messages ask for: call id, tool, arguments."""
    asked = calls_and_results(messages, answers=True)
    return [(one.call_id, one.tool, one.params) for one in asked if isinstance(one, Call)]


class Judged(NamedTuple):
    """What a result says by itself, as the rules of a row read it."""

    rules: Rules
    outcome: str
    strength: int
    text: str
    exit_code: int | None
    never_ran: bool
    digest: int


def _judged(result: Result, rules: Rules) -> Judged:
    """The judgement of a result, which it keeps: later requests repeat it."""
    known: Judged | None = result.judged
    if known is None or known.rules is not rules:
        output = read_output(result.value, rules)
        outcome, strength, text = _judge(result, output)
        unrun = outcome == "error" and never_ran(text)
        digest = key64(text, str(result.mark))
        known = result.judged = Judged(rules, outcome, strength, text, output.exit_code, unrun, digest)
    return known


def _tool_result(result: Result, call: Call | None, rules: Rules, turn: int, fresh: bool) -> ToolResult:
    tool = result.tool or (call.tool if call else "")
    judged = _judged(result, rules)
    refused = judged.outcome == "denied" or judged.never_ran
    return ToolResult(
        call_id=bare_id(result.call_id, tool),
        tool=tool or (named_tool(judged.text) if refused else ""),
        params=call.params if call else None,
        outcome=judged.outcome,
        strength=judged.strength,
        text=judged.text if judged.outcome != "ok" else "",
        refused=refused,
        fresh=fresh,
        exit_code=judged.exit_code,
        digest=judged.digest,
        turn=turn,
    )


def _judge(result: Result, output: Output) -> tuple[str, int, str]:
    text = (output.text or text_of(result.value)).partition(REMINDER)[0].rstrip()
    marked = verdict_of(result.mark)
    if output.exit_code or not FAILURES.isdisjoint((marked, output.verdict)):
        return _failure((marked, output.verdict), output.exit_code, text), Strength.ERROR, text
    if marked == "ok" or output.exit_code == 0:
        return "ok", Strength.RESULT_OK, text
    if seems := seeming_failure(text):
        return seems, Strength.RESULT_MAYBE, text
    if _is_validation(result.value):
        return "error", Strength.RESULT_MAYBE, text
    return "ok", Strength.RESULT_OK, text


def _failure(verdicts: Iterable[str], exit_code: int | None, text: str) -> str:
    """The outcome of a result that a mark or its output calls a failure."""
    outcome = next((verdict for verdict in verdicts if verdict not in ("", "ok")), "error")
    refusal = refusal_in(text) if outcome == "error" and not exit_code else ""
    return refusal or outcome


def _is_validation(value: Any) -> bool:
    """pydantic's list of errors: [{"type": "missing", "loc": ["command"], "msg": "Field required"}]."""
    errors = parsed(value)
    if not isinstance(errors, list) or not errors:
        return False
    return all(isinstance(error, dict) and error.keys() >= {"type", "loc", "msg"} for error in errors)


def result_reports(
    row: Row, record: Record, model: Report, results: Iterable[Sequence[ToolResult]], told: dict[int, Report]
) -> None:
    """Adds reports of the tool results in a model request's messages to `told`, by their digests.

    `model` has the columns of the request's own record. A result that several requests repeat counts once.
    """
    scope = model.get("session") or record.trace_id or model.get("service_instance", "")
    own = [role for role, *_ in each_twin(row.twin)]
    roles = [role for role in (Role.FRAMEWORK, Role.CLIENT) if role in own]
    for position, result in chain.from_iterable(map(enumerate, results)):
        lends = _only_lends(row, model, result)
        if lends and (result.outcome == "ok" or result.strength <= Strength.OK_DEFAULT):
            continue
        report = _result_report(roles, record, model, result, position, lends=lends)
        if row.operation == "link" and record.time_ns:  # the messages of a whole run, which has ended
            report["time_ns"] = record.time_ns
        if "site" in row.keys and "params" in report:
            report["_site"] = ["", params_mark(report["params"])]
        whole = result.tool != "", result.params is not None, "agent" in model
        said = (*whose(model), scope, result.call_id, result.digest, result.fresh, whole)
        _keep_earliest(told, key64(*map(str, said)), report)


def _only_lends(row: Row, model: Report, result: ToolResult) -> bool:
    """Whether a result makes no event by itself."""
    if row.told_policy == "amend" or (row.told_policy == "refused" and not result.refused):
        return True
    # Without a session the next trace repeats the whole conversation: repeated results must make no events.
    return not result.fresh and "session" not in model


def _keep_earliest(told: dict[int, Report], digest: int, report: Report) -> None:
    before = told.get(digest)
    if before is None or report["time_ns"] < before["time_ns"]:
        told[digest] = report


def asked_ids(row: Row, record: Record) -> str:
    """The ids of the calls that the answer to this model request asks for, with spaces between."""
    ids: dict[str, None] = {}
    for messages in messages_at(row.asks, record):
        if isinstance(messages, str) and not CALLS.search(messages):
            continue
        for call_id, tool, _ in calls_in(messages):
            bare = bare_id(call_id, tool)
            if not is_name(call_id, tool) and bare.split() == [bare]:
                ids[bare] = None
    return " ".join(ids)


def asked_reports(row: Row, record: Record, model: Report) -> Iterator[Report]:
    """Reports that give the ids of the calls that the model asked for to their sibling spans, which have none."""
    for messages in messages_at(row.asked, record):
        calls = calls_in(messages)
        sole = row.sole and len(calls) == 1  # in other tables one span may contain all steps of a run
        hands_off = sum(tool.startswith(TRANSFER) for _, tool, _ in calls) == 1
        for call_id, tool, params in calls:
            report: Report = {
                **part_of(model, ("source", "service", "project", *SESSION)),
                "operation": "tool",
                "source_signal": record.signal,
                "tool": tool,
                "params": {} if params is None else params,  # OpenInference leaves empty arguments out
                "time_ns": record.time_ns,
                "_rank": Rank.ASKED,
                "_lends": True,
            }
            if not is_name(call_id, tool):
                report["call_id"] = call_id
            _place_below(report, record, sole=sole, hands_off=hands_off and tool.startswith(TRANSFER))
            yield report


def _place_below(report: Report, record: Record, *, sole: bool, hands_off: bool) -> None:
    """Says where the call that a model request asks for is to be found: beside the request, below one parent."""
    trace, parent = record.trace_id, record.parent_span_id
    if trace:
        report["trace_id"] = trace
    if not trace or not parent:
        return
    report["parent_span_id"], report["_twin"] = parent, ASKED_TWIN
    keys = report["_keys"] = []
    if sole:
        keys.append(only_call(trace, parent))
    if hands_off:
        keys.append(hand_off(trace, parent))


def _twins(roles: Iterable[str], report: Report) -> Iterator[Sequence[str]]:
    """Role and columns by which a result is found: in the trace without its id, else by its id in another's trace."""
    if "trace_id" in report and "tool" in report and "params" in report:
        yield RESULT_TWIN
    if "call_id" in report:
        yield from ((role, "call_id") for role in roles)


def _result_report(
    roles: Sequence[str], record: Record, model: Report, result: ToolResult, position: int, *, lends: bool
) -> Report:
    told = Rank.CLIENT if Role.CLIENT in roles else Rank.FRESH
    report: Report = {
        **part_of(model, SHARED),
        "operation": "tool",
        "source_signal": record.signal,
        "outcome": result.outcome,
        "time_ns": (record.start_ns or record.time_ns or record.observed_ns) + position,
        "_strength": result.strength,
        "_rank": told if result.fresh else Rank.REPEATED,
    }
    _identify(report, record, model, result)
    if result.tool:
        report["tool"] = result.tool
    if result.params is not None:
        report["params"] = result.params
    if lends:
        report["_lends"] = True
    elif twins := [*_twins(roles, report)]:
        report["_twin"] = twins
    if result.text:
        report["message"] = report["_text"] = result.text
    if result.exit_code:
        report["_shape"], report["tool_kind"] = ("exit_code", f"exit:{result.exit_code}"), "command"
    return report


def _identify(report: Report, record: Record, model: Report, result: ToolResult) -> None:
    """Adds the trace, and the call's id; where that is only the tool's name, a key within the trace."""
    call_id = result.call_id
    if record.trace_id:
        report["trace_id"] = record.trace_id
        if is_name(REPEATED_ID.sub("", call_id), result.tool):
            report["_keys"] = [("told", record.trace_id, call_id)]
            return
    report["call_id"] = call_id
    if result.fresh and "session" not in model and (key := call_key(model, call_id, result.tool)):
        report["_keys"] = [key]
