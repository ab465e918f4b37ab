"""Where the named tokens of a store are, and its audit log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from collector.engine.duckdb.open import path_of
from collector.settings import Settings

if TYPE_CHECKING:
    from collector.access.audit import AuditLog
    from collector.access.file import TokenFile


def token_file(settings: Settings) -> TokenFile:
    """The named tokens beside the store of these settings. Raises StoreError."""
    from collector.access.file import TokenFile  # late: most commands need none

    store = path_of(settings.store)
    return TokenFile(Path(f"{store}.tokens") if store else None)


def guarded(settings: Settings) -> frozenset[str]:
    """The rights that named tokens guard. Raises StoreError."""
    return token_file(settings).guarded


def audit_log(settings: Settings, scrub: Callable[[str], str]) -> AuditLog:
    """The audit log beside the store of these settings, whose texts pass `scrub`."""
    from collector.access.audit import AuditLog

    store = path_of(settings.store)
    return AuditLog(Path(f"{store}.audit") if store else None, scrub, settings.audit_retention)
