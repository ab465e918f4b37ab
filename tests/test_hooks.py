"""Hook payloads of Claude Code, Cursor and Copilot on /v1/events, as the agents pass them to hooks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from collector.columns import Row
from tests.doors import only, stored, taken

CLAUDE = {
    "session_id": "s1",
    "transcript_path": "/home/ann/.claude/x.jsonl",
    "cwd": "/home/ann/p",
    "permission_mode": "default",
}
CURSOR = {
    "conversation_id": "c1",
    "generation_id": "g1",
    "model": "m",
    "cursor_version": "2.1",
    "workspace_roots": ["/home/ann/p"],
}

HOOKS: dict[str, tuple[dict[str, Any], Row | None]] = {
    "claude: a call that ended well": (
        CLAUDE
        | {
            "hook_event_name": "PostToolUse",
            "tool_name": "Write",
            "tool_input": {"file_path": "a.txt", "content": "x"},
            "tool_response": {"filePath": "a.txt", "success": True},
            "tool_use_id": "t1",
            "duration_ms": 12,
        },
        {
            "source": "claude-code",
            "service": "claude-code",
            "session": "s1",
            "call_id": "t1",
            "tool": "Write",
            "outcome": "ok",
            "target": "a.txt",
            "duration_ms": 12.0,
        },
    ),
    "claude: a command that failed": (
        CLAUDE
        | {
            "hook_event_name": "PostToolUseFailure",
            "tool_name": "Bash",
            "tool_input": {"command": "make"},
            "tool_use_id": "t2",
            "error": "Exit code 2\nmake: *** [all] Error 1",
            "is_interrupt": False,
        },
        {"outcome": "error", "error_class": "CommandFailedError", "target": "make", "tool_kind": "command"},
    ),
    "claude: a command that took too long": (
        CLAUDE
        | {
            "hook_event_name": "PostToolUseFailure",
            "tool_name": "Bash",
            "tool_input": {"command": "sleep 999"},
            "tool_use_id": "t3",
            "error": "Command timed out after 2m 0s",
        },
        {"outcome": "error", "error_class": "CommandTimeoutError"},
    ),
    "claude: an interrupt": (
        CLAUDE
        | {
            "hook_event_name": "PostToolUseFailure",
            "tool_name": "Bash",
            "tool_use_id": "t4",
            "error": "Interrupted",
            "is_interrupt": True,
        },
        {"outcome": "cancelled"},
    ),
    "claude: a refusal": (
        CLAUDE
        | {
            "hook_event_name": "PermissionDenied",
            "tool_name": "Bash",
            "tool_input": {"command": "rm -r /"},
            "tool_use_id": "t5",
            "reason": "dangerous",
        },
        {"outcome": "denied", "message": "dangerous", "error_class": "ToolPermissionError"},
    ),
    "claude: the turn ended with an API error": (
        CLAUDE | {"hook_event_name": "StopFailure", "error": "rate_limit", "error_details": "429 Too Many Requests"},
        {"operation": "model", "outcome": "error", "error_class": "RateLimitError", "status_code": 429},
    ),
    "claude: an unknown failure of the turn": (
        CLAUDE | {"hook_event_name": "StopFailure", "error": "billing_error"},
        {"operation": "model", "error_class": "QuotaError"},
    ),
    "claude: before the call": (
        CLAUDE | {"hook_event_name": "PreToolUse", "tool_name": "Write", "tool_input": {}, "tool_use_id": "t6"},
        None,
    ),
    "claude: a prompt": (CLAUDE | {"hook_event_name": "UserPromptSubmit", "prompt": "hello"}, None),
    "cursor: a command": (
        CURSOR | {"hook_event_name": "afterShellExecution", "command": "ls", "output": "a.txt", "duration": 120},
        {
            "source": "cursor",
            "service": "cursor",
            "session": "c1",
            "turn": "g1",
            "tool": "Shell",
            "outcome": "ok",
            "target": "ls",
            "duration_ms": 120.0,
            "model": "m",
            "service_version": "2.1",
        },
    ),
    "cursor: an MCP tool that failed": (
        CURSOR
        | {
            "hook_event_name": "afterMCPExecution",
            "tool_name": "query",
            "tool_input": '{"sql": "select 1"}',
            "result_json": '{"content": [{"type": "text", "text": "connection refused"}], "isError": true}',
            "duration": 5,
        },
        {"outcome": "error", "tool_kind": "mcp", "error_class": "ConnectionError", "params": '{"sql":"select 1"}'},
    ),
    "cursor: a call that ended well": (
        CURSOR
        | {
            "hook_event_name": "postToolUse",
            "tool_name": "Read",
            "tool_input": {"path": "a"},
            "tool_output": "text",
            "tool_use_id": "u1",
            "duration": 3,
        },
        {"outcome": "ok", "call_id": "u1"},
    ),
    "cursor: a file that is not there": (
        CURSOR
        | {
            "hook_event_name": "postToolUseFailure",
            "tool_name": "Read",
            "tool_input": {"path": "b"},
            "tool_use_id": "u2",
            "error_message": "File not found: b",
            "failure_type": "error",
            "is_interrupt": False,
        },
        {"outcome": "error", "error_class": "FileNotFoundError"},
    ),
    "cursor: a time-out": (
        CURSOR
        | {
            "hook_event_name": "postToolUseFailure",
            "tool_name": "Fetch",
            "error_message": "no answer",
            "failure_type": "timeout",
        },
        {"outcome": "error", "error_class": "ToolTimeoutError"},
    ),
    "cursor: a refusal": (
        CURSOR
        | {
            "hook_event_name": "postToolUseFailure",
            "tool_name": "Shell",
            "error_message": "no",
            "failure_type": "permission_denied",
        },
        {"outcome": "denied"},
    ),
    "cursor: an interrupt": (
        CURSOR
        | {
            "hook_event_name": "postToolUseFailure",
            "tool_name": "Shell",
            "failure_type": "error",
            "is_interrupt": True,
        },
        {"outcome": "cancelled"},
    ),
    "cursor: the agent stopped with an error": (
        CURSOR | {"hook_event_name": "stop", "status": "error", "loop_count": 0},
        {"operation": "agent", "outcome": "error"},
    ),
    "cursor: the agent ended": (CURSOR | {"hook_event_name": "stop", "status": "completed"}, None),
    "cursor: before a command": (CURSOR | {"hook_event_name": "beforeShellExecution", "command": "ls"}, None),
    "copilot: a call that failed": (
        {
            "type": "tool.execution_complete",
            "timestamp": "2026-11-21T21:41:50Z",
            "sessionId": "p1",
            "data": {
                "toolCallId": "k1",
                "success": False,
                "error": {"message": "Path does not exist", "code": "failure"},
            },
        },
        {
            "source": "copilot",
            "service": "github-copilot",
            "outcome": "error",
            "call_id": "k1",
            "session": "p1",
            "error_class": "FileNotFoundError",
        },
    ),
    "copilot: without its envelope": (
        {
            "type": "tool.execution_complete",
            "toolCallId": "k2",
            "success": False,
            "sessionId": "p1",
            "error": {"message": "The tool took too long", "code": "timeout"},
        },
        {"outcome": "error", "error_class": "ToolTimeoutError"},
    ),
    "copilot: a refusal": (
        {
            "type": "tool.execution_complete",
            "sessionId": "p1",
            "data": {"toolCallId": "k3", "success": False, "error": {"message": "no", "code": "rejected"}},
        },
        {"outcome": "denied"},
    ),
    "copilot: a session error": (
        {
            "type": "session.error",
            "sessionId": "p1",
            "data": {"errorType": "quota", "message": "no requests left", "statusCode": 402},
        },
        {"operation": "model", "outcome": "error", "error_class": "QuotaError", "status_code": 402},
    ),
    "copilot: the hook after a call": (
        {
            "sessionId": "p1",
            "timestamp": 1_795_297_310_000,
            "cwd": "/p",
            "toolName": "bash",
            "toolArgs": '{"command": "ls"}',
            "toolResult": {"resultType": "success", "textResultForLlm": "a.txt"},
        },
        {"source": "copilot", "outcome": "ok", "tool": "bash", "target": "ls"},
    ),
    "copilot: the hook after a failure": (
        {
            "sessionId": "p1",
            "timestamp": 1_795_297_310_000,
            "toolName": "view",
            "toolArgs": {"path": "a"},
            "error": "Path does not exist",
        },
        {"source": "copilot", "outcome": "error", "target": "a"},
    ),
    "copilot: a message": ({"type": "assistant.message", "sessionId": "p1", "data": {"content": "hello"}}, None),
}


@pytest.mark.parametrize("case", HOOKS)
def test_hook_payloads(case: str) -> None:
    payload, wanted = HOOKS[case]
    batch = taken(json.dumps(payload).encode(), "events")
    if wanted is None:
        assert (batch.reports, batch.dropped["no_event"]) == ([], 1)
        return
    report = only(batch)
    assert {name: report.get(name) for name in wanted} == wanted


def test_outputs_and_home_directories_are_not_kept() -> None:
    for payload, wanted in HOOKS.values():
        if wanted and wanted.get("outcome") == "ok":
            kept = json.dumps(taken(json.dumps(payload).encode(), "events").reports, default=str)
            assert "a.txt" not in kept.replace('a.txt\\"', "").replace('"a.txt"', "")
            assert "ann" not in kept


def test_copilot_s_start_gives_the_call_its_tool_and_makes_no_event_alone() -> None:
    start = {
        "type": "tool.execution_start",
        "sessionId": "p1",
        "data": {"toolCallId": "k1", "toolName": "view", "arguments": {"path": "a"}},
    }
    done = HOOKS["copilot: a call that failed"][0]
    batches = [taken(json.dumps(one).encode(), "events") for one in (start, done)]
    for order in (batches, batches[::-1]):
        rows = stored(*([one] for one in order))
        assert [(row["outcome"], row["tool"], row["target"]) for row in rows] == [("error", "view", "a")]
    assert stored([batches[0]]) == []
