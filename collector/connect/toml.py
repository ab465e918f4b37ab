"""Edits TOML with tomlkit, which keeps comments, order and layout."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import tomlkit
from tomlkit.exceptions import ParseError, TOMLKitError

from collector.connect.document import MISSING, Broken


class Toml:
    """A document of TOML. Raises Broken if it is none."""

    def __init__(self, text: str) -> None:
        try:
            self._root = tomlkit.parse(text)
        except ParseError as error:
            raise Broken(str(error).partition(" at line")[0], error.line) from None
        except (TOMLKitError, RecursionError) as error:
            raise Broken(str(error) or "it is nested too deeply") from None

    @property
    def text(self) -> str:
        """The file as it now is."""
        return tomlkit.dumps(self._root)

    def get(self, path: tuple[str, ...]) -> Any:
        """The value at a path; MISSING if there is none."""
        node: Any = self._root
        for key in path:
            if not isinstance(node, MutableMapping) or key not in node:
                return MISSING
            node = node[key]
        return node.unwrap() if hasattr(node, "unwrap") else node

    def put(self, path: tuple[str, ...], value: Any) -> None:
        """Sets the value at a path, with the tables around it. Raises Broken if something else is in the way."""
        node: Any = self._root
        for number, key in enumerate(path[:-1], 1):
            if key not in node:
                node[key] = tomlkit.table()
            node = node[key]
            if not isinstance(node, MutableMapping):
                raise Broken(f"{'.'.join(path[:number])} is not a table")
        node[path[-1]] = _inline(value)

    def remove(self, path: tuple[str, ...]) -> None:
        """Takes out the value at a path; what was around it stays."""
        node: Any = self._root
        for key in path[:-1]:
            node = node.get(key, {})
        node.pop(path[-1], None)

    def append(self, path: tuple[str, ...], item: Any) -> None:
        """Adds an item to the list at a path, which is made if there is none."""
        present = self.get(path)
        self.put(path, [*([] if present is MISSING else present), item])

    def discard(self, path: tuple[str, ...], item: Any) -> None:
        """Takes one such item out of the list at a path."""
        present = self.get(path)
        if isinstance(present, list) and item in present:
            present.remove(item)
            self.put(path, present)


def _inline(value: Any) -> Any:
    """A value in which maps are written on one line, as exporters' are in every example of theirs."""
    if not isinstance(value, dict):
        return tomlkit.item(value)
    table = tomlkit.inline_table()
    for key, inner in value.items():
        table.append(key, _inline(inner))
    return table
