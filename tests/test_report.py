"""`misstep report`: a home with months of sessions, told without a collector, a store or a process left behind."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.conftest import misstep
from tests.test_transcripts import SAMPLES

NOW = datetime.now(UTC)


def line(kind: str, session: str, at: datetime, content: list[dict[str, Any]], **more: Any) -> str:
    """A record of Claude Code."""
    message = {"role": kind, "content": content, "id": f"msg_{session}{at.timestamp():.0f}", "model": "claude-sonnet-5"}
    usage = {"usage": {"input_tokens": 900, "output_tokens": 100}} if kind == "assistant" else {}
    record = {
        "type": kind, "sessionId": session, "timestamp": at.isoformat().replace("+00:00", "Z"), "cwd": "/home/ann/shop",
        "uuid": f"{session}-{at.timestamp()}", "version": "2.1.332", "message": message | usage, **more,
    }  # fmt: skip
    return json.dumps(record)


def session(day: int) -> str:
    """One session: pytest is not there, uv run pytest works, and a secret that must not be told."""
    at, name = NOW - timedelta(days=day, hours=1), f"5d1f7c02-8a3e-4c11-9b7d-0a6f2e9c{day:04d}"
    lines = []
    calls = [("pytest -q", "Exit code 127\n/bin/bash: line 1: pytest: command not found"), ("uv run pytest -q", "")]
    for number, (command, failure) in enumerate(calls):
        call_id = f"toolu_{day:02d}{number}"
        asked = {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": command}}
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id, "content": failure or "12 passed"}
        lines.append(line("assistant", name, at + timedelta(seconds=4 * number), [asked]))
        result |= {"is_error": True} if failure else {}
        lines.append(line("user", name, at + timedelta(seconds=4 * number + 2), [result]))
    return "\n".join(lines) + "\n"


def home(folder: Path, days: range) -> Path:
    projects = folder / ".claude" / "projects" / "-home-ann-shop"
    projects.mkdir(parents=True)
    for day in days:
        (projects / f"5d1f7c02-8a3e-4c11-9b7d-0a6f2e9c{day:04d}.jsonl").write_text(session(day))
    return folder


def files(folder: Path) -> list[Path]:
    """All files but compiled patterns, which have nothing of anybody in them."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and ".cache" not in path.parts)


def test_months_of_sessions_become_a_page_with_the_sentence_to_write_down(tmp_path: Path) -> None:
    ann = home(tmp_path / "ann", range(1, 13))
    before = files(tmp_path)
    done = misstep("report", cwd=tmp_path, environ={"HOME": str(ann)})
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0].startswith("24 calls of tools in 12 sessions, ")
    assert said[1] == "12 failed (50.0%); 0 denied, 0 cancelled, 0 without a result"
    assert "1. `pytest` is not installed here. Use `uv run pytest`." in said
    assert any("uv run pytest worked next in 12" in one for one in said)
    assert any(one.strip() == "for CLAUDE.md (claude-code)" for one in said)
    assert any("Claude Code removes its sessions after 30 days" in one for one in said)
    assert files(tmp_path) == before


def test_what_is_older_than_asked_for_is_left_out_and_told(tmp_path: Path) -> None:
    ann = home(tmp_path / "ann", range(1, 13))
    done = misstep("report", "--since", "5d", cwd=tmp_path, environ={"HOME": str(ann)})
    assert done.stdout.startswith("8 calls of tools in 4 sessions, ")
    assert "left out: 16 calls; --since 1y reads more" in done.stdout


def test_an_agent_whose_telemetry_tells_only_of_failures_has_a_rate_here(tmp_path: Path) -> None:
    """Its sessions on disk tell of successes too; what no table takes is read by its form."""
    path = shutil.copytree(SAMPLES / "continue", tmp_path / "ann/.continue") / "sessions"
    state = {"toolCallId": "ok", "status": "done", "toolCall": {"function": {"name": "Read"}}, "output": []}
    history = [{"message": {"role": "assistant"}, "toolCallStates": [state]}]
    (path / "other.json").write_text(json.dumps({"sessionId": "other", "history": history}))
    done = misstep("report", cwd=tmp_path, environ={"HOME": str(tmp_path / "ann")})
    assert "  continue       3 calls in 2 sessions: 2 failed (66.7%)" in done.stdout
    named = tmp_path / "nobody.jsonl"
    forms = [json.loads(one) for one in (SAMPLES.parent / "forms.jsonl").read_text().splitlines()]
    named.write_text("".join(json.dumps(one) + "\n" for one in forms[0]["records"]))
    done = misstep("report", str(named), cwd=tmp_path, environ={"HOME": str(tmp_path)})
    assert "  openai-messages 1 call in 1 session: 1 failed (100.0%)" in done.stdout
    assert "Messages as OpenAI has them: 1 file of no agent that has a table" in done.stdout
    (tmp_path / "empty.json").write_text("{}")
    done = misstep("report", str(tmp_path / "empty.json"), cwd=tmp_path, environ={"HOME": str(tmp_path)})
    assert done.stdout.startswith("No calls in a form that is known were found in ")


def test_a_machine_without_agents_is_told_what_to_do(tmp_path: Path) -> None:
    done = misstep("report", cwd=tmp_path, environ={"HOME": str(tmp_path)})
    assert done.returncode == 0
    assert done.stdout.startswith("No sessions of agents were found on this machine.")


def test_one_session_and_files_that_cannot_be_read(tmp_path: Path) -> None:
    """What failed is named in words, what was not read is counted; a sentence is promised only where one may come."""
    ann = home(tmp_path / "ann", range(1, 2))
    projects = ann / ".claude/projects/-home-ann-shop"
    (projects / "broken.jsonl").write_text("canary\nno json\n")
    (ann / ".local/share/opencode").mkdir(parents=True)
    (ann / ".local/share/opencode/opencode.db").write_bytes(b"SQLite format 3\0" + b"\0" * 84)
    done = misstep("report", cwd=tmp_path, environ={"HOME": str(ann)})
    assert done.returncode == 0, done.stderr
    assert "  Command not found (Bash): 1 time in 1 session; not tried again" in done.stdout
    assert "No sentence to write down yet" in done.stdout
    assert "Claude Code: 2 lines could not be read" in done.stdout
    assert "OpenCode: 1 file could not be read" in done.stdout
    assert "canary" not in done.stdout
