"""Files that must outlast a crash of the machine."""

from __future__ import annotations

import os
from pathlib import Path


def synchronise(path: Path) -> None:
    """Synchronises a file, or the entries of a folder, to disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
