"""Mends JSON text that a strict parser refuses: one bad value must not cost the body that it is in."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

LEVELS = 256  # of brackets: MAX_DEPTH attribute values take three each, and Python's parser takes 300
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)  # an unclosed string is one token, to the end


def shallow(text: bytes) -> bytes:
    """The same JSON text with null for every array and object nested beyond LEVELS; unclosed ones stay."""
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


def paired(text: str) -> str:
    """The text with U+FFFD for every lone surrogate; msgspec refuses those."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def readable(text: bytes, constant: Callable[[str], object] | None = None) -> str:
    """The same JSON text without a byte order mark, bad UTF-8, lone surrogates and raw control characters.

    `constant` gives the values of NaN, Infinity and -Infinity; by default they stay. Raises ValueError, RecursionError
    if it is nested too deeply.
    """
    value = json.loads(text.decode("utf-8-sig", "replace"), parse_constant=constant, strict=False)
    return paired(json.dumps(value, ensure_ascii=False))
