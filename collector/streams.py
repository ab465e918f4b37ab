"""The standard streams of a process: all three are there, whatever its caller closed, and take any text."""

from __future__ import annotations

import io
import os
import sys

NAMES = ("stdin", "stdout", "stderr")


def open_streams() -> None:
    """Opens /dev/null for those that are closed, else a store would get their numbers; and lets standard output show
    what its encoding lacks as escapes.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) < len(NAMES):
        os.set_inheritable(number, True)
        stream = open(number, "w" if number else "r", closefd=False)  # noqa: SIM115 - for as long as the process lives
        setattr(sys, NAMES[number], stream)
    os.close(number)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def in_utf8() -> None:
    """Lets standard input and output be UTF-8 whatever the locale, as JSON lines are."""
    sys.stdin.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
