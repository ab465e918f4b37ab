"""Reads the tables in `schemas/` and in a user's own folder; all mistakes of a table are reported at once."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any


class TableError(ValueError):
    """A table cannot be used. `mistakes` has row, field and remedy of each mistake."""

    def __init__(self, path: str | Path, mistakes: Iterable[str]) -> None:
        self.path = str(path)
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(f"{self.path}: {mistake}" for mistake in self.mistakes))


def schemas() -> Traversable:
    """The folder of tables that comes with the program."""
    return resources.files("schemas")


def load_toml(path: str | Path | Traversable) -> dict[str, Any]:
    """The parsed file. Raises TableError if it cannot be read or is not TOML."""
    place = Path(path) if isinstance(path, str) else path
    try:
        return tomllib.loads(place.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise TableError(str(path), [f"cannot be read: {error}"]) from None
    except tomllib.TOMLDecodeError as error:
        raise TableError(str(path), [f"is not TOML: {error}"]) from None
