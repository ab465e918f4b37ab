"""Finds the path or resource that a text speaks of, as in `No such file or directory: 'src/app.py'`."""

from __future__ import annotations

import re

LONGEST = 4096  # characters that are read

_PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        r"""[Nn]o such file or directory:? ['"`]([^'"`\n]{1,1024})['"`]""",
        r"""['"`]([^'"`\s]{0,1000}[^'"`\s/]\.\w{1,16})['"`]""",  # quoted, with an extension
        r"""['"`]((?:[\w.~-]{0,128}/)[^'"`\s]{1,1000})['"`]""",  # quoted, with a slash
        r"""(?:[Nn]ot found|[Dd]oes not exist|[Nn]o such file or directory): ?"""
        r"""((?:[\w@~-]|[./](?=\S))[^\s'"`,;]{0,1000})""",
        r"""(?:^|[\s(])((?:~|\.{1,2})?/[^\s'"`,;:()]{1,1000})""",  # an absolute or a dotted path
        # relative, with an extension
        r"""(?:^|\s)([\w@-][\w@.-]{0,128}(?:/[\w@.-]{1,128}){1,16}\.\w{1,16})(?=$|[\s,;:.)])""",
    )
)


def path_in(message: str) -> str | None:
    """The first path or resource that the message names, if any."""
    text = message[:LONGEST]
    for pattern in _PATTERNS:
        if found := pattern.search(text):
            return found[1].rstrip(".:")
    return None
