"""Outside text on a terminal: what would steer it is shown instead of sent."""

from __future__ import annotations

from typing import TextIO
from unicodedata import category

UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")  # of Unicode: control, format, surrogates, separators of lines


def visible(text: str) -> str:
    """The text with its control characters, and those that turn its direction, as escapes; line breaks stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(one if one == "\n" or category(one) not in UNSEEN else ascii(one)[1:-1] for one in text)


def say(told: object = "", *, file: TextIO | None = None) -> None:
    """Prints what people read, as `visible` shows it, on standard output or `file`: every command does so here."""
    print(visible(str(told)), file=file, flush=True)
