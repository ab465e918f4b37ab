"""Notices records that no table takes although they speak a convention, by the attributes in `schemas/unread.toml`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from collector.decode.record import Record, Sought, having
from collector.recognise.readers import as_text
from collector.tables import load_toml, schemas

UNREAD = "unread"  # why such a record is dropped


@dataclass(frozen=True, slots=True)
class Sign:
    """One row of the table; no `values`: any text will do."""

    key: str
    values: frozenset[str]
    tells: str

    def shows(self, attributes: Mapping[str, Any]) -> bool:
        """Whether these attributes have it."""
        text = as_text(attributes.get(self.key))
        return text in self.values if self.values else bool(text)


@dataclass(frozen=True, slots=True)
class Signs:
    """All rows, in order, and what to look for."""

    rows: tuple[Sign, ...]
    sought: Sought

    def of(self, attributes: Mapping[str, Any]) -> Sign | None:
        """The first that these attributes have."""
        return next((sign for sign in self.rows if sign.shows(attributes)), None)

    def among(self, records: Sequence[Record]) -> list[Sign]:
        """The first that each of these records of one scope has, of those that have any. Attributes are converted only
        where their names leave it open.
        """
        return [sign for record in having(self.sought, records) if (sign := self.of(record.attributes))]


@cache
def load_unread() -> Signs:
    """The signs of `schemas/unread.toml`."""
    rows = load_toml(schemas().joinpath("unread.toml"))["signs"]
    signs = tuple(Sign(row["key"], frozenset(row.get("values", ())), row["tells"]) for row in rows)
    return Signs(signs, Sought(sign.key for sign in signs))
