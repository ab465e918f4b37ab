"""Agents with conventions of their own, from goose to Continue."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest

from collector.columns import Row
from collector.decode.record import Record, Scope
from collector.recognise.recognise import recognise
from collector.recognise.source_tables import load_sources
from tests.doors import NOW, logs, only, pairs, pipeline, spans, stored, taken

JS_AGENTS = "@arizeai/openinference-instrumentation-openai-agents"
JS_RUN = {"name": "Fixer", "status": 2, "attributes": {"openinference.span.kind": "AGENT", "graph.node.id": "Fixer"}}
ENDED = 'Error in agent run: {"error":"%s"}'

# service, scope, span, what its event must contain; None: it is not an event
SPANS: dict[str, tuple[str, str, dict[str, Any], Row | None]] = {
    "goose: error.type": (
        "goose",
        "goose",
        {
            "name": "dispatch_tool_call",
            "attributes": {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "developer__shell",
                "gen_ai.tool.call.id": "c1",
                "session.id": "s1",
                "error.type": "tool_error",
                "output": '{"status": "error", "message": "No such file or directory"}',
            },
        },
        {"source": "goose", "outcome": "error", "error_class": "FileNotFoundError", "session": "s1", "call_id": "c1"},
    ),
    "goose: only the output tells": (
        "goose",
        "",
        {
            "name": "dispatch_tool_call",
            "attributes": {
                "gen_ai.tool.name": "t",
                "output": '{"status": "error", "message": "boom"}',
            },
        },
        {"outcome": "error", "message": "boom"},
    ),
    "goose: the user declined": (
        "goose",
        "",
        {
            "name": "dispatch_tool_call",
            "attributes": {
                "gen_ai.tool.name": "t",
                "gen_ai.tool.call.result": '[{"type": "text", "text": "The user has declined to run this tool."}]',
            },
        },
        {"outcome": "denied"},
    ),
    "goose: well": (
        "goose",
        "",
        {
            "name": "dispatch_tool_call",
            "attributes": {
                "gen_ai.tool.name": "t",
                "input": '{"command": "ls"}',
                "output": '{"status": "success"}',
            },
        },
        {"outcome": "ok", "params": '{"command":"ls"}'},
    ),
    "openhands: is_error in the observation": (
        "openhands",
        "lmnr.sdk",
        {
            "name": "TerminalAction",
            "status": 1,
            "attributes": {
                "lmnr.span.type": "TOOL",
                "lmnr.association.properties.session_id": "s1",
                "lmnr.association.properties.metadata.tool_call_id": "c1",
                "lmnr.span.input": '{"command": "cat x"}',
                "lmnr.span.output": '{"content": [{"type": "text", "text": "cat: x: No such file"}], "is_error": true}',
            },
        },
        {
            "source": "openhands",
            "outcome": "error",
            "error_class": "FileNotFoundError",
            "tool": "TerminalAction",
            "session": "s1",
            "call_id": "c1",
        },
    ),
    "openhands: well": (
        "",
        "",
        {
            "name": "FileEditorAction",
            "attributes": {
                "lmnr.span.type": "TOOL",
                "lmnr.span.output": '{"is_error": false}',
            },
        },
        {"source": "openhands", "outcome": "ok"},
    ),
    "openhands: a model request": (
        "openhands",
        "",
        {
            "name": "litellm.completion",
            "status": 2,
            "attributes": {"lmnr.span.type": "LLM", "gen_ai.request.model": "m"},
            "events": [
                {
                    "name": "exception",
                    "attributes": {
                        "exception.type": "litellm.ContextWindowExceededError",
                        "exception.message": "prompt is too long",
                    },
                }
            ],
        },
        {"operation": "model", "outcome": "error", "error_class": "ContextOverflowError", "model": "m"},
    ),
    "copilot: a tool span": (
        "copilot-chat",
        "copilot-chat",
        {
            "name": "execute_tool readFile",
            "status": 2,
            "status_message": "ENOENT: no such file",
            "attributes": {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "readFile",
                "gen_ai.tool.call.id": "c1",
                "copilot_chat.chat_session_id": "s1",
                "error.type": "Error",
            },
        },
        {"source": "copilot", "outcome": "error", "error_class": "FileNotFoundError", "session": "s1"},
    ),
    "copilot: only the result tells": (
        "copilot-chat",
        "copilot-chat",
        {
            "name": "execute_tool readFile",
            "attributes": {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "readFile",
                "gen_ai.tool.call.result": "ERROR: cannot find b",
            },
        },
        {"outcome": "error"},
    ),
    "copilot: a cancelled request": (
        "copilot-chat",
        "copilot-chat",
        {
            "name": "chat m",
            "attributes": {
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": "m",
                "copilot_chat.canceled": True,
            },
        },
        {"operation": "model", "outcome": "cancelled"},
    ),
    "copilot cli": (
        "github-copilot",
        "",
        {
            "name": "execute_tool bash",
            "status": 2,
            "attributes": {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "bash",
                "error.type": "timeout",
            },
        },
        {"source": "copilot", "outcome": "error", "error_class": "CommandTimeoutError"},
    ),
    "adk: the answer holds the error": (
        "my-agent",
        "gcp.vertex.agent",
        {
            "name": "execute_tool get_order",
            "attributes": {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "get_order",
                "gen_ai.tool.call.id": "c1",
                "gcp.vertex.agent.tool_call_args": '{"id": 7}',
                "gcp.vertex.agent.tool_response": '{"error": "order 7 not found"}',
            },
        },
        {"source": "google-adk", "outcome": "error", "error_class": "ResourceNotFoundError", "params": '{"id":7}'},
    ),
    "adk: well": (
        "",
        "gcp.vertex.agent",
        {
            "name": "execute_tool get_order",
            "attributes": {
                "gen_ai.tool.name": "get_order",
                "gcp.vertex.agent.tool_response": '{"status": "success", "total": 3}',
            },
        },
        {"outcome": "ok"},
    ),
    "adk: parallel calls again": (
        "",
        "gcp.vertex.agent",
        {
            "name": "execute_tool (merged tools)",
            "attributes": {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "(merged tools)",
            },
        },
        None,
    ),
    "adk: a model request": (
        "",
        "gcp.vertex.agent",
        {
            "name": "call_llm",
            "status": 2,
            "attributes": {
                "gen_ai.request.model": "gemini",
                "gcp.vertex.agent.session_id": "s1",
                "gcp.vertex.agent.invocation_id": "i1",
                "error.type": "ServerError",
            },
        },
        {"operation": "model", "outcome": "error", "error_class": "ServerError", "session": "s1", "turn": "i1"},
    ),
    "agent framework": (
        "my-agent",
        "agent_framework",
        {
            "name": "execute_tool add",
            "status": 2,
            "status_message": "ValueError('x')",
            "attributes": {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "add",
                "gen_ai.tool.call.id": "c1",
                "gen_ai.conversation.id": "s1",
                "error.type": "FileNotFoundError",
                "gen_ai.tool.call.arguments": '{"a": 1}',
            },
        },
        {"source": "ms-agent-framework", "outcome": "error", "error_class": "FileNotFoundError", "session": "s1"},
    ),
    "langsmith: a tool run": (
        "",
        "langsmith",
        {
            "name": "search",
            "status": 2,
            "attributes": {
                "langsmith.span.kind": "tool",
                "langsmith.metadata.thread_id": "s1",
                "gen_ai.prompt": '{"query": "x"}',
            },
            "events": [
                {
                    "name": "exception",
                    "attributes": {
                        "exception.type": "Exception",
                        "exception.message": "ConnectionRefusedError(111, 'Connection refused')",
                    },
                }
            ],
        },
        {
            "source": "langsmith",
            "outcome": "error",
            "error_class": "ConnectionError",
            "tool": "search",
            "session": "s1",
        },
    ),
    "openai agents: a tool that timed out": (
        "",
        JS_AGENTS,
        {
            "name": "slow",
            "status": 1,
            "attributes": {
                "openinference.span.kind": "TOOL",
                "tool.name": "slow",
                "output.value": "Tool 'slow' timed out after 500ms.",
            },
        },
        {"source": "openai-agents", "outcome": "error", "error_class": "ToolTimeoutError"},
    ),
    "openai agents: arguments that are not JSON": (
        "",
        JS_AGENTS,
        {
            "name": "add",
            "status": 2,
            "status_message": 'Error running tool (non-fatal): {"error":"Error details are redacted."}',
            "attributes": {
                "openinference.span.kind": "TOOL",
                "tool.name": "add",
                "output.value": "An error occurred while parsing tool arguments. Please try again with valid JSON.",
            },
        },
        {"outcome": "error", "error_class": "MalformedToolCallError", "mistake": True},
    ),
    "openai agents: an unknown tool": (
        "",
        JS_AGENTS,
        JS_RUN | {"status_message": ENDED % "ModelBehaviorError: Tool nope not found in agent Fixer."},
        {"operation": "tool", "outcome": "error", "error_class": "InvalidToolError", "tool": "nope", "agent": "Fixer"},
    ),
    "openai agents: the limit of turns": (
        "",
        JS_AGENTS,
        JS_RUN | {"status_message": ENDED % "MaxTurnsExceededError: Max turns (2) exceeded"},
        {"operation": "agent", "outcome": "error", "error_class": "MaxIterationsError", "agent": "Fixer"},
    ),
    "openai agents: the failure of a request has a span of its own": (
        "",
        JS_AGENTS,
        JS_RUN | {"status_message": ENDED % "RateLimitError: 429 slow down"},
        None,
    ),
    "genkit: the limit of turns": (
        "",
        "genkit-tracer",
        {
            "name": "generate",
            "status": 2,
            "status_message": "ABORTED: Exceeded maximum tool call iterations (2)",
            "attributes": {"genkit:type": "util", "genkit:name": "generate", "genkit:isFailureSource": True},
        },
        {"operation": "agent", "outcome": "error", "error_class": "MaxIterationsError"},
    ),
    "langsmith: a chain is no call": (
        "",
        "langsmith",
        {
            "name": "agent",
            "status": 2,
            "attributes": {"langsmith.span.kind": "chain", "langsmith.metadata.thread_id": "s1"},
        },
        None,
    ),
}


@pytest.mark.parametrize("case", SPANS)
def test_spans(case: str) -> None:
    service, scope, record, wanted = SPANS[case]
    batch = taken(spans(record, service=service, scope=scope), "traces")
    if wanted is None:
        assert batch.reports == []
        return
    report = only(batch)
    assert {name: report.get(name) for name in wanted} == wanted


@pytest.mark.parametrize(
    ("service", "record"),
    [
        (
            "copilot-chat",
            {
                "body": "copilot_chat.tool.call: readFile",
                "attributes": {
                    "event.name": "copilot_chat.tool.call",
                    "gen_ai.tool.name": "readFile",
                    "success": False,
                    "duration_ms": 3,
                },
            },
        ),
        ("goose", {"attributes": {"monotonic_counter.goose.tool_completions": 1, "tool_name": "t", "result": "error"}}),
    ],
)
def test_copies_of_a_span_in_the_logs_are_counted_as_such(service: str, record: dict[str, Any]) -> None:
    batch = taken(logs(record, service=service))
    assert (batch.reports, batch.dropped) == ([], {"duplicate_twin": 1})


def test_continue_is_known_and_says_nothing_of_its_calls() -> None:
    source = pipeline().sources.named("continue")
    assert source is not None
    assert (source.reports_ok, set(source.coverage.values())) == (False, {False})
    point = {"asInt": "3", "timeUnixNano": str(NOW), "attributes": pairs({"tool": "read"})}
    metric = {"name": "continue.tool.calls", "sum": {"dataPoints": [point]}}
    resource = {"attributes": pairs({"service.name": "continue-cli"})}
    body = json.dumps({"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"metrics": [metric]}]}]}).encode()
    batch = taken(body, "metrics")
    assert (batch.reports, batch.dropped) == ([], {"metric": 1})
    assert batch.senders == {("continue", "continue-cli"): "continue.tool.calls"}


def test_a_secret_in_the_name_of_who_sends_metrics_is_cut() -> None:
    key = "AKIA" + "Q3EGRIVB7ZT5WDXN"
    resource = {"attributes": pairs({"service.name": f"continue-{key}"})}
    metrics = [{"name": f"calls {key}", "sum": {"dataPoints": [{"asInt": "1"}]}}]
    body = json.dumps({"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"metrics": metrics}]}]}).encode()
    batch = taken(body, "metrics")
    [(source, service)] = batch.senders
    assert (source, key in service, key in batch.senders[source, service]) == ("continue", False, False)


def test_the_session_with_an_mcp_server_is_that_of_its_calls_only_where_nothing_else_tells_one() -> None:
    root = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "z-conv"}
    read, write = (
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool, "gen_ai.tool.call.id": f"c-{tool}"}
        for tool in ("read", "write")
    )
    server = {"mcp.method.name": "tools/call", "mcp.session.id": "m-session", "gen_ai.tool.name": "write"}
    told: dict[str, list[dict[str, Any]]] = {
        "root": [{"name": "invoke_agent", "spanId": "1", "attributes": root}],
        "agent": [
            {"name": "execute_tool read", "spanId": "2", "parentSpanId": "1", "attributes": read},
            {"name": "execute_tool write", "spanId": "3", "parentSpanId": "1", "attributes": write},
        ],
        "server": [{"name": "tools/call write", "kind": 2, "spanId": "5", "parentSpanId": "3", "attributes": server}],
    }
    trace = "a".rjust(32, "0")
    for names, sessions in (
        (("root", "agent", "server"), {"read": "z-conv", "write": "z-conv"}),
        (("agent", "server"), {"read": trace, "write": trace}),
        (("server",), {"write": "m-session"}),
    ):
        for order in permutations(names):
            events = stored(*([taken(spans(*told[name], service=name), "traces")] for name in order))
            assert {event["tool"]: event["session"] for event in events} == sessions, order


def test_the_window_of_copilot_chat_is_no_session() -> None:
    window = {"service.name": "copilot-chat", "session.id": "window"}
    call = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "readFile", "gen_ai.tool.call.id": "c1"}
    agent = {"gen_ai.operation.name": "invoke_agent", "copilot_chat.chat_session_id": "chat"}
    told = {"execute_tool readFile": call, "invoke_agent copilot": agent}
    records = [Record("span", name, attributes, trace_id="a") for name, attributes in told.items()]
    found = recognise([Scope(window, "copilot-chat", "", records)], load_sources())
    assert [report.get("session") for report in found.reports] == [None]
    assert [session for _, session in found.links.values()] == ["chat"]
