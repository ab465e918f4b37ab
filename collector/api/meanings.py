"""What the addresses of the API and the columns of their answers mean, in sentences, from `schemas/api.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collector.query.filters import BY_NAME
from collector.tables import load_toml, schemas

Meanings = Mapping[str, str]

MEANINGS: Mapping[str, Meanings] = load_toml(schemas() / "api.toml")  # by method and path
EVERYWHERE: Meanings = {**{name: dimension.text for name, dimension in BY_NAME.items()}, **MEANINGS["columns"]}
NOT_COLUMNS = ("about", "like")


def about(name: str) -> str:
    """What an address does, beyond its summary; empty if there is nothing to add."""
    return MEANINGS.get(name, {}).get("about", "").strip()


def listed(name: str) -> Meanings:
    """The columns whose meaning is said for this address alone; those of an address that it is like included."""
    own = MEANINGS.get(name, {})
    base = listed(own["like"]) if "like" in own else {}
    return {**base, **{column: text for column, text in own.items() if column not in NOT_COLUMNS}}


def columns(name: str, answer: Any) -> dict[str, str]:
    """Each column of an answer such as this one, with its meaning; an unknown one has an empty text."""
    meanings = {**EVERYWHERE, **listed(name)}
    return {column: meanings.get(column, "") for column in row_of(name, answer)}


def row_of(name: str, answer: Any) -> Mapping[str, Any]:
    """The part of an answer whose columns are explained: the first row of a list, else the whole answer."""
    if not isinstance(answer, Mapping):
        return {}
    rows = answer.get("rows")
    if isinstance(rows, list) and "rows" not in listed(name):
        return rows[0] if rows else {}
    return answer
