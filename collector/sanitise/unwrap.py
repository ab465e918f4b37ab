"""Decodes text in which a secret can hide: undoes escapes, joins split lines, opens base64.

A secret can hide behind JSON escapes, percent signs, HTML entities, zero-width characters or a line break. `Unwrapped`
is the decoded text with a mapping to the original, so that a span found in it is cut from the original.
"""

from __future__ import annotations

import base64
import binascii
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator

_ESCAPE = re.compile(
    rb"%[2-7][0-9A-Fa-f]|%0[aAdD]|\\(?:u[0-9a-fA-F]{4}|x[0-7][0-9a-fA-F]|[\"'/nrt\\])"
    rb"|&(?:quot|amp|apos|lt|gt|#[0-9]{2,3}|#x[0-9a-fA-F]{2});|\x1b\[[0-9;]{0,12}m"
    rb"|\xe2\x80[\x8b-\x8f]|\xe2\x81\xa0|\xef\xbb\xbf|\xc2\xad"
)
_ENTITIES = {b"quot": b'"', b"amp": b"&", b"apos": b"'", b"lt": b"<", b"gt": b">"}
_BROKEN = re.compile(
    rb"(?<=[A-Za-z0-9_+/=.-])"
    rb"(?:=?\\{0,2}\r?\n[ \t>|+*#]*|[\"'][ \t]*(?:\+|\.\.?|&|\\?\r?\n)?[ \t\r\n]*[\"'])"
    rb"(?=[A-Za-z0-9_+/=.-])"
)
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{16,5600}={0,2}")
_TEXT = re.compile(rb"[\t\n\r\x20-\x7e\x80-\xff]*")


class Unwrapped:
    """A decoded text. `original(start, end)` maps a span of `text` to the original."""

    __slots__ = ("_here", "_there", "joins", "text")

    def __init__(self, source: bytes, pieces: Iterable[tuple[int, int, bytes]]) -> None:
        parts: list[bytes] = []
        self._here, self._there, self.joins = [0], [0], list[int]()
        done = at = 0
        for start, end, becomes in pieces:
            parts += (source[done:start], becomes)
            at += start - done
            self.joins.append(at)
            if becomes:
                self._here.append(at)
                self._there.append(start)
                at += len(becomes)
            self._here.append(at)
            self._there.append(end)
            done = end
        parts.append(source[done:])
        self.text = b"".join(parts)

    def original(self, start: int, end: int) -> tuple[int, int]:
        """The corresponding span of the text from which this view was made."""
        first = bisect_right(self._here, start) - 1
        last = bisect_right(self._here, end - 1) - 1
        whole_piece = last + 1 < len(self._here) and self._here[last + 1] == end == self._here[last] + 1
        stop = self._there[last + 1] if whole_piece else self._there[last] + end - self._here[last]
        return self._there[first] + start - self._here[first], stop


def decoded(text: bytes) -> Unwrapped | None:
    """The text with one level of escapes undone; None without escapes."""
    pieces = [(m.start(), m.end(), _plain(m[0])) for m in _ESCAPE.finditer(text)]
    return Unwrapped(text, pieces) if pieces else None


def joined(text: bytes) -> Unwrapped | None:
    """The text with lines and string literals joined if both sides look like parts of a token; None if none do."""
    pieces = [(m.start(), m.end(), b"") for m in _BROKEN.finditer(text)]
    return Unwrapped(text, pieces) if pieces else None


def opened(text: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Base64 runs of up to 4 kB that contain text: start, end and the text inside."""
    for m in _BASE64.finditer(text):
        run = m[0].rstrip(b"=").replace(b"-", b"+").replace(b"_", b"/")
        try:
            inside = base64.b64decode(run + b"=" * (-len(run) % 4))
        except (binascii.Error, ValueError):
            continue
        if _TEXT.fullmatch(inside):
            yield m.start(), m.end(), inside


def in_base64(literal: str) -> set[str]:
    """`literal` inside base64, at the three alignments: only the characters that it determines alone."""
    raw = literal.encode()
    found = set()
    for shift in range(3):
        code = base64.b64encode(b"\0" * shift + raw).decode()
        first, last = -(-shift * 8 // 6), (shift + len(raw)) * 8 // 6
        found.add(code[first:last])
    return {code for code in found if len(code) >= 3}


def _plain(escape: bytes) -> bytes:
    lead = escape[:1]
    if lead == b"%":
        return bytes((int(escape[1:], 16),))
    if lead == b"&":
        name = escape[1:-1]
        if name.startswith(b"#"):
            return chr(int(name[2:], 16) if name[1:2] in b"xX" else int(name[1:])).encode()
        return _ENTITIES[name]
    if lead != b"\\":
        return b""
    return _BACKSLASH.get(escape[1:2], _code_point)(escape)


def _code_point(escape: bytes) -> bytes:
    return chr(int(escape[2:], 16)).encode("utf-8", "replace")


_BACKSLASH: dict[bytes, Callable[[bytes], bytes]] = {
    b"n": lambda _: b"\n",
    b"r": lambda _: b"\r",
    b"t": lambda _: b"\t",
    b'"': lambda _: b'"',
    b"'": lambda _: b"'",
    b"/": lambda _: b"/",
    b"\\": lambda _: b"\\",
}
