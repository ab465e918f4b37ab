"""Finds what a tool acted on: from its arguments, otherwise a path, URL or name in the error message."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

TARGET_CHARS = 200  # enough to recognise a command or a query again
READ_CHARS = 4096  # searched for secrets before it is cut: half a secret would not be recognised

# Argument names that identify the target, the most specific first; compared without case, `_` and `-`.
TARGET_KEYS = (
    *("filepath", "absolutepath", "path", "targetfile", "relativeworkspacepath", "notebookpath", "filename", "file"),
    *("paths", "dirpath", "directory", "dir", "folder", "url", "uri", "resourceuri", "resource", "command", "cmd"),
    *("script", "pattern", "query", "regex", "branch", "repo", "repository", "sessionid", "processid", "id", "name"),
)

# Argument names for what to run, compared in the same way, and how others end.
COMMAND_KEYS = (
    *("commands", "cmds", "args", "argv", "arguments", "input", "stdin", "chars", "keys", "text", "content", "query"),
    *(
        "source",
        "program",
        "expression",
        "statement",
        "snippet",
        "cell",
        "sql",
        "python",
        "bash",
        "js",
        "javascript",
        "c",
    ),
)
COMMAND_ENDINGS = ("command", "commandline", "cmd", "script", "code")

RANKS = {key: rank for rank, key in enumerate(TARGET_KEYS)}
LONGEST_KEY = 40
MOST_NAMES, REMEMBERED = 16, 2_000  # limited because senders may use random names
_cached: dict[tuple[str, ...], tuple[tuple[str, str], ...]] = {}

# Most specific first: URLs (not of documentation), quoted and bare paths, file names, what is "not found".
EXTENSION = r"\.(?!\w*[a-z][A-Z])[A-Za-z]\w{0,9}"  # not of a class: os.PathLike
MISSING = r"(?:not found|does not exist|(?:no such|unknown) (?!tool|function|error)\w{1,20}|cannot find)"
FILLING = r"(?!(?:in|at|for|or|and|on|to|of|is|was|the|an?|by|with|from|it|you|this|that|any)\b)"
ERRNO = r"(?:no such file or directory|command not found|permission denied|(?:is|not) a directory)"
NO_NAME = r"(?:ENOENT|EACCES|ENOTDIR|EISDIR|\w*error|\w*exception|fatal|fail(?:ed|ure)|warning|tool|open)"
TARGETS = (
    re.compile(
        r"(?<!visit )(?<!visit: )(?<!see )(?<!docs: )\b([a-z][a-z0-9+.-]{1,20}://[^\s'\"`<>)\]}]{1,400})", re.IGNORECASE
    ),
    re.compile(r"['\"`]((?:[A-Za-z]:[\\/]|~?/|\.{1,2}/)[^'\"`\n]{1,300})['\"`]"),
    re.compile(rf"['\"`]([^'\"`\s]{{1,300}}{EXTENSION})['\"`]"),
    re.compile(r"\bE[A-Z]{3,14}: [^\n,']{1,60}, \w{1,20} '([^'\n]{1,300})'"),  # as Node.js writes it
    re.compile(r"\b[Dd]omain ['\"`]?([\w-]{1,80}(?:\.[\w-]{1,80}){1,10})\b"),
    re.compile(r"(?<![\w/.~<-])((?:[A-Za-z]:\\|~/|/(?!/)|\.{1,2}/)[\w.@%+=~\\/-]{2,300})"),
    re.compile(rf"(?<![\w/.-])((?:[\w.@-]{{1,80}}/){{1,20}}[\w.@-]{{1,120}}{EXTENSION})\b"),
    re.compile(rf"(?<![\w/.-])([\w-]{{1,80}}{EXTENSION})(?=[:\s,)]|\.?$)"),
    # As shells and Unix tools write it.
    re.compile(rf"(?:^|: |\n)(?!{NO_NAME}: )([\w.@+-]{{1,120}}): {ERRNO}", re.IGNORECASE),
    re.compile(rf"{MISSING}(?::\s{{0,4}}['\"`]?|\s{{1,4}}['\"`]){FILLING}([\w./:@#-]{{2,200}})", re.IGNORECASE),
    # A bare word after it is a name only if it looks like one.
    re.compile(rf"(?i:{MISSING})\s{{1,4}}{FILLING}(\w{{0,100}}(?:[./:@#_-]\w|\d|[a-z][A-Z])[\w./:@#-]{{0,100}})"),
)
# The file in a patch of Codex or of git; not before, whose name a new file does not have.
PATCHED = re.compile(r"^(?:\*\*\* (?:Add|Update|Delete) File: |\+\+\+ b/)([^\n\t]+)", re.MULTILINE)
# The only argument of a tool, as LangChain tells it.
WHOLE = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]{1,20}://|[A-Za-z]:[\\/]|~?/|\.{1,2}/)[^\s<>\"']{1,400}")
# Who speaks is not what was acted on, and neither is what a message advises to look at.
SPEAKER = re.compile(
    r"^(?:/[\w.+-]{1,40}){0,6}/?(?:(?:ba|da|z|k|c|tc|fi)?sh|busybox|env|sudo|python[\d.]{0,6}|node|perl|ruby)"
    r"(?:\.exe)?: (?:line )?(?:\d{1,6}: )?",
    re.MULTILINE,
)
ADVICE = re.compile(
    r"(?:(?<=[.!?;(])|(?<=[.!?;] )|^) {0,4}(?:please |you can |you may |consider )?"
    r"(?:see|visit|refer to|consult|check|try|did you mean|learn more|for (?:more|details|help)|run|use)\b.{0,400}",
    re.MULTILINE | re.IGNORECASE,
)
TRAILING = ".,;:!?)]}'\"`"


def target_from_params(params: object) -> str | None:
    """The argument that names the target, at most READ_CHARS of it, or else the first file of a patch; of a bare text,
    the URL or path that it is. None if there is none.
    """
    if isinstance(params, str) and WHOLE.fullmatch(bare := params[:READ_CHARS].strip()):
        return bare
    if not isinstance(params, dict):
        return _patched((params,))
    for key, name in _ranked(tuple(params)):
        if value := _as_target(key, params[name]):
            return value[:READ_CHARS]
    return _patched(params.values())


def _as_target(key: str, value: object) -> str:
    """The value of an argument as a target; "" if it is none."""
    if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
        value = " ".join(value) if key in ("command", "cmd") else value[0]
    if type(value) is int:
        return str(value)
    return value.strip() if isinstance(value, str) else ""


def command_in(params: object) -> bool | None:
    """Whether the arguments hold a command or code to run, as a text or as words; None if there are no arguments."""
    if params is None:
        return None
    if isinstance(params, dict):
        return any(_runs(name, value) for name, value in params.items())
    return _said(params) and not str(params).lstrip().startswith("{")  # JSON that is cut off


def _runs(name: object, value: object) -> bool:
    if isinstance(value, dict):
        return command_in(value) is True
    key = str(name)[:LONGEST_KEY].casefold().replace("_", "").replace("-", "")
    return (key in COMMAND_KEYS or key.endswith(COMMAND_ENDINGS)) and _said(value)


def _said(value: object) -> bool:
    words = value if isinstance(value, list) else [value]
    return any(isinstance(word, str) and word.strip() for word in words)


def _patched(values: Iterable[object]) -> str | None:
    for value in values:
        if isinstance(value, str) and (found := PATCHED.search(value[:READ_CHARS])):
            return found[1].strip()
    return None


def _ranked(names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The argument names that identify a target, the most specific first, each with its key in TARGET_KEYS. Cached,
    because calls of a tool have the same arguments.
    """
    found = _cached.get(names)
    if found is None:
        found = tuple(sorted(_targets(names), key=lambda target: RANKS[target[0]]))
        if len(names) <= MOST_NAMES and all(isinstance(name, str) and len(name) <= LONGEST_KEY for name in names):
            if len(_cached) >= REMEMBERED:
                _cached.clear()
            _cached[names] = found
    return found


def _targets(names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The argument names that identify a target, each behind its key."""
    for name in names:
        if isinstance(name, str) and len(name) <= LONGEST_KEY:
            key = name.replace("_", "").replace("-", "").lower()
            if key in RANKS:
                yield key, name


def extract_target(message: str) -> str | None:
    """The path, URL or resource name in an error message, quoted or bare; None if there is none."""
    text = ADVICE.sub("", SPEAKER.sub("", message[:READ_CHARS]))
    for pattern in TARGETS:
        found = pattern.search(text)
        if found:
            return found[1].rstrip(TRAILING)[:TARGET_CHARS] or None
    return None
