"""`misstep import` as people run it: what it says, that a second run reads nothing, that everything can be removed."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

import pytest

from collector.commands.imports import looking
from collector.transcripts.tables import load_agents
from tests.conftest import RunningCollector, misstep
from tests.test_transcripts import SAMPLES, answer, claude, lines, use


def test_import_and_forget(collector: RunningCollector, tmp_path: Path) -> None:
    home = tmp_path / "home"
    for agent, folder in (("claude-code", ".claude"), ("codex", ".codex")):
        shutil.copytree(SAMPLES / agent, home / folder)
    canary = "canary-" + "91c2"
    lines(
        home / ".claude/projects/p/T.jsonl",
        claude("user", canary),
        use("toolu_T1", "Write", file_path="a.py", content=canary),
        answer("toolu_T1", canary),
        use("toolu_T2", command="make", second=2),
        answer("toolu_T2", "Exit code 2\nmake: no rule", 3, is_error=True),
    )
    moved = {"HOME": str(home), "XDG_STATE_HOME": str(tmp_path / "state")}
    run = partial(
        misstep,
        cwd=collector.folder,
        environ=moved,
        settings={"COLLECTOR_URL": collector.url, "STORE": f"duckdb:///{collector.store}"},
    )
    asked = run("import")
    assert asked.returncode == 2
    assert "add --yes" in asked.stderr
    assert "no prompts" in asked.stdout
    first = run("import", "--yes")
    assert first.returncode == 0, first.stderr
    assert "4 repeated" in first.stdout
    calls = [event for event in collector.events(limit="1000") if event["operation"] == "tool"]
    assert len({event["call_id"] for event in calls}) == len(calls) == 23
    assert "Nothing new in 7 files." in run("import", "--yes").stdout
    assert canary not in json.dumps(calls)
    run("import", "--yes", "--again")
    assert len([event for event in collector.events(limit="1000") if event["operation"] == "tool"]) == 23
    gone = run("forget", "--provenance", "transcript")
    assert gone.returncode == 0, gone.stderr
    assert "imported events removed" in gone.stdout
    assert collector.events() == []
    run("import", "--yes")
    assert len([event for event in collector.events(limit="1000") if event["operation"] == "tool"]) == 23
    assert canary.encode() not in collector.store.read_bytes()


def test_an_agent_is_named_as_its_telemetry_or_as_one_of_its_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = (".qwen/projects/p/chats/S.jsonl", ".qwen/tmp/0a1b/chats/session-1.json", ".copilot/session-state/S.jsonl")
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("{}")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    agents = load_agents()

    def found(*wanted: str) -> list[str]:
        return sorted(one.path.relative_to(tmp_path).as_posix() for one in looking(wanted, agents)())

    assert found("qwen-code") == sorted(files[:2])
    assert found("qwen-code-json") == [files[1]]
    assert found("copilot") == found("copilot-cli") == [files[2]]
    with pytest.raises(FileNotFoundError, match="did you mean qwen-code"):
        found("qwen-cod")
