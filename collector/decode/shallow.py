"""JSON text without what is nested too deeply to be parsed: one value must not cost the body that it is in."""

from __future__ import annotations

import re

LEVELS = 256  # of brackets: three for each of MAX_DEPTH attribute values, and a parser in Python takes 300
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)


def shallow(text: bytes) -> bytes:
    """The same JSON text with null for every array and object beyond LEVELS; what never closes stays."""
    kept: list[bytes] = []
    done = start = depth = 0
    for token in _TOKEN.finditer(text):
        sign = text[token.start()]
        if sign in b"[{":
            depth += 1
            if depth == LEVELS + 1:
                start = token.start()
        elif sign in b"]}":
            if depth == LEVELS + 1:
                kept += (text[done:start], b"null")
                done = token.end()
            depth -= 1
    return b"".join((*kept, text[done:]))
