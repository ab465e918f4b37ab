"""A number with what it counts, as people read it."""

from __future__ import annotations


def plural(number: int, one: str) -> str:
    """`1 event`, `2 events`, `12,345 events`."""
    return f"{number:,} {one if number == 1 else one + 's'}"
