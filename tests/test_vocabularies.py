"""Whose record it is: by its scope and by what it says, never by its service's name; each vocabulary is read."""

from __future__ import annotations

from typing import Any

import pytest

from collector.decode.record import Record, Scope
from collector.recognise.recognise import recognise
from collector.recognise.source_tables import load_sources
from collector.report import Report

TABLES = load_sources()
AGENTS = (
    "claude-code",
    "claude-code-desktop",
    "codex-review-bot",
    "copilot-chat-mine",
    "github-copilot",
    "cursor",
    "opencode",
    "gemini-cli-bot",
    "cline",
    "continue-training",
    "kode",
    "loopr",
    "openagents",
    "openhands",
    "qwen-code",
    "roo-code",
    "goose",
    "agent_framework",
)
GEN_AI = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "read",
    "gen_ai.tool.call.id": "c1",
    "error.type": "io",
}
FOREIGN: dict[str, tuple[str, dict[str, Any]]] = {
    "gen_ai span": ("span", GEN_AI),
    "openinference span": ("span", {"openinference.span.kind": "TOOL", "tool.name": "read", "tool.id": "c1"}),
    "traceloop span": (
        "span",
        {"traceloop.span.kind": "tool", "traceloop.entity.name": "read", "gen_ai.tool.call.id": "c1"},
    ),
    "mcp span": ("span", {"mcp.method.name": "tools/call", "gen_ai.tool.name": "read", "gen_ai.tool.call.id": "c1"}),
    "span of no convention": ("span", {"tool.name": "read", "tool.call_id": "c1", "tool.error": "no"}),
    "gen_ai log": ("log", GEN_AI),
    "mcp log": (
        "log",
        {"mcp.method.name": "tools/call", "gen_ai.tool.name": "read", "gen_ai.tool.call.id": "c1", "error.type": "io"},
    ),
    "log event": ("log", {"event.name": "tool_result", "tool_name": "read", "success": False}),
}


def told(
    signal: str, attributes: dict[str, Any], service: str = "mine", name: str = "", scope: str = "app", **more: Any
) -> list[Report]:
    """The reports of one record."""
    record = Record(
        signal, name, dict(attributes), trace_id="0a", span_id="0b", time_ns=1_795_000_000_000_000_001, **more
    )
    return recognise([Scope({"service.name": service}, scope, "", [record])], TABLES).reports


@pytest.mark.parametrize("service", AGENTS)
@pytest.mark.parametrize("kind", FOREIGN)
@pytest.mark.parametrize("scope", ["app", "com.plugin", ""])
def test_what_another_exporter_says_under_an_agent_s_name_is_read(service: str, kind: str, scope: str) -> None:
    signal, attributes = FOREIGN[kind]
    failed = {"status": 2, "status_message": "no such file"} if signal == "span" else {}
    [report] = told(signal, attributes, service, "read", scope, **failed)
    assert (report["operation"], report["tool"], report.get("call_id", "c1"), report["outcome"]) == (
        "tool",
        "read",
        "c1",
        "error",
    )
    assert report["service"] == service


OTHERS: dict[str, dict[str, Any]] = {
    "langfuse": {"langfuse.observation.type": "tool"},
    "langfuse, as a span of no kind": {"langfuse.observation.type": "span"},
    "openinference": {"openinference.span.kind": "TOOL"},
    "openinference, as a step": {"openinference.span.kind": "CHAIN"},
    "openllmetry": {"traceloop.span.kind": "tool"},
    "langsmith": {"langsmith.span.kind": "tool"},
    "mcp": {"mcp.method.name": "tools/call"},
    "ai sdk": {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "Bash"},
    "logfire": {"logfire.msg": "running tool"},
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_call_in_two_vocabularies_is_read_by_both(other: str) -> None:
    spoken = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "Bash",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.conversation.id": "s",
        "gen_ai.tool.call.arguments": '{"command":"npm test"}',
        "error.type": "exit",
    }
    [report] = told(
        "span", OTHERS[other] | spoken, name="execute_tool Bash", status=2, status_message="exited with code 1"
    )
    assert {
        column: report.get(column) for column in ("tool", "call_id", "session", "params", "outcome", "reported_class")
    } == {
        "tool": "Bash",
        "call_id": "c1",
        "session": "s",
        "params": {"command": "npm test"},
        "outcome": "error",
        "reported_class": "exit",
    }


@pytest.mark.parametrize(
    "other",
    [{"langfuse.observation.type": "generation"}, {"openinference.span.kind": "LLM"}, {"langsmith.span.kind": "llm"}],
)
def test_a_request_in_two_vocabularies_is_read_by_both(other: dict[str, Any]) -> None:
    spoken = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "m",
        "gen_ai.conversation.id": "s",
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.output_tokens": 3,
        "http.response.status_code": 529,
    }
    [report] = told("span", other | spoken, name="chat m", status=2, status_message="Overloaded")
    wanted = {
        "operation": "model",
        "provider": "anthropic",
        "model": "m",
        "session": "s",
        "input_tokens": 12,
        "output_tokens": 3,
        "status_code": 529,
    }
    assert {column: report.get(column) for column in wanted} == wanted


@pytest.mark.parametrize(
    "key",
    [
        "gen_ai.tool.name",
        "tool.name",
        "tool_name",
        "mcp.tool.name",
        "openclaw.toolName",
        "au.tool.name",
        "agent.tool.name",
        "tool_call.name",
        "function.name",
    ],
)
def test_a_span_is_a_call_by_any_key_for_its_tool(key: str) -> None:
    [report] = told("span", {key: "read"}, name="step", status=2, status_message="no such file")
    assert (report["operation"], report["tool"], report["outcome"]) == ("tool", "read", "error")


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("chat m", {"gen_ai.operation.name": "create_agent", "gen_ai.tool.name": "read"}),
        ("tools/list", {"mcp.method.name": "tools/list", "mcp.tool.name": "read"}),
        ("tool.register", {"tool.name": "read"}),
        ("permission.check", {"tool.name": "read"}),
        ("plan", {"openinference.span.kind": "CHAIN", "tool.name": "read"}),
        ("GET", {"http.request.method": "GET"}),
    ],
)
def test_what_only_speaks_of_a_tool_is_no_call(name: str, attributes: dict[str, Any]) -> None:
    assert [report for report in told("span", attributes, name=name) if report["operation"] == "tool"] == []


@pytest.mark.parametrize(
    ("attributes", "body"),
    [
        ({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "read", "event.name": "tool.started"}, None),
        ({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "read"}, "Calling tool read"),
        ({"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}, "the prompt"),
        ({"event.name": "tool_call", "tool_name": "read"}, None),
        ({"event.name": "tool_decision", "tool_name": "read", "decision": "accept"}, None),
    ],
)
def test_a_log_of_a_call_s_beginning_is_no_call(attributes: dict[str, Any], body: Any) -> None:
    assert told("log", attributes, body=body) == []


CLAUDE = {
    "session_id": "s",
    "transcript_path": "/home/ann/.claude/projects/x/s.jsonl",
    "cwd": "/w",
    "hook_event_name": "PostToolUse",
}
HOOKS: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "Claude Code": (
        CLAUDE | {"tool_name": "Bash", "tool_response": {"interrupted": True}},
        "claude-code",
        "claude-code",
        "cancelled",
    ),
    "Claude Code, its folder moved": (
        CLAUDE | {"transcript_path": "/opt/c/projects/x/s.jsonl", "tool_name": "Read", "tool_response": {"file": {}}},
        "claude-code",
        "claude-code",
        "ok",
    ),
    "Codex": (
        {
            "session_id": "s",
            "turn_id": "t",
            "transcript_path": None,
            "model": "m",
            "hook_event_name": "PostToolUse",
            "tool_name": "Bash",
            "tool_response": "Exit code: 2\nWall time: 0.1 seconds\nOutput:\nno rule\n",
        },
        "codex",
        "codex",
        "error",
    ),
    "Copilot in VS Code": (
        {
            "sessionId": "s",
            "timestamp": "2026-09-06T00:00:00Z",
            "hook_event_name": "PostToolUse",
            "tool_name": "read_file",
            "tool_response": "ERROR: no such file",
        },
        "copilot",
        "github-copilot",
        "error",
    ),
    "Factory Droid": (
        CLAUDE
        | {
            "transcript_path": "/home/ann/.factory/projects/x/s.jsonl",
            "tool_name": "Execute",
            "tool_response": {"exitCode": 2},
        },
        "hooks",
        "factory",
        "error",
    ),
    "Qwen Code": (
        CLAUDE
        | {
            "transcript_path": "/home/ann/.qwen/projects/x/s.jsonl",
            "timestamp": "2026-09-06T00:00:00Z",
            "tool_name": "edit",
            "tool_response": {"error": {"message": "0 occurrences found"}},
        },
        "qwen-code",
        "qwen-code",
        "error",
    ),
    "Gemini CLI": (
        {
            "session_id": "s",
            "timestamp": "2026-09-06T00:00:00Z",
            "hook_event_name": "AfterTool",
            "tool_name": "read_file",
            "tool_response": {"llmContent": "x", "error": {"message": "File not found"}},
        },
        "gemini-cli",
        "gemini-cli",
        "error",
    ),
    "Auggie": (
        {
            "conversation_id": "s",
            "hook_event_name": "PostToolUse",
            "workspace_roots": ["/w"],
            "tool_name": "view",
            "tool_input": {},
            "tool_error": "no such file",
            "tool_output": "",
        },
        "hooks",
        "hooks",
        "error",
    ),
    "Pi": (
        {
            "type": "tool_result",
            "toolName": "read",
            "toolCallId": "c1",
            "content": [{"type": "text", "text": "no such file"}],
            "isError": True,
        },
        "event",
        "",
        "error",
    ),
}


@pytest.mark.parametrize("agent", HOOKS)
def test_a_hook_s_payload_is_known_by_its_shape(agent: str) -> None:
    payload, source, service, outcome = HOOKS[agent]
    record = Record("event", "", dict(payload), time_ns=1)
    [report] = recognise([Scope({}, "", "", [record])], TABLES).reports
    assert (report["source"], report.get("service", ""), report["outcome"]) == (source, service, outcome)
