"""Facts in the text or stack of an error: refusals, HTTP status, requested delay, the class hidden by a wrapper."""

from __future__ import annotations

import re

HEAD = 1000  # characters in which a refusal counts; further down the words may be quoted from anything
FEW_LINES, FEW_CHARS = 6, 600
SUBJECT_CHARS = 100  # in which the subject of a verb is looked for

# What a call is called. Of other things ("The invitation was declined by the user") a tool only reports, as it should.
CALL = (
    r"(?:tool|calls?|command|exec|execution|operation|action|edits?|patch|diff|write|changes?|permission|plan|shell"
    r"|script|invocation|turn|sub-?agent|sub-?task|[a-z]{1,20}_\w{1,40}[\"'`]?)"
)
SUBJECT = re.compile(
    rf"(?:(?:^|[:.;,(\[\"'`\n]\s{{0,4}})(?:(?:the |this |your )?request )?|\b{CALL} (?:requests? )?|\b(?:it|this) )"
    r"(?:is |was |were |has been |have been )?\Z",
    re.IGNORECASE,
)
OBJECT = (
    r"(?=\W*\Z|\W{0,4}[.:;,!\n]| (?:to (?:run|execute|allow|use|proceed|approve|grant|let|continue)|it|this)\b"
    r"| (?:(?:this|the|your|that|a) )?(?:(?:tool|command|shell|bash|file|code|proposed|suggested|specific) ){0,2}"
    rf"(?:{CALL}|use|request|approval|access)\b)"
)
PERSON = r"(?:user|human|person|operator|reviewer)"
UNNAMED = r"(?! (?-i:[A-Z])[a-z])"  # "the user John" is somebody of whom a mail or a ticket tells
DENIED = re.compile(  # what must follow a SUBJECT
    r"(?:rejected|declined|denied|not approved|blocked) by (?:the |a )?(?:human )?"
    rf"(?:{PERSON}{UNNAMED}|policy|administrator|permission)\b"
    r"|not allowed in (?:plan|the \w{2,20} mode|\w{2,20} mode)\b",
    re.IGNORECASE,
)
DENIED_TEXT = re.compile(
    rf"\b{PERSON} (?:has )?(?:rejected|declined|denied|refused|did not (?:approve|allow|accept|permit)"
    rf"|didn't (?:approve|allow|accept|permit)){OBJECT}"
    rf"|\b{PERSON} said no\b|doesn't want to (proceed|take this action)"
    r"|blocked by \w* ?hook|\bhook (\S{1,60} )?blocked (this|the)\b"
    r"|permission (to use|for) .{1,80}(denied|rejected|has been denied)"
    r"|\brequested permissions? .{1,200} haven't granted\b"
    r"|specified a rule which prevents you from using this specific tool|requires approval.{0,80}(denied|rejected)"
    r"|denied execution|^execution (was )?denied"
    r"|tool (call|execution|use)( (is|was|has been))? (not approved|rejected|denied|declined)"
    r"|\buser (has )?(skipped (this|the)|(chose|chosen|decided|opted) (not to|to skip))|plan mode is active"
    r"|policy (forbids|does not allow) (commands?|tools?|running|executing|this (command|tool|call|action))\b"
    r"|approval required by policy|approval policy is \w+; reject|^this (command|tool|tool call) requires approval"
    r"|\b(command|tool|call) is (on|in) (the|your|a) (deny|block) ?list\b",
    re.IGNORECASE,
)
STOPPED = r"(?:aborted|abandoned|interrupted|cancell?ed)"
CANCELLED = re.compile(rf"{STOPPED} by (?:the )?user{UNNAMED}\b", re.IGNORECASE)  # the same
CANCELLED_TEXT = re.compile(
    rf"\[operation cancelled\]|(?:^|: |= )context canceled\W*\Z|^user cancelled\b|\buser (?:has )?{STOPPED}{OBJECT}"
    r"|^(?:unknown: |mcp error -\d{1,6}: )?(?:\w{0,40}error: ?)?(?:"
    r"(?:the |this |model )?(?:operation|execution|command|invocation|(?:tool|function)(?: call| use| execution)?) "
    rf"(?:was |has been )?{STOPPED}\b(?! (?:due to|because|after))"
    rf"|(?:the )?(?:task|turn|run|request) (?:was )?{STOPPED}[.!]?\Z|request was aborted"
    rf"|(?:the |this )?signal (?:is|was) aborted|{STOPPED}\Z|keyboardinterrupt\b|abort(?:ed)?error\Z)",
    re.IGNORECASE,
)
# The patterns above need one of these words. Most texts have none, and searching for words is far cheaper.
DENIED_WORDS = (
    "denied", "reject", "declin", "refus", "block", "want to", "prevents", "approv", "said no", "user ", "human did",
    "person did", "operator did", "not allowed in", "plan mode", "granted", "policy", "deny list", "denylist",
)  # fmt: skip
CANCELLED_WORDS = ("abort", "abandon", "interrupt", "cancel")
GENERIC_TEXT = re.compile(
    r"\W*(error|failed|failure|exception|unknown( error)?|tool execution (failed|error)|tool error|an error occurred"
    r"|an error occurred while running the tool\. please try again)\W*$",
    re.IGNORECASE,
)
REDACTED = "details are redacted"
# A thing that is no text, in Python's words: LangGraph cancels its tasks with an object.
REPR = re.compile(r"<[A-Za-z_](?:[^<>\n]|<\w{1,40}>|(?<= of )<){0,300} at 0x[0-9A-Fa-f]{4,16}>{1,2}")
OF_REPR = re.compile(rf"\s*(?:[A-Za-z_][\w.]{{0,100}}(?:: ?|\())?{REPR.pattern}\)?\s*")
ERROR_LINE = re.compile(
    r"error|exception|not found|no such|denied|fail|fatal|cannot|can't|could not|unable|timed? ?out|invalid|usage:"
    r"|panic|refused|abort",
    re.IGNORECASE,
)
STATUS = re.compile(
    r"(?:status[_ ]?code|error code|api error|http(?:/[\d.]+)?|status|[\"']code[\"'])"
    r"[\"']?\s*[:=]?\s*[\"']?([45]\d\d)\b"
    r"|^([45]\d\d)\b|\(([45]\d\d)\)",
    re.IGNORECASE,
)
UNIT = r"(?:ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)(?![a-z])"
NUMBER = r"\d{1,9}(?:\.\d{1,9})?"
DELAY = re.compile(
    r"(?:retry[- _]?(?:delay|after)|(?:try|retry)(?:ing)? again (?:in|after)|retry in|wait(?= \d))(?P<ms>[- _]?ms)?"
    rf"[\"']?\s*[:=]?\s*[\"']?(?P<delay>{NUMBER}\s?(?:{UNIT})?(?:,? ?(?:and )?{NUMBER}\s?{UNIT}){{0,3}})",
    re.IGNORECASE,
)
PART = re.compile(rf"({NUMBER})\s?({UNIT})?", re.IGNORECASE)
A_STATUS = re.compile(r"[45]\d\d")
DELAY_WORDS = ("retry", "again in", "again after", "wait ")
TO_MS = {"ms": 1, "mil": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

CHAINED = re.compile(
    r"^(?:The above exception was the direct cause of the following exception"
    r"|During handling of the above exception, .*):$",
    re.MULTILINE,
)
TRACEBACK = "Traceback (most recent call last):"
RAISED_LINE = re.compile(r"^[ \t|].*\n+(?P<name>[A-Za-z_][\w.]*)(?=:|$)", re.MULTILINE)
OTHER_CAUSE = re.compile(r"^\s*(?:\[cause\]:|Caused by:)\s*(?P<name>[A-Za-z_][\w.$]*)", re.MULTILINE)


def refusal_in(text: str) -> str:
    """ "denied" or "cancelled" if the beginning of an error text says so, otherwise ""."""
    head = text[:HEAD]
    words = head.lower()
    if any(map(words.__contains__, DENIED_WORDS)) and (_of_a_call(DENIED, head) or DENIED_TEXT.search(head)):
        return "denied"
    stopped = any(map(words.__contains__, CANCELLED_WORDS))
    return "cancelled" if stopped and (_of_a_call(CANCELLED, head) or CANCELLED_TEXT.search(head)) else ""


def _of_a_call(verb: re.Pattern[str], text: str) -> bool:
    """Whether the verb stands in the text with a call as its subject, or with none."""
    return any(SUBJECT.search(text, max(0, at - SUBJECT_CHARS), at) for at in map(re.Match.start, verb.finditer(text)))


def is_generic(text: str) -> bool:
    """Whether an error text gives no reason ("Tool execution failed")."""
    return not text or (len(text) < 2000 and (GENERIC_TEXT.match(text) is not None or REDACTED in text.lower()))


def unrepresented(text: str) -> str:
    """The text; without the repr if it is only that, or that of an exception with it."""
    return REPR.sub("", text) if "0x" in text and OF_REPR.fullmatch(text) else text


def decisive(text: str) -> str:
    """The lines of a command's output that say why it failed: all if it is short, else error lines and the last."""
    lines = [line.rstrip() for line in text[-16384:].splitlines() if line.strip()]
    if len(lines) <= FEW_LINES and sum(map(len, lines)) <= FEW_CHARS:
        return "\n".join(lines)
    errors = [line for line in lines[:-1] if ERROR_LINE.search(line[:FEW_CHARS])][-3:]
    return "\n".join(line[:FEW_CHARS] for line in [*errors, *lines[-1:]])


def status_in(text: str) -> int | None:
    """The HTTP status in an error text ("Error code: 429 - …", "status_code: 500, …")."""
    head = text[:2000]
    found = STATUS.search(head) if A_STATUS.search(head) else None
    return int(next(one for one in found.groups() if one)) if found else None


def retry_after_in(text: str) -> int | None:
    """The delay in ms that an error text asks for ("retryDelay":"1s", "try again in 20ms")."""
    head = text[:4000]
    found = DELAY.search(head) if any(map(head.lower().__contains__, DELAY_WORDS)) else None
    if found is None:
        return None
    usual = "ms" if found["ms"] else "s"
    return int(sum(float(number) * _ms(unit.lower() or usual) for number, unit in PART.findall(found["delay"])))


def _ms(unit: str) -> int:
    return TO_MS.get(unit[:3]) or TO_MS.get(unit[:2]) or TO_MS[unit[0]]


def untraced(text: str) -> tuple[str, str, str, str]:
    """What an error text says before Python's traceback, the traceback, and the class and reason that it ends with.

    Text in which no exception follows the frames, such as one that quotes a traceback, stays whole.
    """
    head, mark, frames = text.partition(TRACEBACK)
    end = CHAINED.split(frames)[-1]
    found = RAISED_LINE.search(end) if mark else None
    if found is None:
        return text, "", "", ""
    return head.rstrip(), mark + frames, found["name"], end[found.end() :].removeprefix(":").strip()


def cause_in(stack: str, wrappers: re.Pattern[str]) -> str:
    """The class that a wrapping exception hides; "" if the stack does not show it.

    It is the nearest cause that is not itself a wrapper: in Python's chained tracebacks (which begin with the cause),
    JavaScript's `[cause]`, `Caused by` in Java and Rust (which end with the cause).
    """
    names = [found[-1] for block in CHAINED.split(stack)[:-1] if (found := RAISED_LINE.findall(block))]
    names += [found["name"] for found in OTHER_CAUSE.finditer(stack)][::-1]
    return next((name for name in reversed(names) if not wrappers.fullmatch(name)), "")
