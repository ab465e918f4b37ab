"""Cached databases of patterns: the same matches as without a cache, whatever is found on the disk."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import hyperscan
import pytest

from collector.patterns import MOST_KEPT, WORTH_KEEPING, database

MANY = tuple(f"secret-{number:03}-[0-9]+".encode() for number in range(WORTH_KEEPING))
TEXT = b"secret-000-1, secret-007-12 and secret-049-4; secret-050-9"


def found(patterns: tuple[bytes, ...] = MANY) -> set[int]:
    """Numbers of the patterns that match TEXT, by a database opened now."""
    hits: set[int] = set()
    made = database(patterns, [hyperscan.HS_FLAG_SINGLEMATCH] * len(patterns), range(len(patterns)))
    made.scan(TEXT, lambda number, *_: hits.add(number))
    return hits


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "misstep"


def only(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def test_a_kept_database_is_read_again_finds_the_same_and_is_for_its_owner_alone(folder: Path) -> None:
    assert found() == {0, 7, 49}
    path = only(folder)
    before = path.stat()
    os.utime(path, (0, 0))
    assert found() == {0, 7, 49}
    after = path.stat()
    assert after.st_ino == before.st_ino, "it was compiled and written again"
    assert after.st_mtime > 0, "it was not read"
    assert stat.S_IMODE(after.st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def swapped(path: Path) -> None:
    """A database of other patterns under the name of this one."""
    found((*MANY[:7], b"nothing", *MANY[8:]))
    (other,) = (each for each in path.parent.iterdir() if each != path)
    path.write_bytes(other.read_bytes())


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "one bit": lambda path: path.write_bytes(path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1])),
    "other": lambda path: path.write_bytes(os.urandom(10_000)),
    "swapped": swapped,
    "others may write": lambda path: path.chmod(0o666),
    "pipe": pipe,
    "link": link,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_file_that_is_not_as_it_was_written_is_written_anew(folder: Path, damage: Callable[[Path], object]) -> None:
    found()
    path = only(folder)
    damage(path)
    assert found() == {0, 7, 49}
    mended = path.stat()
    assert stat.S_ISREG(mended.st_mode)
    assert stat.S_IMODE(mended.st_mode) == 0o600
    assert found() == {0, 7, 49}
    assert path.stat().st_ino == mended.st_ino


def test_where_nothing_can_be_kept_it_is_compiled(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found()
    path = only(folder)
    path.unlink()
    path.mkdir()
    assert found() == {0, 7, 49}
    assert only(folder) == path
    (tmp_path / "file").touch()
    for home in (str(tmp_path / "file"), "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", home)
        assert found() == {0, 7, 49}


def test_another_pattern_flag_or_order_is_another_database_and_a_few_patterns_are_not_kept(folder: Path) -> None:
    assert found((*MANY, b"secret-050-[0-9]")) == {0, 7, 49, 50}
    assert found(MANY[::-1]) == {0, 42, 49}
    database(MANY, [0] * len(MANY), range(len(MANY)))
    database(MANY, [0] * len(MANY), [*range(1, len(MANY)), 0])
    assert len([*folder.iterdir()]) == 4
    assert found(MANY[:8]) == {0, 7}
    assert len([*folder.iterdir()]) == 4


def test_those_not_used_longest_go(folder: Path) -> None:
    folder.mkdir()
    for age in range(MOST_KEPT + 5):
        path = folder / f"old-{age}"
        path.touch()
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
    found()
    kept = {path.name for path in folder.iterdir()}
    assert len(kept) == MOST_KEPT
    assert {f"old-{age}" for age in range(MOST_KEPT - 1)} < kept
