"""The key of parameter hashes and of fingerprints in marks: from the settings, else from a file beside the store.

And the sanitiser that makes these marks.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from collector.engine.duckdb.open import make_folder, path_of
from collector.errors import StoreError
from collector.sanitise.redactions import Rule
from collector.sanitise.sanitise import Sanitiser
from collector.settings import Settings


def hash_key(settings: Settings) -> bytes:
    """The key of params_hash: from the settings, else a random one beside the store that only its owner may read."""
    if settings.hash_key:
        return settings.hash_key.encode()[:64]
    path = key_file(settings)
    if path is None:
        return secrets.token_bytes(32)
    make_folder(path)
    if not path.exists():
        _make(path)
    found = path.read_bytes()
    if not 16 <= len(found) <= 64:
        raise StoreError(f"{path} is damaged: it must hold 16 to 64 bytes; remove it to start a new key")
    return found


def sanitiser_of(settings: Settings, rules: Sequence[Rule], key: bytes | None = None) -> Sanitiser:
    """A sanitiser as these settings want it; its marks have fingerprints by `key`, or by that of the settings."""
    marking = (key or hash_key(settings)) if settings.fingerprint_secrets else None
    return Sanitiser(rules, personal=settings.personal, key=marking)


def key_file(settings: Settings) -> Path | None:
    """The file of the key beside the store; None for a store in memory."""
    store = path_of(settings.store)
    return Path(f"{store}.key") if store else None


def _make(path: Path) -> None:
    """A new key in one step: nobody reads half of it, and of two that are made at once the first stays."""
    part = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(32))
        try:
            os.link(part, path)
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            part.replace(path)
    finally:
        part.unlink(missing_ok=True)
