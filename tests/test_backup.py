"""A copy of a store while it is being written to, and a collector that starts with the copy."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import httpx

from collector.store.store import Store
from tests.conftest import RunningCollector, misstep


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
    store.execute("insert into group_marks values (7, 0, 'x', 0)")
    store.close()
    folder = tmp_path / "copies"
    folder.mkdir()
    ran = misstep("backup", folder, cwd=tmp_path, settings={"STORE": f"duckdb:///{tmp_path / 'm.duckdb'}"})
    [copy] = folder.iterdir()
    assert ran.returncode == 0, ran.stderr
    restored = Store.open(f"duckdb:///{copy}")
    assert restored.count("group_marks") == 1
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
