"""The audit log: what is written, what is kept for how long, and what a full disk does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from collector.access.audit import IN_MEMORY, AuditLog, Entry
from collector.times import DAY, MINUTE, SECOND, iso_ns, rfc3339
from tests.conftest import RunningCollector, wait_until

NOON = iso_ns("2026-11-20T12:00:00Z")


class Clock:
    now = NOON

    def __call__(self) -> int:
        return self.now


def whats(log: AuditLog, start_ns: int = 0) -> list[str]:
    return [entry.what for entry in log.entries(start_ns, 2 * NOON)]


def test_entries_go_by_their_own_retention(tmp_path: Path) -> None:
    clock, folder = Clock(), tmp_path / "audit"
    log = AuditLog(folder, str, 2 * DAY / SECOND, clock)
    for day in range(5):
        clock.now = NOON + day * DAY
        log.note(Entry(0, "ann", "add", f"day {day}"))
    (folder / "2026-11-21.part").touch()  # of rewriting, which a crash cut short
    log.forget()
    assert [path.name for path in sorted(folder.iterdir())] == [f"2026-11-{day}.jsonl" for day in (22, 23, 24)]
    assert whats(log) == ["day 4", "day 3", "day 2"]
    clock.now += 1
    assert whats(log) == ["day 4", "day 3"], "to the moment, not to the day"
    assert whats(log, NOON + 4 * DAY) == ["day 4"]
    assert {path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())} == {0o700, 0o600}


def test_files_go_by_time_where_nothing_is_written(start_collector: Callable[..., RunningCollector]) -> None:
    running = start_collector(AUDIT_RETENTION="36h")
    folder = Path(f"{running.store}.audit")
    folder.mkdir(exist_ok=True)
    kept, old = (folder / f"{rfc3339(time.time_ns() - days * DAY)[:10]}.jsonl" for days in (1, 3))
    for path in (kept, old):
        path.touch()
    running.restart()
    wait_until(lambda: not old.exists())
    assert kept.exists()


def test_they_go_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collector.access.audit.FORGET_EVERY_S", 0.0)
    clock, old = Clock(), tmp_path / "2026-11-20.jsonl"
    log = AuditLog(tmp_path, str, DAY / SECOND, clock)
    old.touch()

    async def kept() -> None:
        keeping = asyncio.create_task(log.keep())
        await asyncio.sleep(0.01)
        assert old.exists()
        clock.now += 2 * DAY
        while old.exists():
            await asyncio.sleep(0.001)
        keeping.cancel()

    asyncio.run(kept())


@pytest.mark.parametrize("kept", [True, False])
def test_what_is_read_again_within_a_minute_is_noted_once_and_changes_always(tmp_path: Path, kept: bool) -> None:
    clock = Clock()
    log = AuditLog(tmp_path / "audit" if kept else None, str, DAY / SECOND, clock)
    for who in ("ann", "ann", "bob"):
        log.note(Entry(0, who, "read", "events"), again=False)
    for _ in range(2):
        log.note(Entry(0, "ann", "add", "mark"))
    clock.now += MINUTE
    log.note(Entry(0, "ann", "read", "events"), again=False)
    assert whats(log) == ["events", "mark", "mark", "events", "events"]


def test_texts_are_sanitised_and_cut_and_a_person_keeps_their_address(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit", lambda text: text.replace("hunter2", "***").replace("@", "(at)"), 60, Clock())
    log.note(Entry(0, "ann@example.org", "sql", "POST hunter2", "hunter2" * 1000))
    log.note(Entry(0, "hunter2 x", "sql", "POST"))
    [other, ann] = log.entries(0, 2 * NOON)
    assert (ann.who, ann.what, len(ann.detail), other.who) == ("ann@example.org", "POST ***", 1000, "*** x")


def test_a_line_that_was_cut_off_costs_no_other_and_a_full_disk_no_request(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    log = AuditLog(folder, str, 60, Clock())
    log.note(Entry(0, "ann", "add", "one"))
    [path] = folder.iterdir()
    path.write_bytes(path.read_bytes() + b'{"time_ns": 17')
    log.note(Entry(0, "ann", "add", "two"))
    assert whats(log) == ["two", "one"]
    path.unlink()
    path.mkdir()
    with capture_logs() as said:
        log.note(Entry(0, "ann", "add", "three"))
    assert [line["event"] for line in said] == ["the audit log cannot be written"]


def test_without_a_file_the_newest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collector.access.audit.IN_MEMORY", 3)
    assert IN_MEMORY > 3
    log = AuditLog(None, str, 60, Clock())
    for number in range(5):
        log.note(Entry(0, "ann", "add", str(number)))
    assert whats(log) == ["4", "3", "2"]
