"""Writes a settings file whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

NEW_MODE = 0o600  # it may hold a token


def write(path: Path, text: str, before: str | None = None) -> None:
    """Replaces a file by this text, with its mode, or makes it. A link stays one: what it points to is replaced.

    Raises OSError if it is no longer `before`, which it was when it was read.
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
            raise OSError(f"{path}: was changed in the meantime, so nothing was written: run it again")
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
