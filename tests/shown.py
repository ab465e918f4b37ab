"""What the tables of a page show, read from an opened app."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from dashboard.parts import words


@dataclass(frozen=True)
class Shown:
    """One table as a browser gets it."""

    data: dict[str, Any]

    @property
    def columns(self) -> list[str]:
        """Their names, not their headings."""
        return [column["name"] for column in self.data["columns"]]

    @property
    def labels(self) -> dict[str, str]:
        return {column["name"]: column["label"] for column in self.data["columns"]}

    @property
    def links(self) -> list[str]:
        return [row["to"] for row in self.data["rows"]]

    @property
    def foot(self) -> str:
        said: str = self.data["foot"]["said"]
        return said

    def __getitem__(self, name: str) -> list[Any]:
        """The texts of a column, counts as numbers, None where there is no value."""
        place = self.columns.index(name)
        cells = [row["cells"][place] for row in self.data["rows"]]
        texts = [str(cell.get("text", cell.get("title")) if isinstance(cell, dict) else cell) for cell in cells]
        counts = self.data["columns"][place]["kind"] == "number"
        return [None if text == words.NONE else _count(text) if counts else text for text in texts]

    @property
    def rows(self) -> list[dict[str, Any]]:
        values = [self[name] for name in self.columns]
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*values, strict=True)]


def _count(text: str) -> Any:
    bare = text.replace(",", "")
    return int(bare) if bare.isdecimal() else text


def tables(app: Any) -> list[Shown]:
    """The tables of a page in their order, without other components."""
    return [Shown(data) for data in _components(app) if "columns" in data]


def recorder(app: Any) -> dict[str, Any]:
    """What the browser gets of the recorder of a session."""
    [found] = [data for data in _components(app) if "lanes" in data]
    return found


def selected(app: Any) -> str:
    """The place of the selected call: `Call 2 of 3`. The list and the lanes have the same one."""
    said = recorder(app)
    [marked] = [call for call in table(app, "call", "took")["call"] if call.startswith("▸")]
    [drawn] = [mark["title"] for mark in said["marks"] if mark["selected"]]
    place: str = said["place"].partition(", error")[0]
    assert drawn.startswith(f"call {marked.removeprefix('▸ ')}: ")
    assert place.startswith(f"Call {marked.removeprefix('▸ ')} of ")
    return place


def _components(app: Any) -> list[dict[str, Any]]:
    found = app.get("bidi_component")
    return [json.loads(each.proto.json) for each in found if each.proto.json]  # some have nothing to show


def table(app: Any, *columns: str) -> Shown:
    """The one table with these columns."""
    [found] = [each for each in tables(app) if {*columns} <= {*each.columns}]
    return found
