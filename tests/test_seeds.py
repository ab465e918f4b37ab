"""Roo Code, KODE, OpenAgents and Loopr: their documented examples, as OTLP logs in every form and as plain JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from collector.columns import Row
from tests.doors import DOORS, KODE_MONITOR, KODE_PROGRESS, MS, missing, only, pipeline, through

ROO_MISSING = {
    "level": "warn",
    "category": "tool_validation",
    "tool": "write_to_file",
    "error_type": "MissingParameterError",
    "message": "Missing required parameter: path",
    "params": {"content": "hello"},
    "timestamp": MS,
    "taskId": "task-1",
}
ROO_NOT_FOUND = {
    "level": "error",
    "category": "file_operation",
    "tool": "read_file",
    "error_type": "FileNotFoundToolError",
    "path": "src/app.ts",
    "message": "File not found: src/app.ts",
    "timestamp": MS,
    "taskId": "task-1",
}
ROO_TOLD = {
    "status": "error",
    "type": "file_operation_error",
    "error_class": "FileNotFoundToolError",
    "message": "File not found: src/app.ts",
    "path": "src/app.ts",
    "suggestion": "Verify the file path exists using list_files",
    "taskId": "task-1",
}
KODE_NOT_FOUND = {
    "ok": False,
    "error": "File not found: /src/utils/helper.ts",
    "errorType": "logical",
    "retryable": True,
    "recommendations": ["Verify the file path is correct", "Use fs_glob to search for files"],
}
KODE_VALIDATION = {
    "ok": False,
    "error": "Invalid parameters: path is required",
    "errorType": "validation",
    "retryable": False,
    "recommendations": ["Check tool parameters against schema"],
    "_validationError": True,
}
OPENAGENTS = {
    "name": "ResourceNotFoundError",
    "message": "Not Found",
    "category": "tool",
    "toolName": "get_file_contents",
    "toolType": "mcp",
    "arguments": {"owner": "o", "path": "packages/core/src/chat/errors/ChatError.ts"},
    "invocationId": "inv-1",
    "nonFatal": True,
    "userMessage": "Resource not found: packages/core/src/chat/errors/ChatError.ts",
    "resourcePath": "packages/core/src/chat/errors/ChatError.ts",
    "sessionId": "thread-1",
}

# name: object, what its event must contain
STORIES: dict[str, tuple[dict[str, Any], Row]] = {
    "roo: missing parameter": (
        ROO_MISSING,
        {
            "source": "roo-code",
            "operation": "tool",
            "outcome": "error",
            "error_class": "MissingParameterError",
            "classified_by": "reported",
            "mistake": True,
            "recovery": "fix_and_retry",
            "tool": "write_to_file",
            "session": "task-1",
            "severity": "warn",
            "params": '{"content":"hello"}',
        },
    ),
    "roo: a failed read is no mistake": (
        ROO_NOT_FOUND,
        {
            "error_class": "FileNotFoundError",
            "reported_class": "FileNotFoundToolError",
            "mistake": False,
            "target": "src/app.ts",
            "retryable": True,
            "severity": "error",
        },
    ),
    "roo: what the model is told": (
        ROO_TOLD,
        {
            "source": "roo-code",
            "operation": "tool",
            "error_class": "FileNotFoundError",
            "target": "src/app.ts",
            "suggestion": "Verify the file path exists using list_files",
        },
    ),
    "roo: no error type": (
        {
            "level": "error",
            "category": "tool_execution",
            "tool": "read_file",
            "error_type": "UnknownError",
            "message": "something odd",
            "timestamp": MS,
        },
        {"operation": "tool", "outcome": "error", "error_class": "UnknownError"},
    ),
    "roo: the category stands in": (
        {
            "level": "warn",
            "category": "tool_validation",
            "tool": "read_file",
            "message": "odd",
            "timestamp": MS,
        },
        {"reported_class": "tool_validation", "error_class": "InvalidParameterError", "classified_by": "alias"},
    ),
    "roo: stream stopped by the user": (
        {
            "level": "info",
            "category": "streaming",
            "error_type": "StreamAbortedError",
            "message": "Stream aborted by user",
        },
        {"operation": "model", "outcome": "cancelled", "error_class": "StreamAbortedError", "mistake": False},
    ),
    "roo: provider broke the stream": (
        {
            "level": "error",
            "category": "streaming",
            "error_type": "StreamProviderError",
            "message": "socket hang up",
        },
        {"operation": "model", "outcome": "error", "error_class": "StreamProviderError", "retryable": True},
    ),
    "roo: diff": (
        {
            "level": "error",
            "category": "execution",
            "tool": "apply_diff",
            "error_type": "DiffApplyFailedError",
            "path": "a.ts",
            "message": "Unable to apply diff to file: a.ts",
            "consecutiveMistakeCount": 2,
        },
        {"error_class": "DiffApplyFailedError", "mistake": True, "reported_streak": 2, "target": "a.ts"},
    ),
    "roo: limit reached": (
        {
            "level": "error",
            "category": "state",
            "tool": "read_file",
            "error_type": "ConsecutiveMistakeError",
            "message": "3 mistakes in a row",
            "consecutiveMistakeCount": 3,
            "taskId": "task-1",
        },
        {"operation": "agent", "error_class": "ConsecutiveMistakeError", "mistake": False, "reported_streak": 3},
    ),
    "kode: file not found": (
        KODE_NOT_FOUND,
        {
            "source": "kode-sdk",
            "operation": "tool",
            "outcome": "error",
            "error_class": "FileNotFoundError",
            "reported_class": "logical",
            "retryable": True,
            "retryable_declared": True,
            "target": "/src/utils/helper.ts",
            "suggestion": "Verify the file path is correct\nUse fs_glob to search for files",
            "phase": "tool",
        },
    ),
    "kode: validation is not retryable": (
        KODE_VALIDATION,
        {
            "error_class": "MissingParameterError",
            "mistake": True,
            "retryable": False,
            "retryable_declared": False,
            "suggestion": "Check tool parameters against schema",
        },
    ),
    "kode: validation by its flag alone": (
        {"ok": False, "error": "unusable", "_validationError": True},
        {"error_class": "InvalidParameterError", "classified_by": "shape"},
    ),
    "kode: monitor": (
        KODE_MONITOR,
        {
            "operation": "tool",
            "severity": "warn",
            "phase": "tool",
            "error_class": "FileNotFoundError",
            "session": "agt-1",
            "retryable_declared": True,
        },
    ),
    "kode: progress": (
        KODE_PROGRESS,
        {
            "tool": "fs_read",
            "call_id": "call-1",
            "outcome": "error",
            "error_class": "FileNotFoundError",
            "sequence": 12,
            "target": "/src/a.ts",
            "params": '{"path":"/src/a.ts"}',
        },
    ),
    "kode: a time-out": (
        {
            "channel": "monitor",
            "type": "error",
            "severity": "error",
            "phase": "tool",
            "message": "Tool execution timed out after 60000ms",
            "detail": {"errorType": "aborted", "retryable": False},
        },
        {"outcome": "error", "error_class": "ToolTimeoutError", "retryable": False},
    ),
    "kode: an interrupt": (
        {
            "channel": "monitor",
            "type": "error",
            "severity": "warn",
            "phase": "tool",
            "message": "Interrupted by user",
            "detail": {"errorType": "aborted", "retryable": False},
        },
        {"outcome": "cancelled", "error_class": "UserInterruptError", "retryable": False},
    ),
    "kode: the model failed": (
        {
            "channel": "monitor",
            "type": "error",
            "severity": "error",
            "phase": "model",
            "message": "429 Too Many Requests",
        },
        {"operation": "model", "error_class": "RateLimitError", "retryable": True},
    ),
    "kode: the sandbox failed": (
        {
            "channel": "monitor",
            "type": "error",
            "severity": "error",
            "phase": "sandbox",
            "message": "gone",
        },
        {"operation": "agent", "phase": "sandbox", "outcome": "error"},
    ),
    "openagents: not found": (
        OPENAGENTS,
        {
            "source": "openagents",
            "operation": "tool",
            "outcome": "error",
            "error_class": "ResourceNotFoundError",
            "fatal": False,
            "tool": "get_file_contents",
            "tool_kind": "mcp",
            "call_id": "inv-1",
            "session": "thread-1",
            "target": "packages/core/src/chat/errors/ChatError.ts",
            "mistake": True,
        },
    ),
    "openagents: the path is in the message": (
        {
            "name": "ResourceNotFoundError",
            "message": "No such file or directory: 'docs/plan.md'",
            "toolName": "read",
            "nonFatal": True,
        },
        {"target": "docs/plan.md", "fatal": False},
    ),
    "openagents: no such tool": (
        {
            "name": "ToolNotFoundError",
            "message": "Tool not found: get_fle",
            "toolName": "get_fle",
            "nonFatal": True,
        },
        {"error_class": "InvalidToolError", "fatal": False, "mistake": True},
    ),
    "openagents: authentication": (
        {
            "name": "ToolAuthenticationError",
            "message": "Bad credentials",
            "toolName": "create_issue",
            "nonFatal": False,
        },
        {"error_class": "ToolAuthenticationError", "fatal": True, "recovery": "needs_user", "mistake": False},
    ),
    "openagents: a permission is fatal unless it says otherwise": (
        {
            "name": "ToolPermissionError",
            "message": "Resource not accessible by integration",
            "toolName": "merge",
        },
        {"error_class": "ToolPermissionError", "fatal": True},
    ),
    "openagents: arguments": (
        {
            "name": "ToolArgumentError",
            "message": "owner is missing",
            "toolName": "list",
            "nonFatal": True,
        },
        {"mistake": True, "category": "validation", "fatal": False},
    ),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("story", STORIES)
def test_every_example_comes_through_every_door(story: str, door: str) -> None:
    item, wanted = STORIES[story]
    if door == "flat" and "params" in wanted:  # an exporter without maps sends arguments as JSON text
        item = {name: json.dumps(value) if name == "params" else value for name, value in item.items()}
        wanted = {name: value for name, value in wanted.items() if name != "params" or "call" not in item}
    assert missing(only(through(door, item)), wanted) == {}


@pytest.mark.parametrize("story", STORIES)
def test_without_a_service_name_the_system_is_the_service(story: str) -> None:
    item, _ = STORIES[story]
    report = only(through("events", item, service=""))
    assert report["service"] == report["source"]


@pytest.mark.parametrize(
    "line",
    [
        {
            "level": "INFO",
            "target": "loopr",
            "fields": {"message": "Validation passed", "loop_id": "l1", "iteration": 3},
        },
        {"level": "DEBUG", "target": "loopr", "fields": {"message": "Executing tool", "loop_id": "l1", "tool": "read"}},
        {"level": "ERROR", "target": "nginx", "error": "upstream gone"},
        {"channel": "progress", "type": "tool:start", "call": {"id": "c", "name": "fs_read", "state": "EXECUTING"}},
        {"channel": "monitor", "type": "state_changed", "state": "READY"},
        {"level": "info", "category": "ui", "message": "panel opened"},
        {"name": "weather", "toolName": "weather", "message": "sunny"},
    ],
)
def test_what_is_no_failure_is_no_event(line: dict[str, Any]) -> None:
    for door in DOORS:
        assert through(door, line).reports == []


def test_seeds_that_report_failures_only_say_so() -> None:
    found = {name: pipeline().sources.named(name) for name in ("roo-code", "kode-sdk", "loopr", "openagents")}
    assert {name: source and source.reports_ok for name, source in found.items()} == dict.fromkeys(found, False)
