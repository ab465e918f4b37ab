"""The key that is made beside a store at the first start."""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path

import pytest

from collector.hash_key import hash_key, key_file
from collector.settings import Settings


def test_of_two_that_begin_at_once_both_have_the_whole_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, others = Settings(store=f"duckdb:///{tmp_path / 'm.duckdb'}"), []
    random = secrets.token_bytes

    def meanwhile(size: int) -> bytes:
        monkeypatch.setattr(secrets, "token_bytes", random)
        others.append(hash_key(settings))
        return random(size)

    monkeypatch.setattr(secrets, "token_bytes", meanwhile)
    assert [hash_key(settings)] == others == [hash_key(settings)]
    [file] = tmp_path.iterdir()
    assert (file, file.stat().st_mode & 0o077, len(file.read_bytes())) == (key_file(settings), 0, 32)


def test_a_file_system_without_links_has_a_key_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    settings = Settings(store=f"duckdb:///{tmp_path / 'm.duckdb'}")
    assert hash_key(settings) == hash_key(settings)
    assert [*tmp_path.iterdir()] == [key_file(settings)]
