"""What a tool acted on: from its arguments, else from the path, URL or name that the error message quotes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from operator import itemgetter

TARGET_CHARS = 200  # enough to recognise a command or a query again

# Argument names in the order in which they say what a call was about; compared without case, `_` and `-`.
TARGET_KEYS = (
    *("filepath", "absolutepath", "path", "targetfile", "relativeworkspacepath", "notebookpath", "filename", "file"),
    *("paths", "dirpath", "directory", "dir", "folder", "url", "uri", "resourceuri", "resource", "command", "cmd"),
    *("script", "pattern", "query", "regex", "branch", "repo", "repository", "sessionid", "processid", "id", "name"),
)

LONGEST_KEY = 40

# Most particular first: a URL that is not there for reading up, quoted and bare paths, file names, what is "not found".
EXTENSION = r"\.[A-Za-z]\w{0,9}"
MISSING = r"(?:not found|does not exist|(?:no such|unknown) (?!tool|function)\w{1,20}|cannot find)"
TARGETS = (
    re.compile(r"(?<!visit )(?<!see )(?<!docs: )\b([a-z][a-z0-9+.-]{1,20}://[^\s'\"`<>)\]}]{1,400})", re.IGNORECASE),
    re.compile(r"['\"`]((?:[A-Za-z]:[\\/]|~?/|\.{1,2}/)[^'\"`\n]{1,300})['\"`]"),
    re.compile(rf"['\"`]([^'\"`\s]{{1,300}}{EXTENSION})['\"`]"),
    re.compile(r"(?<![\w/.~<-])((?:[A-Za-z]:\\|~/|/(?!/)|\.{1,2}/)[\w.@%+=~\\/-]{2,300})"),
    re.compile(rf"(?<![\w/.-])((?:[\w.@-]{{1,80}}/){{1,20}}[\w.@-]{{1,120}}{EXTENSION})\b"),
    re.compile(rf"(?<![\w/.-])([\w-]{{1,80}}{EXTENSION})(?=[:\s,)]|\.?$)"),
    re.compile(rf"{MISSING}:?\s+['\"`]?(?!in\b|at\b|for\b)([\w./:@#-]{{2,200}})", re.IGNORECASE),
)
TRAILING = ".,;:!?)]}'\"`"


def target_from_params(params: Mapping[str, object]) -> str | None:
    """The argument that names what the call acted on, at most TARGET_CHARS long; None where none does."""
    found = [(rank, value) for name, value in params.items() if (rank := _rank(name)) is not None]
    if len(found) > 1:
        found.sort(key=itemgetter(0))
    for rank, value in found:
        if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
            value = " ".join(value) if TARGET_KEYS[rank] in ("command", "cmd") else value[0]
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if isinstance(value, str) and value.strip():
            return value.strip()[:TARGET_CHARS]
    return None


def _rank(name: object) -> int | None:
    """The place of an argument's name in TARGET_KEYS."""
    return _rank_of(name) if isinstance(name, str) and len(name) <= LONGEST_KEY else None


@lru_cache(maxsize=4096)
def _rank_of(name: str) -> int | None:
    bare = name.replace("_", "").replace("-", "").lower()
    return TARGET_KEYS.index(bare) if bare in TARGET_KEYS else None


def extract_target(message: str) -> str | None:
    """The path, URL or resource name in an error message, quoted or bare; None where there is none."""
    text = message[:4096]
    for pattern in TARGETS:
        found = pattern.search(text)
        if found:
            return found[1].rstrip(TRAILING)[:TARGET_CHARS] or None
    return None
