"""Compiles patterns into hyperscan databases; large ones are cached on disk, because compiling dominates a first start.

The name of a cached database is a digest of everything that it depends on: patterns, flags, numbers, the library's
version and its CPU features. A file is used only if this user wrote it and it is intact; otherwise the patterns are
compiled again.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import hyperscan

WORTH_KEEPING = 50  # patterns; fewer compile in milliseconds
MOST_KEPT = 24  # databases; a collector uses three, and other tables or versions add their own
_DIGEST = 32


def database(patterns: Sequence[bytes], flags: Sequence[int], numbers: Sequence[int]) -> hyperscan.Database:
    """A block-mode database that reports `numbers`, with a Scratch for one thread. Raises hyperscan.error."""
    folder = _folder() if len(patterns) >= WORTH_KEEPING else None
    if folder is None:
        return _compiled(patterns, flags, numbers)
    binding = hyperscan.__version__  # type: ignore[attr-defined]  # its stubs leave it out
    made_of = (os.uname().machine, binding, _compiled([b"a"], [0], [0]).info())
    name = blake2b(repr((made_of, list(patterns), list(flags), list(numbers))).encode(), digest_size=_DIGEST)
    found = _read(folder / name.hexdigest(), name.digest())
    if found is None:
        found = _compiled(patterns, flags, numbers)
        with suppress(OSError):
            _write(folder / name.hexdigest(), name.digest(), hyperscan.dumpb(found))
    return found


def _compiled(patterns: Sequence[bytes], flags: Sequence[int], numbers: Sequence[int]) -> hyperscan.Database:
    made = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    made.compile(expressions=list(patterns), ids=list(numbers), elements=len(patterns), flags=list(flags))
    return made


def _folder() -> Path | None:
    """The user's cache folder; None if it is unknown."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(home, "misstep") if os.path.isabs(home) else None


def _seal(name: bytes, content: bytes) -> bytes:
    return blake2b(name + content, digest_size=_DIGEST).digest()


def _read(path: Path, name: bytes) -> hyperscan.Database | None:
    """The database in a file, if it is intact and only this user can have written it; otherwise None."""
    try:
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        with open(os.open(path, flags), "rb") as file:  # must not wait for a pipe
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode) or not _is_ours(about):
                return None
            seal, content = file.read(_DIGEST), file.read()
            if seal != _seal(name, content):
                return None
            found = hyperscan.loadb(content, hyperscan.HS_MODE_BLOCK)
            found.scratch = hyperscan.Scratch(found)  # like compiling does; a scan without it would crash
            with suppress(OSError):
                os.utime(file.fileno())  # databases in use must not count as old
            return found
    except (OSError, hyperscan.error):
        return None


def _is_ours(about: os.stat_result) -> bool:
    if not hasattr(os, "geteuid"):  # Windows, where the folder of a user is closed to others
        return True
    return about.st_uid == os.geteuid() and not about.st_mode & 0o077


def _write(path: Path, name: bytes, content: bytes) -> None:
    """Writes the file atomically, readable for its owner only, and removes the least recently used ones."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(dir=path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(_seal(name, content) + content)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise
    by_age = sorted(path.parent.iterdir(), key=lambda each: each.stat().st_mtime)
    for old in by_age[:-MOST_KEPT]:
        old.unlink(missing_ok=True)
