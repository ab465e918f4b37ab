"""What was journalled is there after any kind of end, once; incomplete writes are not."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from collector.batch import Batch
from collector.errors import Unavailable
from collector.journal import journal as module
from collector.journal.journal import HEAD, Journal, pack, unpack
from tests.conftest import RunningCollector, largest_file
from tests.doors import span, traces


def batch(number: int, size: int = 10) -> Batch:
    return Batch(number.to_bytes(16, "big"), number, [{"message": "x" * size, "_keys": [2**64 - 1]}], {}, Counter())


def numbers(journal: Journal, after: int = 0) -> list[int]:
    return [unpack(left.packed).received_ns for left in journal.left(after)]


def filled(path: Path, *sizes: int) -> list[int]:
    """Writes a journal as if the process died; returns the positions of its batches."""
    journal = Journal(path)
    journal.left(0)
    return [position for number, size in enumerate(sizes) for position in journal.append([pack(batch(number, size))])]


def test_a_batch_comes_back_as_it_was() -> None:
    reports: list[Any] = [{"time_ns": 2**62, "cost_usd": 0.1, "team": "t", "_refs": [1, 2], "_twin": {"low": 1}}]
    whole = Batch(
        b"i" * 16, 5, reports,
        {"trace": "session"}, Counter(no_event=2), 3, "mended", 1, 0, 0, Counter(password=1),
        {("source", "service"): "a,b"}, {("source", ""): (None, "tracestate")}, {1: 2**62, 2**64 - 1: 0},
    )  # fmt: skip
    again = unpack(pack(whole))
    assert again == whole
    assert isinstance(again.dropped, Counter)


def test_what_is_stored_is_forgotten_and_the_rest_is_left(tmp_path: Path) -> None:
    positions = filled(tmp_path / "j", 10, 20, 30)
    assert positions == sorted(positions)
    assert numbers(Journal(tmp_path / "j")) == [0, 1, 2]
    assert numbers(Journal(tmp_path / "j"), after=positions[1]) == [2]
    journal = Journal(tmp_path / "j")
    journal.left(positions[1])
    journal.forget(positions[1])
    assert numbers(Journal(tmp_path / "j")) == [0, 1, 2]  # files are emptied, not cut
    journal.forget(positions[2])
    assert numbers(Journal(tmp_path / "j")) == []
    assert journal.append([pack(batch(7))])[0] > positions[2]
    journal.close()
    assert numbers(Journal(tmp_path / "j")) == [7]


def test_a_clean_end_leaves_no_file(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    [position] = journal.append([pack(batch(1))])
    journal.forget(position)
    journal.close()
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_emptied_when_its_latest_batch_is_stored_wherever_it_stands(tmp_path: Path) -> None:
    """Batches were written but not synchronised, so they were refused; a later one was written in their place."""
    positions = filled(tmp_path / "j", 10, 10, 10)
    path = tmp_path / "j.journal.1"
    whole = path.read_bytes()
    one, two = len(whole) // 3, len(whole) // 3 * 2
    path.write_bytes(whole[:one] + whole[two:] + whole[one:two])
    journal = Journal(tmp_path / "j")
    assert [left.position for left in journal.left(0)] == positions
    journal.forget(positions[1])
    assert numbers(Journal(tmp_path / "j"), after=positions[1]) == [2]


@pytest.mark.parametrize("cut", [1, 10, HEAD.size, HEAD.size + 30])
def test_what_was_broken_off_is_not_there(tmp_path: Path, cut: int, capsys: pytest.CaptureFixture[str]) -> None:
    filled(tmp_path / "j", 10, 20, 30)
    path = tmp_path / "j.journal.1"
    os.truncate(path, path.stat().st_size - cut)
    journal = Journal(tmp_path / "j")
    assert numbers(journal) == [0, 1]
    assert "incomplete or damaged" in capsys.readouterr().out
    journal.append([pack(batch(9, 5))])  # in its place
    assert numbers(Journal(tmp_path / "j")) == [0, 1, 9]


def test_a_start_forgets_what_is_stored(tmp_path: Path) -> None:
    positions = filled(tmp_path / "j", 10, 20)
    journal = Journal(tmp_path / "j")
    assert journal.left(positions[-1]) == []
    journal.close()
    assert list(tmp_path.iterdir()) == []


def test_what_comes_after_a_file_was_removed_is_in_a_new_one(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.append([pack(batch(1))])
    (tmp_path / "j.journal.1").unlink()
    journal.append([pack(batch(number)) for number in (2, 3)])
    assert numbers(Journal(tmp_path / "j")) == [2, 3]


def test_no_byte_can_change_unseen(tmp_path: Path) -> None:
    filled(tmp_path / "j", 10, 20, 30)
    path = tmp_path / "j.journal.1"
    whole = path.read_bytes()
    last = len(whole) - len(pack(batch(2, 30))) - HEAD.size
    for place in range(last, len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 64]) + whole[place + 1 :])
        assert numbers(Journal(tmp_path / "j")) == [0, 1]


def test_a_file_that_is_full_waits_until_it_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FULL", 1000)
    journal = Journal(tmp_path / "j")
    first, second = (tmp_path / f"j.journal.{number}" for number in (1, 2))
    early = journal.append([pack(batch(number, 400)) for number in range(3)])[-1]
    late = journal.append([pack(batch(3, 400))])[-1]
    assert first.stat().st_size > 1000
    assert 400 < second.stat().st_size < 800  # one batch
    journal.forget(early)
    assert first.stat().st_size == 0
    latest = journal.append([pack(batch(number, 900)) for number in (4, 5)])[-1]
    assert first.stat().st_size == 0
    journal.append([pack(batch(6))])
    assert first.stat().st_size > 0
    assert numbers(Journal(tmp_path / "j"), after=late) == [4, 5, 6]
    journal.forget(latest)
    assert numbers(Journal(tmp_path / "j")) == [6]


def test_a_disk_that_takes_nothing_is_said_and_costs_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.append([pack(batch(0))])
    with largest_file(0, 200), pytest.raises(Unavailable, match=r"j\.journal\.1 cannot be written: File too large"):
        journal.append([pack(batch(1, 500)), pack(batch(2))])
    with largest_file(0, module.TRIAL), pytest.raises(Unavailable):
        journal.try_to_write()
    journal.try_to_write()
    journal.append([pack(batch(3))])
    assert numbers(Journal(tmp_path / "j")) == [0, 3]


def test_a_collector_that_was_killed_stores_what_it_had_taken(collector: RunningCollector) -> None:
    bodies = [traces(span(number)) for number in range(200)]
    for body in bodies:
        assert collector.post("/v1/traces", body).status_code == 200
    collector.kill()
    collector.restart()
    assert len(collector.events()) == 200
    assert all(collector.post("/v1/traces", body).status_code == 200 for body in bodies[-3:])
    health = collector.get("/api/v1/health")
    assert (health["accepted"], health["stored"], health["duplicate"], health["unaccounted"]) == (203, 200, 3, 0)
    collector.stop()
    assert not list(collector.folder.glob("*.journal*"))
