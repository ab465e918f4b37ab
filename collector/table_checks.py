"""Checks of the fields of a table that people write: known names, right types, allowed words."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

# What a field may hold, as a mistake says it.
TEXT = "a text"
TEXTS = "a list of texts"
BOOL = "true or false"
INT = "an integer"
TABLE = "a table"
ROWS = "a list of tables"
TWINS = "a list of a role and columns, or of such lists"
ANY = "anything"


def wrong_fields(table: Mapping[str, Any], allowed: Mapping[str, str], place: str) -> Iterator[str]:
    """Each field that is not known, or does not hold what it may; `place` says where the table is."""
    for field, value in table.items():
        if field not in allowed:
            yield f"{place}{field}: is not known; known are {', '.join(allowed)}"
        elif not holds(value, allowed[field]):
            yield f"{place}{field}: must be {allowed[field]}, not {value!r}"


def missing_fields(table: Mapping[str, Any], needed: Iterable[str], place: str) -> Iterator[str]:
    """Each field that is not there."""
    yield from (f"{place}{field}: is missing" for field in needed if field not in table)


def wrong_words(words: Iterable[Any], allowed: Collection[str], place: str) -> Iterator[str]:
    """Each word that is none of the allowed ones; `place` ends with the field."""
    yield from (f"{place}: {word!r} is not one of {', '.join(allowed)}" for word in words if word not in allowed)


def holds(value: Any, kind: str) -> bool:
    """Whether a value is of a kind."""
    if kind == TEXTS:
        return isinstance(value, list) and all(isinstance(item, str) and item for item in value)
    if kind == ROWS:
        return isinstance(value, list) and all(isinstance(item, dict) for item in value)
    if kind == TWINS:
        return holds(value, TEXTS) or (isinstance(value, list) and all(holds(item, TEXTS) for item in value))
    if kind == INT:
        return type(value) is int
    return kind == ANY or isinstance(value, {TEXT: str, BOOL: bool, TABLE: dict}[kind])
