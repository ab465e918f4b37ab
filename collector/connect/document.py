"""A settings file as an editable text: what each format can do, and what is said about one that is broken."""

from __future__ import annotations

from typing import Any, Protocol

MISSING: Any = object()  # no value at a path


class Broken(ValueError):
    """A settings file that cannot be edited; `line` is 0 where none is at fault."""

    def __init__(self, why: str, line: int = 0) -> None:
        self.line = line
        super().__init__(why)


class Document(Protocol):
    """A settings file. A path is a list of keys from the outside in. Comments, order and layout of the rest stay."""

    @property
    def text(self) -> str:
        """The file as it now is."""

    def get(self, path: tuple[str, ...]) -> Any:
        """The value at a path; MISSING if there is none."""

    def put(self, path: tuple[str, ...], value: Any) -> None:
        """Sets the value at a path, with the maps around it. Raises Broken if something else is in the way."""

    def remove(self, path: tuple[str, ...]) -> None:
        """Takes out the value at a path; what was around it stays."""

    def append(self, path: tuple[str, ...], item: Any) -> None:
        """Adds an item to the list at a path, which is made if there is none."""

    def discard(self, path: tuple[str, ...], item: Any) -> None:
        """Takes one such item out of the list at a path."""
