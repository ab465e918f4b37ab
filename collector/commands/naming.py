"""Errors of the system that name the file that people asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def naming(path: Path, part: Path) -> Iterator[None]:
    """Errors about `part`, or about no file, such as those of a full disk, are about `path`, of which it is a part."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(part)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None
