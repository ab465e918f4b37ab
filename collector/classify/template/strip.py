"""Removes what surrounds an error in a message: status, name of the exception, program, location, hints.

The patterns are in `schemas/dress.toml`. Something significant always stays: a message that is only a status or a name
is left alone.
"""

from __future__ import annotations

import re
from typing import Any

from collector.tables import load_toml, schemas

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
LAYERS = 8  # removed from one error at most


def _patterns() -> tuple[re.Pattern[str], re.Pattern[str], tuple[str, ...]]:
    """The pattern removed from the start, the one removed from the end, and words of which the latter needs one."""
    table: dict[str, Any] = load_toml(schemas() / "dress.toml")

    def one_of(rows: list[dict[str, Any]]) -> str:
        text = "|".join(row["pattern"] for row in rows)
        for part, pattern in table["parts"].items():
            text = text.replace(f"{{{part}}}", pattern)
        return text

    front, end = re.compile(rf"\s*(?:{one_of(table['front'])})"), re.compile(rf"(?:{one_of(table['end'])})(?s:.*)")
    return front, end, tuple(word for row in table["end"] for word in row["words"])


FRONT, END, END_WORDS = _patterns()


def undressed(message: str) -> str:
    """The message without what surrounds the error."""
    text = ANSI.sub("", message) if "\x1b" in message else message
    for _ in range(LAYERS):
        found = FRONT.match(text)
        if not found:
            break
        text = text[found.end() :]
    if any(map(text.__contains__, END_WORDS)):
        text = END.sub("", text) or text
    return text
