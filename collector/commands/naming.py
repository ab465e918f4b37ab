"""Gives errors of the operating system the name of the file that the user named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def naming(path: Path, part: Path) -> Iterator[None]:
    """Reports errors about `part`, which is a part of `path`, as errors about `path`.

    So it does with errors without a file, such as those of a full disk.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(part)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None
