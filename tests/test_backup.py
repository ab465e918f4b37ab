"""A copy of a store while it is being written to, and a collector that starts with the copy."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

import duckdb
import httpx
import pytest

from collector.api.backup import Backups
from collector.commands import backup
from collector.engine.duckdb.store import Store
from collector.journal.journal import Journal
from collector.query.noted import NewMark, NewView, add_mark, save_view
from collector.settings import Settings
from tests.conftest import RunningCollector, misstep, wait_until


def failures(first: int, count: int) -> str:
    return json.dumps(
        [
            {"hook_event_name": "PostToolUseFailure", "session_id": f"s-{number % 5}", "tool_name": "Bash",
             "tool_use_id": f"call-{number}", "error": f"No such file {number}", "timestamp": "2026-11-22T00:00:00Z"}
            for number in range(first, first + count)
        ]
    )  # fmt: skip


def test_a_copy_under_writes_is_whole_and_can_be_used(
    start_collector: Callable[..., RunningCollector], tmp_path: Path
) -> None:
    collector = start_collector()
    collector.post("/v1/events", failures(0, 500)).raise_for_status()
    sent, done = 500, threading.Event()

    def send() -> None:
        nonlocal sent
        while not done.is_set() and sent < 20_000:
            collector.post("/v1/events", failures(sent, 20)).raise_for_status()
            sent += 20

    sender = threading.Thread(target=send)
    sender.start()
    settings = {"STORE": f"duckdb:///{collector.store}", "COLLECTOR_URL": collector.url}
    ran = misstep("backup", tmp_path / "copy.duckdb", cwd=tmp_path, settings=settings)
    done.set()
    sender.join()
    assert (ran.returncode, ran.stdout) == (0, f"the store is in {tmp_path / 'copy.duckdb'}\n"), ran.stderr
    assert [path.name for path in tmp_path.glob("copy*")] == ["copy.duckdb"]
    assert [path.name for path in collector.folder.glob("*.backup*")] == []
    assert collector.get("/api/v1/health")["stored"] == sent

    restored = Store.open(f"duckdb:///{tmp_path / 'copy.duckdb'}")
    events, stored = restored.count("events"), restored.accounting()["stored"]
    restored.close()
    assert 500 <= events == stored <= sent

    again = start_collector(STORE=f"duckdb:///{tmp_path / 'copy.duckdb'}")
    assert again.get("/api/v1/health")["events"] == events
    answer = again.post("/v1/events", failures(0, 500))  # the same request is known there too
    assert answer.is_success
    assert again.get("/api/v1/health")["events"] == events


def test_a_copy_of_a_store_that_nobody_has_open(tmp_path: Path) -> None:
    store = Store.open(f"duckdb:///{tmp_path / 'm.duckdb'}")
    store.execute("insert into group_marks (fingerprint, note, changed_ns) values (7, 'x', 0)")
    add_mark(store, NewMark("1.8.0 is out"), str, 0)
    save_view(store, NewView("mine", "errors", "from=-7d"), str, 0)
    store.close()
    folder = tmp_path / "copies"
    folder.mkdir()
    ran = misstep("backup", folder, cwd=tmp_path, settings={"STORE": f"duckdb:///{tmp_path / 'm.duckdb'}"})
    [copy] = folder.iterdir()
    assert ran.returncode == 0, ran.stderr
    restored = Store.open(f"duckdb:///{copy}")
    assert [restored.count(table) for table in ("group_marks", "time_marks", "views")] == [1, 1, 1]
    restored.close()
    ran = misstep("backup", copy, cwd=tmp_path, settings={"STORE": f"duckdb:///{tmp_path / 'm.duckdb'}"})
    assert ran.returncode == 2
    assert f"{copy} is there already" in ran.stderr


def test_who_may_not_ask_gets_no_copy(start_collector: Callable[..., RunningCollector]) -> None:
    collector = start_collector(QUERY_TOKENS="asker")
    url = f"{collector.url}/api/v1/backup"
    assert httpx.post(url, json={}).status_code == 401
    assert httpx.get(f"{url}/file").status_code == 401
    headers = {"authorization": "Bearer asker"}
    assert httpx.get(f"{url}/file", headers=headers).status_code == 409
    assert httpx.post(url, content="{}", headers=headers | {"content-type": "text/plain"}).status_code == 415


def test_what_cannot_be_the_store_that_was_meant_is_not_copied(
    start_collector: Callable[..., RunningCollector], tmp_path: Path
) -> None:
    asked, other = start_collector(), start_collector()
    for store, said in (
        (tmp_path / "missing.duckdb", "there is no store at"),
        (other.store, "is in use by another collector than the one at"),
    ):
        settings = {"STORE": f"duckdb:///{store}", "COLLECTOR_URL": asked.url}
        for command in (("backup", tmp_path / "copy.duckdb"), ("sanitise", "apply")):
            ran = misstep(*command, cwd=tmp_path, settings=settings)
            assert (ran.returncode, said in ran.stderr) == (2, True), ran.stderr
    assert not list(tmp_path.glob("copy*"))


def test_a_copy_does_not_lack_what_a_killed_collector_answered(tmp_path: Path) -> None:
    path = tmp_path / "m.duckdb"
    Store.open(f"duckdb:///{path}").close()
    journal = Journal(path)
    journal.left(0)
    journal.append([b"a batch that is not stored yet"])
    journal.close()
    ran = misstep("backup", tmp_path / "copy.duckdb", cwd=tmp_path, settings={"STORE": f"duckdb:///{path}"})
    assert (ran.returncode, "start the collector once, then try again" in ran.stderr) == (2, True), ran.stderr


@pytest.mark.parametrize("table", ["events (id integer)", "meta (name varchar, value varchar)", "meta (id integer)"])
def test_databases_of_other_programs_are_left_alone(tmp_path: Path, table: str) -> None:
    path = tmp_path / "theirs.duckdb"
    with duckdb.connect(path) as theirs:
        theirs.execute(f"create table {table}")
    for command in (("backup", tmp_path / "copy.duckdb"), ("rebuild",)):
        ran = misstep(*command, cwd=tmp_path, settings={"STORE": f"duckdb:///{path}"})
        assert (ran.returncode, "is no store of Misstep" in ran.stderr) == (2, True), ran.stderr
    with duckdb.connect(path, read_only=True) as theirs:
        assert len(theirs.execute("show tables").fetchall()) == 1


def test_a_copy_for_which_there_is_no_space_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(url: str, part: Path, *_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "m.duckdb"
    path.touch()
    monkeypatch.setattr(backup, "copy_closed", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*/copy.duckdb'"):
        backup.backup(Settings(store=f"duckdb:///{path}"), tmp_path / "copy.duckdb")


SLOW = """
import sys, time
from collector.commands import backup
def slow(settings, part, place):
    part.touch()
    print("begun", flush=True)
    time.sleep(60)
backup._write = slow
from collector.cli.main import main
sys.argv = ["misstep", "backup", sys.argv[1]]
main()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_who_ends_a_backup_finds_no_part_of_it(tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", SLOW, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "begun\n"
        assert [path.suffix for path in tmp_path.iterdir()] == [".part"]
        process.send_signal(number)
        assert process.wait(30) == 128 + number
    assert not [*tmp_path.iterdir()]


def test_two_copies_at_a_time_are_not_mixed_up(start_collector: Callable[..., RunningCollector]) -> None:
    collector = start_collector()
    assert collector.post("/api/v1/backup", "{}").status_code == 202
    assert collector.post("/api/v1/backup", "{}").status_code == 409
    wait_until(lambda: collector.get("/api/v1/backup")["state"] == "done")
    assert collector.post("/api/v1/backup", "{}").status_code == 409  # it would replace what the first may fetch
    assert httpx.get(f"{collector.url}/api/v1/backup/file").is_success
    assert collector.post("/api/v1/backup", "{}").status_code == 202


def test_a_copy_that_was_fetched_does_not_expire(tmp_path: Path) -> None:
    """Its time would end the next copy's."""
    store = Store.open(f"duckdb:///{tmp_path / 'm.duckdb'}")
    backups = Backups(store)
    backups.begin()
    wait_until(lambda: backups.told()["state"] == "done")
    backups.take().close()
    wait_until(lambda: not any(isinstance(one, threading.Timer) for one in threading.enumerate()))
    store.close()


def test_progress_is_told_whenever_a_copy_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.open(f"duckdb:///{tmp_path / 'm.duckdb'}")
    backups = Backups(store)
    backups.begin()
    wait_until(lambda: backups.told()["state"] == "done")
    stat = Path.stat
    fetched: list[IO[bytes]] = []

    def fetching(path: Path, **how: bool) -> os.stat_result:
        found = stat(path, **how)
        if path.suffix == ".backup" and not fetched:
            fetched.append(backups.take())
        return found

    monkeypatch.setattr(Path, "stat", fetching)
    assert backups.told()["bytes"] > 0
    assert backups.told() == {"state": "idle", "bytes": 0, "of": backups.told()["of"]}
    fetched[0].close()
    store.close()


def test_a_copy_that_nobody_fetches_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collector.api.backup.KEPT_S", 0.1)
    store = Store.open(f"duckdb:///{tmp_path / 'm.duckdb'}")
    backups = Backups(store)
    backups.begin()
    wait_until(lambda: backups.told()["state"] == "idle")
    assert not list(tmp_path.glob("*.backup"))
    store.close()
