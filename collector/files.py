"""Files that must outlast a crash, and files that are replaced whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

NEW_MODE = 0o600  # it may hold a token


class Changed(OSError):
    """A file is no longer what it was when it was read."""


def synchronise(path: Path) -> None:
    """Synchronises a file, or the entries of a folder, to disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write(path: Path, text: str, before: str | None = None) -> None:
    """Replaces a file by this text, with its mode, or makes it. A link stays one: what it points to is replaced.

    Raises Changed if it is no longer `before`, which it was when it was read, and OSError if it cannot be written.
    """
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else NEW_MODE
        Path(part).chmod(mode)
        if before is not None and read(target) != before:
            raise Changed(f"{path}: was changed in the meantime, so nothing was written: run it again")
        Path(part).replace(target)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise


def read(path: Path) -> str:
    """The text of a file as it is; empty if there is none. Raises OSError if it is not UTF-8."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise OSError(f"{path}: is not UTF-8 (byte {error.start}): save it as UTF-8, then run it again") from None


def is_writable(path: Path) -> bool:
    """Whether a file is not marked read-only: replacing it would not ask."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return True
    return bool(mode & 0o222) and os.access(path, os.W_OK)
