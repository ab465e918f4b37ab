"""Checks of the fields of a table that people write: known names, right types, allowed words."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, TypeVar

# What a field may hold, as a mistake says it.
TEXT = "a text"
TEXTS = "a list of texts"
BOOL = "true or false"
INT = "an integer"
TABLE = "a table"
ROWS = "a list of tables"
TWINS = "a list of a role and columns, or of such lists"
ANY = "anything"

Kind = TypeVar("Kind")


def _list_of(value: Any, holds: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(holds, value))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _are_texts(value: Any) -> bool:
    return _list_of(value, _is_text)


HOLDS: Mapping[str, Callable[[Any], bool]] = {
    TEXT: lambda value: isinstance(value, str),
    BOOL: lambda value: isinstance(value, bool),
    TABLE: lambda value: isinstance(value, dict),
    TEXTS: _are_texts,
    ROWS: lambda value: _list_of(value, lambda row: isinstance(row, dict)),
    TWINS: lambda value: _are_texts(value) or _list_of(value, _are_texts),
    INT: lambda value: type(value) is int,
    ANY: lambda value: True,
}


def holds(value: Any, kind: str) -> bool:
    """Whether a value is of a kind."""
    return HOLDS[kind](value)


def _misfit(value: Any, kind: Any) -> str:
    return "" if holds(value, kind) else f"must be {kind}, not {value!r}"


def wrong_fields(
    table: Mapping[str, Any], allowed: Mapping[str, Kind], place: str, misfit: Callable[[Any, Kind], str] = _misfit
) -> Iterator[str]:
    """Each field that is unknown or has a value that is not allowed; `place` says where the table is.

    `misfit` says why a value is not of a kind; "" if it is.
    """
    for field, value in table.items():
        if field not in allowed:
            yield f"{place}{field}: is not known; known are {', '.join(allowed)}"
        elif why := misfit(value, allowed[field]):
            yield f"{place}{field}: {why}"


def missing_fields(table: Mapping[str, Any], needed: Iterable[str], place: str) -> Iterator[str]:
    """Each field that is not there."""
    yield from (f"{place}{field}: is missing" for field in needed if field not in table)


def wrong_words(words: Iterable[Any], allowed: Collection[str], place: str) -> Iterator[str]:
    """Each word that is none of the allowed ones; `place` ends with the field."""
    yield from (f"{place}: {word!r} is not one of {', '.join(allowed)}" for word in words if word not in allowed)
