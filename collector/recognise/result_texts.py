"""What the text of a tool's result reads like, where nothing marks the result: a failure, or a call that never ran."""

from __future__ import annotations

import re

from collector.recognise.reasons import refusal_in

HEAD_CHARS = 400

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


def never_ran(text: str) -> bool:
    """Whether it is of a call that never reached a tool."""
    return NEVER_RAN.search(text[:4000]) is not None


def named_tool(text: str) -> str:
    """The tool that a refusal names."""
    found = NAMED.search(text[:HEAD_CHARS])
    return next(name for name in found.groups() if name) if found else ""


def seeming_failure(text: str) -> str:
    """The failure that a result without any mark reads like; "" if it does not."""
    head = text[:HEAD_CHARS]
    if refusal := refusal_in(head.lstrip().partition("\n")[0]):
        return refusal
    return "error" if any(pattern.search(head) for pattern in (NEVER_RAN, REFUSED_TEXT, FAILED_START)) else ""
