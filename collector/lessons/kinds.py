"""The kinds of lessons, from `schemas/lessons.toml`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from collector.lessons.shapes import Commands
from collector.table_checks import BOOL, INT, ROWS, TEXT, TEXTS, missing_fields, wrong_fields, wrong_words
from collector.tables import TableError, load_toml, schemas

SHAPES = ("command", "path", "parameter", "tool", "server", "host")
NEXT = ("command", "same_command", "path", "same_target", "parameters", "tool", "none")
PLACES = ("project", "path", "permission", "tool", "setting", "model")
FIELDS = {
    "kind": TEXT, "classes": TEXTS, "outcome": TEXT, "of": TEXT, "by_tool": BOOL, "sessions": INT, "message": TEXT,
    "next": TEXT, "needs_next": BOOL, "refused_next": BOOL, "says": TEXT, "alone": TEXT, "place": TEXT, "firm": TEXT,
    "examples": ROWS, "counter": "a list of lists of calls",
}  # fmt: skip
NEEDED = ("kind", "of", "by_tool", "sessions", "next", "says", "alone", "place", "firm", "examples", "counter")


@dataclass(frozen=True, slots=True)
class Kind:
    """One row; what its fields mean is said in the table."""

    kind: str
    classes: frozenset[str]
    outcome: str
    of: str
    by_tool: bool
    sessions: int
    message: tuple[str, ...]
    next: str
    needs_next: bool
    refused_next: bool
    says: str
    alone: str
    place: str
    firm: str


@dataclass(frozen=True, slots=True)
class Lessons:
    """The table: its kinds in order, of which the first that fits a call counts, and what is known of programs."""

    kinds: tuple[Kind, ...]
    commands: Commands

    @property
    def classes(self) -> list[str]:
        """All classes of errors that a lesson can follow from."""
        return sorted({name for kind in self.kinds for name in kind.classes})


@cache
def lessons() -> Lessons:
    """The table that comes with the program. Raises TableError."""
    table = load_toml(schemas().joinpath("lessons.toml"))
    mistakes = [*_mistakes(table["lesson"])]
    if mistakes:
        raise TableError("lessons.toml", mistakes)
    return Lessons(tuple(_kind(row) for row in table["lesson"]), Commands.of(table["commands"]))


def _mistakes(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for number, row in enumerate(rows):
        place = f"lesson[{number}] {row.get('kind', '')}: "
        yield from missing_fields(row, NEEDED, place)
        yield from wrong_fields({name: value for name, value in row.items() if name != "counter"}, FIELDS, place)
        yield from wrong_words([row.get("of")], SHAPES, f"{place}of")
        yield from wrong_words([row.get("next")], NEXT, f"{place}next")
        yield from wrong_words([row.get("place")], PLACES, f"{place}place")


def _kind(row: Mapping[str, Any]) -> Kind:
    return Kind(
        row["kind"],
        frozenset(row.get("classes", ())),
        row.get("outcome", "error"),
        row["of"],
        row["by_tool"],
        row["sessions"],
        tuple(part.strip() for part in row.get("message", "").split(",") if part.strip()),
        row["next"],
        row.get("needs_next", False),
        row.get("refused_next", False),
        row["says"],
        row["alone"],
        row["place"],
        row["firm"],
    )
