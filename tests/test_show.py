"""`misstep show`: a call that was imported, with what stood around it in the person's own file, masked."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import HTTP, RunningCollector, free_port, misstep
from tests.test_report import home


def at_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has what is started live there; compiled patterns stay where they are."""
    monkeypatch.setenv("XDG_CACHE_HOME", os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")))
    monkeypatch.setenv("HOME", str(home))


def around(collector: RunningCollector, call: str) -> dict[str, Any]:
    """What the API tells of a call's surroundings."""
    told: dict[str, Any] = collector.get(f"/api/v1/events/{event_of(collector, call)}/excerpt")
    return told


def event_of(collector: RunningCollector, call: str) -> str:
    [hit] = [row for row in collector.get("/api/v1/search", q=call)["rows"] if row["kind"] == "call"]
    return str(hit["event_id"])


def test_a_call_is_shown_with_what_stood_around_it(
    start_collector: Callable[..., RunningCollector],
    open_app: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ann = home(tmp_path / "ann", range(1, 2))
    at_home(ann, monkeypatch)
    collector = start_collector()
    [file] = ann.rglob("*.jsonl")
    secret = "sk-" + "ant-api03-" + "Zk3" * 31 + "-AAAAAAAA"
    file.write_text(file.read_text().replace("pytest: command not found", f"pytest: command not found {secret}"))

    def asked(*arguments: object) -> subprocess.CompletedProcess[str]:
        to = {"COLLECTOR_URL": collector.url}
        return misstep(*arguments, cwd=tmp_path, settings=to, environ={"HOME": str(ann)})

    done = asked("import", "claude-code", "--yes", "--to", collector.url)
    assert done.returncode == 0, done.stderr
    collector.kept_up()
    done = asked("show", "toolu_010")
    assert done.returncode == 0, done.stderr
    assert "error_class  CommandNotFoundError" in done.stdout
    [it] = [line for line in done.stdout.splitlines() if line.startswith("→ ")]
    assert "toolu_010" in it
    after = done.stdout.partition(it)[2]
    assert "pytest: command not found" in after
    assert "uv run pytest" in after
    assert secret not in done.stdout
    told = around(collector, "toolu_010")
    assert (told["state"], [row["is_it"] for row in told["rows"]]) == ("read", [True, False, False])
    assert "pytest: command not found" in told["rows"][1]["text"]
    assert secret not in json.dumps(told)
    page = open_app(collector.url, "session", session=file.stem, event=event_of(collector, "toolu_010"))
    assert not page.exception
    assert "pytest: command not found" not in "".join(one.value for one in page.code[1:])  # nobody has asked yet
    page.session_state[f"around-{event_of(collector, 'toolu_010')}"] = True
    page.run()
    assert not page.exception
    shown = [one.value for one in page.code]
    assert [one[:2] for one in shown if one[:2] in ("→ ", "  ")] == ["→ ", "  ", "  "]
    assert any("uv run pytest" in one for one in shown)
    assert secret not in "".join(shown)
    before = around(collector, "toolu_011")["rows"]
    assert [row["is_it"] for row in before] == [False, False, True, False]
    text = file.read_text()
    file.write_text("x" + text)
    assert around(collector, "toolu_010")["state"] == "changed"
    file.unlink()
    assert around(collector, "toolu_010")["state"] == "gone"
    assert "is not there any more" in asked("show", "toolu_010").stdout


def test_a_call_that_nobody_told(shared: RunningCollector, tmp_path: Path) -> None:
    done = misstep("show", "toolu_none", cwd=tmp_path, settings={"COLLECTOR_URL": shared.url})
    assert done.returncode == 2
    assert "no call with the id 'toolu_none' is stored" in done.stderr


def test_no_event_names_a_file_that_is_read(
    start_collector: Callable[..., RunningCollector], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name comes with the event: only files that the agent keeps are compared with it."""
    ann = home(tmp_path / "ann", range(1, 2))
    canary = "canary-" + "5e1d"
    private = ann / "notes.jsonl"
    private.write_text(json.dumps({"type": "user", "text": canary}) + "\n")
    folder = ann / ".claude" / "projects" / "-home-ann-shop"
    (folder / "linked.jsonl").symlink_to(private)
    at_home(ann, monkeypatch)
    collector = start_collector()
    names = [str(private), "~/notes.jsonl", str(folder / "linked.jsonl"), f"{folder}/../../../notes.jsonl",
             "/etc/passwd", "../notes.jsonl", "notes.jsonl", "", "\0", "x" * 9_000]  # fmt: skip
    calls = [
        {
            "source": "transcript", "agent_id": "claude-code", "operation": "tool", "outcome": "ok", "strength": 10,
            "time": "2026-11-20T10:00:00Z", "same": [f"c{place}"], "call_id": f"toolu_x{place}", "tool": "Bash",
            "session": "s", "service": "claude-code", "more": {"transcript.file": name, "transcript.offset": 0},
        }
        for place, name in enumerate(names)
    ]  # fmt: skip
    assert collector.post("/v1/events", json.dumps(calls)).status_code == 200
    collector.kept_up()
    rows = collector.get("/api/v1/events", **{"from": "1970-01-01"})["rows"]
    assert len(rows) == len(names)
    for row in rows:
        told = HTTP.get(f"{collector.url}/api/v1/events/{row['event_id']}/excerpt", timeout=30)
        assert told.json()["state"] in ("gone", "telemetry"), told.text
        assert canary not in told.text
    assert HTTP.get(f"{collector.url}/api/v1/events/7/excerpt", timeout=30).status_code == 404
    assert HTTP.get(f"{collector.url}/api/v1/events/../excerpt", timeout=30).status_code in (400, 404)


def test_a_collector_that_others_reach_reads_no_file(tmp_path: Path) -> None:
    place = f"http://0.0.0.0:{free_port()}"
    collector = RunningCollector(tmp_path, {"QUERY_TOKENS": "right", "INGEST_TOKENS": "left"}, place).start()
    try:
        asked = f"{place}/api/v1/events/7/excerpt"
        assert HTTP.get(asked).status_code == 401
        told = HTTP.get(asked, headers={"Authorization": "Bearer right"})
        assert (told.status_code, "only a collector on loopback reads files" in told.text) == (403, True)
    finally:
        collector.stop()
