"""Files of agents that no table is for: read by the form of their messages; what has no calls is of nobody."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collector.transcripts.find import find_in
from collector.transcripts.kinds import by_content
from collector.transcripts.positions import Positions
from collector.transcripts.read import Readings
from tests.test_transcripts import AGENTS, SAMPLES, lines, received

FORMS = [json.loads(line) for line in (SAMPLES.parent / "forms.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("given", FORMS, ids=[one["file"] for one in FORMS])
def test_messages_of_an_unknown_agent_are_read_by_their_form(tmp_path: Path, given: dict[str, Any]) -> None:
    form, records = given["form"], given["records"]
    path = tmp_path / "nobody" / given["file"]
    if path.suffix == ".jsonl":
        lines(path, *records)
    else:
        path.parent.mkdir()
        path.write_text(json.dumps(records))
    [found] = by_content(find_in(AGENTS.values(), path))
    assert found.agent.id == form
    [call] = received(list(Readings([found], Positions(None)).calls(found)))
    assert (call["outcome"], call["error_class"]) == ("error", "CommandNotFoundError")
    assert call["call_id"] == "call_a1b2c3d4e5f60718293a"
    assert call["session"] == ("S" if '"S"' in json.dumps(records) else path.stem)
    in_folder = by_content(find_in(AGENTS.values(), tmp_path))
    assert [one.agent.id for one in in_folder] == ([form] if path.suffix == ".jsonl" else [])


@pytest.mark.parametrize(
    "records",
    [
        [{"level": "info", "msg": "started"}, {"level": "error", "msg": "Error: no tool_calls"}],
        [{"role": "user", "content": "tool_use"}, {"role": "assistant", "content": "I shall"}],
        {"name": "package", "dependencies": {"a": "1"}},
        {"messages": "none"},
        [],
    ],
)
def test_what_has_no_calls_is_of_no_agent(tmp_path: Path, records: Any) -> None:
    text = json.dumps(records)
    (tmp_path / "a.json").write_text(text)
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, records)) if isinstance(records, list) else text)
    assert not [one for name in ("a.json", "b.jsonl") for one in by_content(find_in(AGENTS.values(), tmp_path / name))]


@pytest.mark.parametrize(
    "file", [".kimi/sessions/a/b/context.jsonl", ".claude/log.jsonl", "x/agent-transcripts/S/S.jsonl"]
)
def test_what_repeats_an_agents_own_sessions_is_not_read_again(tmp_path: Path, file: str) -> None:
    """Beside its sessions, an agent keeps messages as its API has them; a file that is named is read all the same."""
    [records] = [one["records"] for one in FORMS if one["file"] == "f.jsonl"]
    path = lines(tmp_path / file, *records)
    assert by_content(find_in(AGENTS.values(), tmp_path)) == []
    assert [one.agent.id for one in by_content(find_in(AGENTS.values(), path))] == ["anthropic-messages"]
