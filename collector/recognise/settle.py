"""Decides the outcome of a call from all evidence, and finds the text that gives the reason.

An agent's flag is not the truth: a shell command that exited with 1 arrives as a success, a rejected call as a failure,
an error only inside the output's JSON. Evidence of a denial wins over evidence of a cancellation, which wins over
evidence of failure; each of these wins over evidence of success, and that over what leaves the outcome open.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from collector.alike import alike
from collector.recent import Recent
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
ALIKE_CHARS, ALIKE_REMEMBERED = 500, 1_000  # the longest texts of failures that are remembered, and half of how many
QUOTING = "[{\"'("  # begin texts that hold others
FLAGS = ("true", "false")  # give no reason
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


_ALIKE: Recent[tuple[Rules, Settled]] = Recent(ALIKE_REMEMBERED)


def settled(signs: Mapping[str, Sequence[Any]], rules: Rules, said: Said) -> Settled:
    """The same as `settle`; of failures whose texts are alike only the first is looked at."""
    text = said.message or said.status_message
    if not 0 < len(text) <= ALIKE_CHARS or text[0] in QUOTING or said.raised or not WEIGHED_ALONE.issuperset(signs):
        return settle(signs, rules, said)
    stated = said.status_message if said.message else ""
    verdicts = tuple((kind, *map(VERDICTS[kind], values)) for kind, values in signs.items())
    key = (id(rules), said.reported, said.status, said.fixed, verdicts, alike(text), alike(stated))
    before = _ALIKE.get(key)
    if before is not None and before[0] is rules:
        known = before[1]
        return Settled(known.outcome, known.strength, text, text, "", known.reported, None, known.shape)
    found = settle(signs, rules, said)
    if found.text == found.message == text and found.exit_code is None and not found.stack:
        _ALIKE.put(key, (rules, found))
    return found


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
        elif kind == "exits":
            for code in map(as_int, values):
                if code is not None:
                    case.exited(code)
        elif verdict := VERDICTS.get(kind):
            case.verdicts.update(map(verdict, values))
        elif kind.startswith("shape:") and any(map(as_bool, values)):
            case.shape.append(kind.removeprefix("shape:"))
    case.verdicts.discard("")


def _flag(value: Any) -> str:
    """What a value means that is true of a success; "" if it is no truth value."""
    return {True: "ok", False: "error"}.get(as_bool(value), "")  # type: ignore[arg-type]


def _failed_flag(value: Any) -> str:
    return {True: "error", False: "ok"}.get(as_bool(value), "")  # type: ignore[arg-type]


def _decision(value: Any) -> str:
    verdict = verdict_of(value)
    return verdict if verdict in DECIDED else ""


def _status(value: Any) -> str:
    code = as_int(value)
    return "error" if code is not None and code >= 400 else ""


# What a value of each kind of evidence shows: an outcome, or "" for none. Outputs and exit codes say more.
VERDICTS: Mapping[str, Callable[[Any], str]] = {
    "flags": _flag,
    "failed": _failed_flag,
    "says": verdict_of,
    "decisions": _decision,
    "errors": lambda value: "error" if tells_error(value) else "",
    "blocked": lambda value: "denied" if tells_error(value) else "",
    "statuses": _status,
}


WEIGHED_ALONE = frozenset(VERDICTS)  # say nothing besides


def _output(case: _Case, output: Output) -> None:
    if output.verdict:
        case.verdicts.add(output.verdict)
    if output.exit_code is not None:
        case.exited(output.exit_code)
    case.shape.extend(output.shape)
    if output.text and (not case.output_text or output.exit_code or output.verdict not in ("", "ok")):
        case.output_text = output.text


class Reason(NamedTuple):
    """Why a call failed: a text, and the name and stack of an exception."""

    text: str
    reported: str | None
    stack: str


def _failed(case: _Case, signs: Mapping[str, Sequence[Any]], rules: Rules, said: Said) -> Settled:
    raised = _raised(said, rules)
    text = _first_reason(_texts(case, rules, said, raised))
    code = _exit_code(text, rules) if case.exit_code is None else None
    reason = Reason(text, said.reported or raised.name or None, raised.stack)
    if not (raised.stack or case.exit_code) and text != case.output_text:
        reason = _without_traceback(reason)
    reason = _behind_wrapper(reason, rules)
    if code is not None:
        case.exited(code)
    outcome = _outcome(case, rules, said, reason)
    return Settled(
        outcome,
        STRENGTHS[outcome],
        reason.text[:TEXT_CHARS],
        _message(case, reason.text)[:TEXT_CHARS],
        reason.stack,
        reason.reported,
        case.exit_code,
        (*case.shape, *_further_shape(case, signs, said, reason)),
    )


def _raised(said: Said, rules: Rules) -> Raised:
    """The last exception that says something; the one within it, if the table calls it a wrapper."""
    raised = [one for one in reversed(said.raised) if one.name or one.message] if rules.exceptions else []
    if not raised:
        return Raised()
    last = raised[0]
    if _matches(rules.wrappers, last.name):
        for inner in raised[1:]:
            if inner.message and inner.message in last.message:
                return inner
    return last


def _matches(pattern: re.Pattern[str] | None, name: str) -> bool:
    return pattern is not None and pattern.fullmatch(name) is not None


def _texts(case: _Case, rules: Rules, said: Said, raised: Raised) -> list[str]:
    """The texts that may give the reason, the best first: without bare names of exceptions, if there are others."""
    stated = said.status_message if rules.status else ""
    texts = [spoken(text) for text in (said.message or "", raised.message, stated, case.output_text)]
    texts = [text for text in texts if text and text.lower() not in FLAGS]
    names = {said.reported, raised.name}
    names |= {name.rpartition(".")[2] for name in names if name}
    return [text for text in texts if text.rstrip(": ") not in names] or texts


def _without_traceback(reason: Reason) -> Reason:
    """The reason with the traceback of its text as its stack. A class in it counts where no other is reported."""
    head, stack, name, last = untraced(reason.text)
    if not name:
        return reason._replace(stack=stack)
    if reason.reported in BARE or not (reason.reported or head):
        return Reason(last or head or name, name, stack)
    ended = f"{name}: {last}" if last else name
    text = head if ended in head else f"{head}\n{ended}".strip()
    return reason._replace(text=text, stack=stack)


def _behind_wrapper(reason: Reason, rules: Rules) -> Reason:
    """The reason with the class of its cause, if the table calls the reported one a wrapper."""
    if rules.wrappers and reason.reported and reason.stack and _matches(rules.wrappers, reason.reported):
        return reason._replace(reported=cause_in(reason.stack, rules.wrappers) or reason.reported)
    return reason


def _outcome(case: _Case, rules: Rules, said: Said, reason: Reason) -> str:
    if "error" in case.verdicts and said.fixed != "error":
        text = "" if case.exit_code else reason.text
        case.verdicts.add(_refusal(reason.reported, text, rules))
    return next(outcome for outcome in DECIDED if outcome in case.verdicts)


def _further_shape(case: _Case, signs: Mapping[str, Sequence[Any]], said: Said, reason: Reason) -> Iterator[str]:
    if case.exit_code:
        yield from ("exit_code", f"exit:{case.exit_code}")
    if not reason.reported and is_generic(reason.text) and breaks_schema(signs.get("schemas", ()), said.params):
        yield "validation"


def _message(case: _Case, text: str) -> str:
    """The text; of what a command printed, its exit code and the decisive lines."""
    if case.exit_code and text == case.output_text:
        return f"exit code {case.exit_code}: {decisive(text)}".rstrip(": ")
    return text


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
        if DENIED_CLASS.fullmatch(reported) or _matches(rules.denied, reported):
            return "denied"
        stopped = CANCELLED_CLASS.search(reported) or _matches(rules.cancelled, reported)
        if stopped and not OF_TIME.search(text[:HEAD]):
            return "cancelled"
    return refusal_in(text) or "error"


def _first_reason(texts: Sequence[str]) -> str:
    """The first text that gives a reason; if the very first is generic, both."""
    if not texts:
        return ""
    good = next((text for text in texts if not is_generic(text)), "")
    return texts[0] if good in ("", texts[0]) else f"{texts[0]}\n{good}"
