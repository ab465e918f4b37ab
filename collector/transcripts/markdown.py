"""Reads a conversation that an agent keeps as Markdown: its headings and quoted lines, each with what it stands under.

What was said stands between them, and is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

HEADING = re.compile(r"(#{1,6})[ \t]+(.*)")
LINE_CHARS = 20_000  # of a line that is looked at


def lines(texts: Iterable[bytes]) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Offset, size and record of each heading (`kind` 1 to 6) and quoted line (`kind` ">"), with the `number` of the
    last heading and the `heading` that it stands under.
    """
    place = number = 0
    heading = ""
    for raw in texts:
        text = raw[:LINE_CHARS].decode("utf-8", "replace").lstrip("\ufeff").rstrip()
        if found := HEADING.match(text):
            number, heading = number + 1, found[2]
            yield place, len(raw), {"kind": str(len(found[1])), "text": heading, "number": number}
        elif text.startswith("> "):
            yield place, len(raw), {"kind": ">", "text": text[2:], "number": number, "heading": heading}
        place += len(raw)
