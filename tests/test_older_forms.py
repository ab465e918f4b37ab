"""Forms in which agents kept their sessions before, and exports that are tables: each call once, with its outcome."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from collector.transcripts.find import find, find_in
from collector.transcripts.kinds import by_content
from collector.transcripts.positions import Positions
from collector.transcripts.read import Readings
from tests.test_transcripts import AGENTS, lines, read, received

Call = tuple[Any, ...]


def told(folder: Path, agent: str) -> list[Call]:
    """Session, tool, outcome and class of each call."""
    sent, _ = read(folder, agent)
    return [
        (one.get("session"), one.get("tool"), one["outcome"], one.get("error_class"))
        for one in received(sent)
        if one["operation"] == "tool"
    ]


def document(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


RUNS = (
    {"id": "r1", "run_type": "tool", "name": "read_file", "status": "error", "trace_id": "t1",
     "inputs": '{"path": "a"}', "error": "FileNotFoundError(2, 'No such file or directory')", "outputs": None,
     "tags": "canary"},
    {"id": "r2", "run_type": "tool", "name": "sql", "status": "success", "trace_id": "t1", "inputs": "{}",
     "error": None, "tags": "",
     "outputs": '{"output": {"status": "error", "tool_call_id": "c2", "content": "Error: timed out"}}'},
    {"id": "r3", "run_type": "chain", "name": "agent", "status": "success", "trace_id": "t1", "inputs": "{}",
     "error": None, "outputs": "{}", "tags": ""},
)  # fmt: skip


def test_an_export_as_parquet(tmp_path: Path) -> None:
    rows = json.dumps([{**one, "start_time": "2026-10-03T08:00:00", "end_time": "2026-10-03T08:00:01"} for one in RUNS])
    (tmp_path / "all.json").write_text(rows)
    written = tmp_path / "runs [1].parquet"
    query = (
        f"copy (from read_json('{tmp_path}/all.json', columns = {{id: 'varchar', run_type: 'varchar', name: 'varchar'"
    )
    query += ", status: 'varchar', trace_id: 'varchar', inputs: 'varchar', outputs: 'varchar', error: 'varchar'"
    duckdb.sql(query + f", tags: 'varchar', start_time: 'timestamp', end_time: 'timestamp'}})) to '{written}'")
    assert told(written, "langsmith") == [
        ("t1", "read_file", "error", "FileNotFoundError"),
        ("t1", "sql", "error", "ToolTimeoutError"),
    ]
    sent, _ = read(written, "langsmith")
    assert {one["time"] for one in sent} == {1_791_014_401_000_000_000}
    assert "canary" not in json.dumps(sent)


def test_an_export_as_csv(tmp_path: Path) -> None:
    (tmp_path / "observations.csv").write_text(
        "id,type,name,level,statusMessage,sessionId,endTime,userId\n"
        'o1,TOOL,read_file,ERROR,"FileNotFoundError: a, b",S,2026-10-03T08:00:01Z,canary\n'
        "o2,TOOL,read_file,DEFAULT,,S,2026-10-03T08:00:02Z,canary\n"
    )
    assert told(tmp_path, "langfuse") == [
        ("S", "read_file", "error", "FileNotFoundError"),
        ("S", "read_file", "ok", None),
    ]
    assert "canary" not in json.dumps(read(tmp_path, "langfuse")[0])


def test_opencode_before_its_database(tmp_path: Path) -> None:
    storage = tmp_path / ".local/share/opencode/storage"
    about: dict[str, Any] = {"sessionID": "ses_1", "messageID": "msg_1"}
    ran = {"status": "completed", "input": {"command": "pytest"}, "output": "sh: pytest: command not found"}
    ran |= {"metadata": {"exit": 127}, "time": {"end": 1_791_014_401_000}}
    document(storage / "part/msg_1/prt_1.json", {**about, "type": "tool", "callID": "c1", "tool": "bash", "state": ran})
    document(storage / "part/msg_1/prt_2.json", {**about, "type": "text", "text": "canary"})
    document(
        storage / "message/ses_1/msg_1.json", {"id": "msg_1", "sessionID": "ses_1", "role": "assistant", "cost": 1}
    )
    document(storage / "message/ses_1/msg_0.json", {"id": "msg_0", "sessionID": "ses_1", "role": "user"})
    [found] = told(tmp_path, "opencode")
    assert found == ("ses_1", "bash", "error", "CommandNotFoundError")
    sent, count = read(tmp_path, "opencode")
    assert (count.requests, count.told.unknown, "canary" in json.dumps(sent)) == (1, {}, False)


def test_openhands_before_its_first_release_while_it_runs(tmp_path: Path) -> None:
    events = tmp_path / ".openhands/sessions/S/events"
    meta = {"tool_call_id": "c1", "function_name": "execute_bash"}
    for number in range(9):
        document(events / f"{number}.json", {"id": number, "action": "message", "args": {"content": "canary"}})
    asked = {"id": 9, "timestamp": "2026-10-03T08:00:00", "action": "run", "args": {"command": "pytest"}}
    document(events / "9.json", {**asked, "tool_call_metadata": meta})
    positions = Positions(None)
    assert [one["outcome"] for one in read(tmp_path, "openhands", positions)[0]] == ["unknown"]
    said = {"id": 10, "observation": "run", "cause": 9, "content": "sh: pytest: command not found"}
    document(events / "10.json", {**said, "extras": {"metadata": {"exit_code": 127}}})
    os.utime(events, ns=(time.time_ns(), time.time_ns() + 10**9))
    [done] = received(read(tmp_path, "openhands", positions)[0])
    assert (done["session"], done["outcome"], done["error_class"]) == ("S", "error", "CommandNotFoundError")


SESSION = "0b9f5c1a-1111-4222-8333-444455556666"
PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-canary\n+canary\n*** End Patch"


def asked(name: str, call: str, arguments: Any) -> dict[str, Any]:
    return {"type": "function_call", "name": name, "call_id": call, "arguments": json.dumps(arguments)}


def gave(call: str, output: str, code: int | None = None) -> dict[str, Any]:
    whole = output if code is None else json.dumps({"output": output, "metadata": {"exit_code": code}})
    return {"type": "function_call_output", "call_id": call, "output": whole}


CODEX = (
    asked("shell", "c1", {"command": ["bash", "-lc", "pytest -q"]}),
    gave("c1", "bash: line 1: pytest: command not found\n", 127),
    asked("shell", "c2", {"command": ["apply_patch", PATCH]}),
    gave("c2", "apply_patch verification failed: Failed to find expected lines in a.py:\ncanary", 1),
    asked("shell", "c3", {"command": ["git", "push"]}),
    gave("c3", "exec command rejected by user"),
    asked("shell", "c4", {"command": ["ls"]}),
    gave("c4", "a.py\n", 0),
)
CODEX_CALLS = [
    (SESSION, "shell", "error", "CommandNotFoundError"),
    (SESSION, "shell", "error", "ContentNotFoundError"),
    (SESSION, "shell", "denied", "PermissionDeniedError"),
    (SESSION, "shell", "ok", None),
]


def listed(call: str, name: str, kind: str, log: str) -> dict[str, Any]:
    return {"type": "tool_call_completed", "timestamp": "2025-10-08T21:10:21.000Z", "callId": call, "name": name,
            "arguments": {"command": "x"}, "result": {"type": kind, "log": log}}  # fmt: skip


SHELL = "Command: make\nDirectory: (root)\nOutput: no rule\nError: (none)\nExit Code: 2\nSignal: (none)"
DOCUMENTS: dict[str, tuple[str, Any]] = {
    "codex": (
        "sessions/rollout-2025-05-01-0b9f.json",
        {"session": {"id": SESSION, "timestamp": "2025-05-01T10:00:00.000Z"}, "items": CODEX},
    ),
    "copilot-cli": (
        f"history-session-state/session_{SESSION}_1759957816398.json",
        {
            "sessionId": SESSION,
            "chatMessages": [{"role": "user", "content": "canary"}],
            "timeline": [
                {"type": "user", "text": "canary"},
                listed("c1", "bash", "success", "bash: pytest: command not found\n<exited with exit code 127>"),
                listed("c2", "bash", "rejected", "The user rejected this tool call."),
                listed("c3", "str_replace_editor", "success", "canary"),
            ],
        },
    ),
    "qwen-code-json": (
        "tmp/0a1b/chats/session-2025-10-01T09-00-ccddeeff.json",
        {
            "sessionId": SESSION,
            "messages": [
                {"type": "user", "content": "canary"},
                {
                    "type": "qwen",
                    "toolCalls": [
                        {
                            "id": "c1",
                            "name": "run_shell_command",
                            "args": {"command": "make"},
                            "status": "success",
                            "result": [{"functionResponse": {"response": {"output": SHELL}}}],
                        }
                    ],
                },
            ],
        },
    ),
}


@pytest.mark.parametrize(
    ("agent", "calls"),
    [
        ("codex", CODEX_CALLS),
        (
            "copilot-cli",
            [
                (SESSION, "bash", "error", "CommandNotFoundError"),
                (SESSION, "bash", "denied", "PermissionDeniedError"),
                (SESSION, "str_replace_editor", "ok", None),
            ],
        ),
        ("qwen-code-json", [(SESSION, "run_shell_command", "error", "CommandFailedError")]),
    ],
)
def test_sessions_that_were_documents(tmp_path: Path, agent: str, calls: list[Call]) -> None:
    name, whole = DOCUMENTS[agent]
    document(tmp_path / name, whole)
    assert told(tmp_path, agent) == calls
    sent, count = read(tmp_path, agent)
    assert "canary" not in json.dumps([{**one, "text": ""} for one in sent])
    assert not count.told.unknown


def test_codex_before_its_records_had_a_payload(tmp_path: Path) -> None:
    first = {
        "id": SESSION,
        "timestamp": "2025-06-20T10:00:00.000Z",
        "instructions": "canary",
        "git": {"branch": "main"},
    }
    path = tmp_path / f"sessions/2025/06/20/rollout-2025-06-20T10-00-00-{SESSION}.jsonl"
    lines(path, first, {"record_type": "state"}, {"type": "message", "role": "user", "content": []}, *CODEX)
    assert told(tmp_path, "codex") == CODEX_CALLS
    sent, count = read(tmp_path, "codex")
    assert "canary" not in json.dumps([{**one, "text": ""} for one in sent])
    assert {one["more"]["branch"] for one in sent} == {"main"}
    assert not count.told.unknown


def test_goose_before_its_database(tmp_path: Path) -> None:
    asked = {
        "type": "toolRequest",
        "id": "t1",
        "toolCall": {"status": "success", "value": {"name": "developer__shell"}},
    }
    said = {"status": "success", "value": {"isError": True, "content": [{"type": "text", "text": "sh: x: not found"}]}}
    lines(
        tmp_path / ".local/share/goose/sessions/20250912_143012.jsonl",
        {"working_dir": "/home/dev/parcel", "description": "canary"},
        {"role": "user", "created": 1_791_014_400, "content": [{"type": "text", "text": "canary"}]},
        {"role": "assistant", "created": 1_791_014_401, "content": [asked]},
        {
            "role": "user",
            "created": 1_791_014_402,
            "content": [{"type": "toolResponse", "id": "t1", "toolResult": said}],
        },
    )
    assert told(tmp_path, "goose") == [("20250912_143012", "developer__shell", "error", "CommandNotFoundError")]
    sent, count = read(tmp_path, "goose")
    assert (sent[0]["repository"], sent[0]["time"], count.told.unknown) == ("~/parcel", 1_791_014_402 * 10**9, {})


def test_copilot_chat_since_it_writes_what_the_command_line_writes(tmp_path: Path) -> None:
    started = {"toolCallId": "c1", "toolName": "view", "arguments": {"path": "a"}}
    done = {"toolCallId": "c1", "success": False, "error": {"message": "Path does not exist", "code": "failure"}}
    lines(
        tmp_path / ".config/Code/User/workspaceStorage/ab/GitHub.copilot-chat/transcripts/S.jsonl",
        {"type": "session.start", "data": {"copilotVersion": "1"}, "timestamp": "2026-10-03T08:00:00Z"},
        {"type": "tool.execution_start", "data": started, "timestamp": "2026-10-03T08:00:01Z"},
        {"type": "tool.execution_complete", "data": done, "timestamp": "2026-10-03T08:00:02Z"},
    )
    [found] = find([AGENTS["copilot-chat-cli"]], {}, tmp_path)
    [sent] = Readings([found], Positions(None)).calls(found)
    assert (sent["agent_id"], sent["session"], sent["outcome"]) == ("copilot-chat", "S", "error")


def tagged(*texts: str) -> Iterator[dict[str, Any]]:
    """A task of Roo Code or Cline from before calls had ids."""
    yield {"role": "assistant", "content": [{"type": "text", "text": "<read_file><path>x</path></read_file>"}]}
    yield {"role": "user", "content": [{"type": "text", "text": text} for text in texts], "ts": 1_791_014_400_000}


TAGGED = [
    (("[read_file for 'a'] Result:", "1 | Error reading file: no"), ("read_file", "ok", None)),
    (("[read_file for 'a'] Result:\n1 | x",), ("read_file", "ok", None)),
    (("[read_file for 'a'] Result:", "The tool execution failed with the following error:\n<error>\nFile not found: a"),
     ("read_file", "error", "FileNotFoundError")),
    (("[execute_command for 'x'] Result:\nCommand failed with exit code 127.\nx: command not found",),
     ("execute_command", "error", "CommandNotFoundError")),
    (("[execute_command for 'x'] Result:", "Command execution was not successful, inspect.\nExit code: 1\nOutput:\nno"),
     ("execute_command", "error", "CommandFailedError")),
    (("[execute_command for 'git push'] Result:", "The user denied this operation."),
     ("execute_command", "denied", "PermissionDeniedError")),
    (("[write_to_file for 'a'] Result:", "Missing value for required parameter 'content'. Please retry."),
     ("write_to_file", "error", "MissingParameterError")),
    (("[read_file for '.env'] Result:", "Access to .env is blocked by the .rooignore file settings."),
     ("read_file", "error", "IgnoreViolationError")),
]  # fmt: skip


FOLDERS = [
    ("rooveterinaryinc.roo-cline", "roo-code"),
    ("saoudrizwan.claude-dev", "cline"),
    ("kilocode.kilo-code", "kilo-code-legacy"),
]


@pytest.mark.parametrize(("folder", "agent"), FOLDERS)
@pytest.mark.parametrize(("texts", "wanted"), TAGGED)
def test_calls_in_tags(tmp_path: Path, folder: str, agent: str, texts: tuple[str, ...], wanted: Call) -> None:
    path = tmp_path / f"globalStorage/{folder}/tasks/T/api_conversation_history.json"
    document(path, list(tagged(*texts, "<environment_details>\ncanary")))
    [found] = by_content(find_in(AGENTS.values(), tmp_path))
    assert found.agent.id == agent
    [one] = received(sent := list(Readings([found], Positions(None)).calls(found)))
    assert (one["session"], one["tool"], one["outcome"], one.get("error_class")) == ("T", *wanted)
    assert "canary" not in json.dumps(sent)


@pytest.mark.parametrize(("zone", "hour"), [("Europe/Berlin", 19), ("America/New_York", 1), ("UTC", 21)])
def test_times_without_a_zone_are_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zone: str, hour: int
) -> None:
    (tmp_path / ".aider.chat.history.md").write_text(
        "# aider chat started at 2026-10-03 21:00:00\n\n#### canary\n\n> Applied edit to a.py\n"
    )
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        [sent], _ = read(tmp_path, "aider")
    finally:
        monkeypatch.undo()
        time.tzset()
    assert time.gmtime(sent["time"] // 10**9).tm_hour == hour
    assert sent["more"]["time.zone"] == "assumed"
    assert "canary" not in json.dumps(sent)


def test_version_1_of_mini_swe_agent_has_commands_in_its_answers(tmp_path: Path) -> None:
    turns = [("cd src && pytest -q", 127, "bash: pytest: command not found"), ("ls", 0, "a.py")]
    messages = [{"role": "system", "content": "x"}, {"role": "user", "content": "Fix it. <returncode> is shown."}]
    for command, code, output in turns:
        said = f"THOUGHT: I look.\n\n```bash\n{command}\n```"
        told = f"<returncode>{code}</returncode>\n<output>\n{output}\n</output>"
        messages += [{"role": "assistant", "content": said}, {"role": "user", "content": told}]
    (tmp_path / "parcel__1.traj.json").write_text(json.dumps({"messages": messages, "info": {"mini_version": "1.9.0"}}))
    calls = received(read(tmp_path, "mini-swe-agent")[0])
    assert [(one["tool"], one["outcome"], one.get("message"), json.loads(one["params"])) for one in calls] == [
        ("bash", "error", "bash: pytest: command not found", {"command": "cd src && pytest -q"}),
        ("bash", "ok", None, {"command": "ls"}),
    ]


def test_what_swe_agent_writes_into_a_file_is_not_kept(tmp_path: Path) -> None:
    canary = "canary-" + "51ce"
    actions = [
        f"edit 1:2\n{canary}\nend_of_edit",
        f"str_replace_editor create /p/a.py --file_text '{canary}'",
        "make test",
    ]
    steps = [{"action": action, "observation": "x", "state": {}} for action in actions]
    (tmp_path / "p__1.traj").write_text(json.dumps({"trajectory": steps, "info": {}}))
    calls = received(read(tmp_path, "swe-agent")[0])
    assert [json.loads(one["params"]) for one in calls][2] == {"command": "make test"}
    assert len(calls) == 3
    assert canary not in repr(calls)


def test_a_session_of_hermes_stands_in_three_stores(tmp_path: Path) -> None:
    """Local models give ids such as `call_0` again: for another call, then, and each store has times of its own."""
    messages: list[dict[str, Any]] = []
    for command in ("make", "make test", "make"):
        function = {"name": "terminal", "arguments": json.dumps({"command": command})}
        messages.append(
            {"role": "assistant", "tool_calls": [{"id": "call_0", "type": "function", "function": function}]}
        )
        messages.append({"role": "tool", "tool_call_id": "call_0", "content": '{"output": "x", "exit_code": 2}'})
    document(tmp_path / "sessions/session_S1.json", {"session_id": "S1", "messages": messages})
    timed = [{**one, "timestamp": f"2026-10-03T10:11:{place}.5"} for place, one in enumerate(messages, 10)]
    lines(tmp_path / "sessions/S1.jsonl", *timed)
    with closing(sqlite3.connect(tmp_path / "state.db")) as database:
        database.execute("create table sessions(id, model, parent_session_id)")
        database.execute("create table messages(id, session_id, role, content, tool_call_id, tool_calls, timestamp)")
        database.execute("insert into sessions values ('S1', 'm', null)")
        for place, one in enumerate(messages):
            calls = json.dumps(one["tool_calls"]) if "tool_calls" in one else None
            row = (
                place,
                "S1",
                one["role"],
                one.get("content"),
                one.get("tool_call_id"),
                calls,
                1_791_022_271.7 + place,
            )
            database.execute("insert into messages values (?, ?, ?, ?, ?, ?, ?)", row)
        database.commit()
    assert told(tmp_path, "hermes") == [("S1", "terminal", "error", "CommandFailedError")] * 3
    assert read(tmp_path, "hermes")[1].repeated == 6
