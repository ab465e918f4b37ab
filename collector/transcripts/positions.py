"""What was read of each file, so that a second import reads only what is new.

One file for each collector's store: another store knows nothing of what this one holds.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from xxhash import xxh3_64_intdigest

from collector.transcripts.find import Found

HEAD_BYTES = 1 << 10


class Position(msgspec.Struct):
    """How far a file was read. `place` is where nothing waited for a later record, `context` what was known there."""

    size: int
    changed_ns: int
    inode: int
    head: int  # hash of the first bytes
    place: int = 0
    context: dict[str, Any] = {}


class Positions:
    """The positions of one store's imports."""

    def __init__(self, path: Path | None, *, again: bool = False) -> None:
        """Reads the file; without one, or with one that cannot be read, nothing is remembered. `again`: nor is it
        looked at, only written.
        """
        self._path = path
        self._known: dict[str, Position] = {}
        if path is not None and not again:
            try:
                self._known = msgspec.json.decode(path.read_bytes(), type=dict[str, Position])
            except (OSError, msgspec.MsgspecError):
                self._known = {}

    def move(self, path: Path | None) -> None:
        """Where to write what is remembered."""
        self._path = path

    def unchanged(self, found: Found) -> bool:
        """Whether a file is as it was when it was read."""
        known = self._known.get(_name(found))
        return known is not None and (known.size, known.changed_ns) == (found.size, found.changed_ns)

    def start(self, found: Found) -> tuple[int, dict[str, Any]]:
        """Where to go on reading, and what was known there: the beginning, unless the file only grew, and nothing in
        it is numbered.
        """
        known = self._known.get(_name(found))
        if known is None or found.store.form != "jsonl" or found.path.suffix == ".zst" or found.agent.copies:
            return 0, {}
        if found.size < known.size or found.inode != known.inode or known.head != _head(found.path, known.size):
            return 0, {}
        return known.place, known.context

    def note(self, found: Found, place: int, context: Mapping[str, Any]) -> None:
        """Remembers how far a file was read."""
        kept = {name: value for name, value in context.items() if isinstance(value, str | int | bool)}
        position = Position(found.size, found.changed_ns, found.inode, _head(found.path, found.size), place, kept)
        self._known[_name(found)] = position

    def keep(self) -> None:
        """Writes what is remembered, readable for this user alone."""
        if self._path is None:
            return
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = self._path.with_suffix(".part")
        part.write_bytes(msgspec.json.encode(self._known))
        part.chmod(0o600)
        part.replace(self._path)


def place_for(store_id: str, environ: Mapping[str, str], home: Path, platform: str = sys.platform) -> Path:
    """The file for a store."""
    if platform == "win32":
        state = Path(environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif platform == "darwin":
        state = home / "Library" / "Application Support"
    else:
        state = Path(environ.get("XDG_STATE_HOME") or home / ".local" / "state")
    safe = "".join(one if one.isalnum() else "-" for one in store_id)[:100]
    return state / "misstep" / "imported" / f"{safe or 'store'}.json"


def _head(path: Path, size: int) -> int:
    """A hash of the first bytes of a file that had this size."""
    with path.open("rb") as file:
        return xxh3_64_intdigest(file.read(min(size, HEAD_BYTES)))


def _name(found: Found) -> str:
    return f"{found.agent.id} {os.path.realpath(found.path)}"
