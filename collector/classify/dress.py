"""An error without what those who tell of it put around it: status, exception's name, program, location, hints.

The patterns are `schemas/dress.toml`'s. What is left says something: a status or a name that is all there is stays.
"""

from __future__ import annotations

import re
from typing import Any

from collector.tables import load_toml, schemas

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
LAYERS = 8  # of dress on one error; what has more stays as it is then


def _patterns() -> tuple[re.Pattern[str], re.Pattern[str], tuple[str, ...]]:
    """What is taken from the start, what from the end, and the words without one of which nothing is."""
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
    """The message without its dress."""
    text = ANSI.sub("", message) if "\x1b" in message else message
    for _ in range(LAYERS):
        found = FRONT.match(text)
        if not found:
            break
        text = text[found.end() :]
    if any(word in text for word in END_WORDS):
        text = END.sub("", text) or text
    return text
