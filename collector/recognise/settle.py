"""Decides the outcome of a call from all evidence, and finds the text that gives the reason.

An agent's flag is not the truth: a shell command that exited with 1 arrives as a success, a rejected call as a failure,
an error only inside the output's JSON. Evidence of a denial wins over evidence of a cancellation, which wins over
evidence of failure; each of these wins over evidence of success, and that over what leaves the outcome open.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from collector.recognise.outputs import Output, breaks_schema, exit_code_in, read_output, spoken, verdict_of
from collector.recognise.readers import as_bool, as_int, tells_error
from collector.recognise.readings import Rules
from collector.recognise.reasons import HEAD, cause_in, decisive, is_generic, refusal_in, untraced
from collector.report import STRENGTHS, Strength

TEXT_CHARS = 64 << 10

CANCELLED_CLASS = re.compile(
    r"(^|[.:])(AbortError|CancelledError|CanceledError|KeyboardInterrupt|UserAbortError|APIUserAbortError"
    r"|UserInterruptError|ModelAbortError|GeneratorExit"
    r"|TaskCancelledException|TaskCanceledException|OperationCanceledException|(Job)?CancellationException"
    r"|Cancell?ed|CANCELLED)$"
)
# Who or what refused the call. Of a resource ("permission_denied", "connection_rejected") the same words are an error.
DENIED_CLASS = re.compile(
    r"(?:(?:\w+_)?(?:user|human|policy|hook|mode|approval|consent|confirmation|guardrail|execution|invocation|tool"
    r"|tool_call|tool_use)_)?(?:denied|rejected?|declined|blocked)"
    r"|(?:\w+_)?(?:denied|rejected|declined|blocked)_by_(?:user|human|policy|hook)|user_denied_permission"
    r"|policy_violation"
)
DECIDED = ("denied", "cancelled", "error")
BARE = ("Exception", "BaseException")  # in their place the class counts that a traceback in the text ends with
# What .NET's clients cancel a request for.
OF_TIME = re.compile(r"time-?out|timed out|deadline exceeded", re.IGNORECASE)
# As execa and Loopr write it, with anything the command printed after it.
RAN = re.compile(
    r"(?:[\w ]{0,40}error: )?command (?:failed|exited) with (?:exit )?(?:code|status) (\d{1,9})\b", re.IGNORECASE
)
# By these, frameworks wait for a person or hand a run over: the call has not ended, and comes again once approved.
PAUSED = (
    r"(?:GraphInterrupt|NodeInterrupt|GraphBubbleUp|ParentCommand|ApprovalRequired|CallDeferred|InterruptException"
    r"|UserInputRequiredException|StopAgentRun)"
)
PAUSED_CLASS, PAUSED_TEXT = re.compile(rf"(?:^|[.:]){PAUSED}$"), re.compile(rf"(?:\w{{1,40}}\.){{0,4}}{PAUSED}\(")


class Raised(NamedTuple):
    """An `exception` span event."""

    name: str = ""
    message: str = ""
    stack: str = ""


@dataclass(slots=True, frozen=True)
class Settled:
    """The decision. `outcome` is "" without any evidence; texts are raw, not sanitised."""

    outcome: str = ""
    strength: int = 0
    text: str = ""
    message: str = ""
    stack: str = ""
    reported: str | None = None
    exit_code: int | None = None
    shape: tuple[str, ...] = ()


@dataclass(slots=True)
class Said:
    """What a report states besides its evidence: class and error text, status of its span, outcome fixed by its row."""

    reported: str | None = None
    message: str | None = None
    status: int = 0
    status_message: str = ""
    raised: Sequence[Raised] = ()
    fixed: str = ""
    params: Any = None


@dataclass(slots=True)
class _Case:
    verdicts: set[str] = field(default_factory=set)
    shape: list[str] = field(default_factory=list)
    exit_code: int | None = None
    output_text: str = ""

    def exited(self, code: int) -> None:
        self.exit_code = self.exit_code or code
        self.verdicts.add("error" if code else "ok")


EXITED_WELL = Settled("ok", Strength.OK, exit_code=0)
UNDISPUTED = {True: Settled("ok", Strength.OK), False: Settled("ok", Strength.OK_DEFAULT)}
LEFT_OPEN = Settled("unknown", Strength.UNKNOWN)


def settle(signs: Mapping[str, Sequence[Any]], rules: Rules, said: Said) -> Settled:
    """Decides the outcome, "" of a call that only waits.

    `signs` are values by kind of evidence (`schemas/sources/README.md`, [outcome]).
    """
    if _paused(said):
        return Settled()
    case = _Case()
    if said.fixed:
        case.verdicts.add(said.fixed)
    if said.status and rules.status:
        case.verdicts.add("error" if said.status == 2 else "ok")
    if said.raised and rules.exceptions and said.status != 1:
        case.verdicts.add("error")
    if signs:
        _weigh(case, signs, rules)
    if case.verdicts == {"unknown"}:
        return LEFT_OPEN
    if case.verdicts.isdisjoint(DECIDED):
        return UNDISPUTED[bool(case.verdicts)] if case.exit_code is None else EXITED_WELL
    return _failed(case, signs, rules, said)


def _paused(said: Said) -> bool:
    """Whether the report is of a call that only waits; LangSmith gives the exception's class in its text alone."""
    return (
        (said.reported is not None and PAUSED_CLASS.search(said.reported) is not None)
        or PAUSED_TEXT.match(said.status_message) is not None
        or any(PAUSED_CLASS.search(one.name) or PAUSED_TEXT.match(one.message) for one in said.raised)
    )


def _weigh(case: _Case, signs: Mapping[str, Sequence[Any]], rules: Rules) -> None:
    for kind, values in signs.items():
        if kind == "outputs":
            for value in values:
                _output(case, read_output(value, rules))
        elif kind == "flags" or kind == "failed":
            good = kind == "flags"
            case.verdicts.update(
                "ok" if flag == good else "error" for one in values if (flag := as_bool(one)) is not None
            )
        elif kind == "says":
            case.verdicts.update(verdict for one in values if (verdict := verdict_of(one)))
        elif kind == "decisions":
            case.verdicts.update(verdict for one in values if (verdict := verdict_of(one)) in DECIDED)
        elif kind == "errors":
            if any(map(tells_error, values)):
                case.verdicts.add("error")
        elif kind == "exits":
            for value in values:
                if (code := as_int(value)) is not None:
                    case.exited(code)
        elif kind == "blocked":
            if any(map(tells_error, values)):
                case.verdicts.add("denied")
        elif kind == "statuses":
            if any((as_int(value) or 0) >= 400 for value in values):
                case.verdicts.add("error")
        elif kind.startswith("shape:") and any(as_bool(one) for one in values):
            case.shape.append(kind.removeprefix("shape:"))


def _output(case: _Case, output: Output) -> None:
    if output.verdict:
        case.verdicts.add(output.verdict)
    if output.exit_code is not None:
        case.exited(output.exit_code)
    case.shape.extend(output.shape)
    if output.text and (not case.output_text or output.exit_code or output.verdict not in ("", "ok")):
        case.output_text = output.text


def _failed(case: _Case, signs: Mapping[str, Sequence[Any]], rules: Rules, said: Said) -> Settled:
    heard = said.raised if rules.exceptions else ()
    told = [one for one in reversed(heard) if one.name or one.message]
    raised = told[0] if told else Raised()
    if rules.wrappers and rules.wrappers.fullmatch(raised.name):
        raised = next((one for one in told[1:] if one.message and one.message in raised.message), raised)
    names = {name for one in (said.reported, raised.name) if one for name in (one, one.rpartition(".")[2])}
    stated = said.status_message if rules.status else ""
    told_texts = map(spoken, (said.message or "", raised.message, stated, case.output_text))
    texts = [one for one in told_texts if one and one.lower() not in ("true", "false")]  # flags give no reason
    text = _reason([one for one in texts if one.rstrip(": ") not in names] or texts)
    code = _exit_code(text, rules) if case.exit_code is None else None
    reported, stack = said.reported or raised.name or None, raised.stack
    if not (stack or case.exit_code) and text != case.output_text:
        head, stack, name, reason = untraced(text)
        if name and (reported in BARE or not (reported or head)):
            reported, text = name, reason or head or name
        elif name:
            ended = f"{name}: {reason}" if reason else name
            text = head if ended in head else f"{head}\n{ended}".strip()
    if reported and stack and rules.wrappers and rules.wrappers.fullmatch(reported):
        reported = cause_in(stack, rules.wrappers) or reported
    if code is not None:
        case.exited(code)
    if "error" in case.verdicts and said.fixed != "error":
        case.verdicts.add(_refusal(reported, "" if case.exit_code else text, rules))
    outcome = next(one for one in DECIDED if one in case.verdicts)
    if case.exit_code:
        case.shape += ["exit_code", f"exit:{case.exit_code}"]
    if not reported and is_generic(text) and breaks_schema(signs.get("schemas", ()), said.params):
        case.shape.append("validation")
    message = text
    if case.exit_code and text == case.output_text:
        message = f"exit code {case.exit_code}: {decisive(text)}".rstrip(": ")
    return Settled(
        outcome, STRENGTHS[outcome], text[:TEXT_CHARS], message[:TEXT_CHARS], stack, reported, case.exit_code,
        tuple(case.shape),
    )  # fmt: skip


def _exit_code(text: str, rules: Rules) -> int | None:
    """The exit code in the text of an error; None if it is not of a command that ran."""
    if (found := RAN.match(text)) is not None:
        return int(found[1])
    return exit_code_in(text, rules)


def _refusal(reported: str | None, text: str, rules: Rules) -> str:
    """The true outcome of what arrived as an error: "denied", "cancelled" or "error". Callers pass no text of a command
    that ran, because it may print anything.
    """
    if reported:
        if (rules.denied and rules.denied.fullmatch(reported)) or DENIED_CLASS.fullmatch(reported):
            return "denied"
        stopped = (rules.cancelled and rules.cancelled.fullmatch(reported)) or CANCELLED_CLASS.search(reported)
        if stopped and not OF_TIME.search(text[:HEAD]):
            return "cancelled"
    return refusal_in(text) or "error"


def _reason(texts: Sequence[str]) -> str:
    """The first text that gives a reason; if the very first is generic, both."""
    good = next((one for one in texts if not is_generic(one)), "")
    first = texts[0] if texts else ""
    return first if not good else good if good == first else f"{first}\n{good}"
