"""Loopr's errors: as text, as the enum's path and as serde writes them, in every way in."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.doors import DOORS, NOW, missing, only, through

LOOPR = {
    'Tool error: Path "/etc/passwd" escapes worktree sandbox "/w/l1"': (
        "SandboxViolation",
        "SandboxViolationError",
        "tool",
    ),
    "Tool error: File not found: src/lib.rs": ("FileNotFound", "FileNotFoundError", "tool"),
    "Tool error: Must read file before editing: src/lib.rs": ("EditWithoutRead", "EditWithoutReadError", "tool"),
    "Tool error: Command timed out after 120000ms": ("CommandTimeout", "CommandTimeoutError", "tool"),
    "Tool error: Command failed with exit code 101: test result: FAILED": (
        "CommandFailed",
        "CommandFailedError",
        "tool",
    ),
    "Tool error: Tool not found: raed_file": ("UnknownTool", "InvalidToolError", "tool"),
    "Tool error: Invalid tool input: missing `path`": ("InvalidInput", None, "tool"),
    "LLM error: Rate limited, retry after 30s": ("RateLimited", "RateLimitError", "model"),
    "LLM error: API error 503: unavailable": (None, "ServerError", "model"),
    "LLM error: API error 400: bad request": (None, "ApiError", "model"),
    "LLM error: Network error: error sending request": ("Network", "ConnectionError", "model"),
    "LLM error: Invalid response: missing field `content`": ("InvalidResponse", "InvalidResponseError", "model"),
    "LLM error: Invalid response: no content": ("InvalidResponse", "InvalidResponseError", "model"),
    "LLM error: Invalid response: unexpected end of JSON input": ("InvalidResponse", "InvalidResponseError", "model"),
    "LLM error: Context limit exceeded: 210000 tokens > 200000 max": (
        "ContextOverflow",
        "ContextOverflowError",
        "model",
    ),
    "LLM error: Timeout after 60s": ("Timeout", "TimeoutError", "model"),
    "Storage error: Record not found: l7": ("NotFound", "StorageNotFoundError", "agent"),
    "Storage error: Record already exists: l7": ("AlreadyExists", "StorageAlreadyExistsError", "agent"),
    "Storage error: JSONL parse error at line 3: expected value": ("ParseError", "StorageParseError", "agent"),
    "Storage error: JSONL parse error at line 12: missing field `id`": ("ParseError", "StorageParseError", "agent"),
    "Storage error: Serialization error: missing field `id`": ("Serialization", "SerializationError", "agent"),
    "Storage error: SQLite error: database is locked": ("Sqlite", "SqliteError", "agent"),
    "Storage error: IO error: Input/output error (os error 5)": ("Io", "IoError", "agent"),
    "Storage error: Serialization error: key must be a string": ("Serialization", "SerializationError", "agent"),
    "Loop error: Invalid state transition: Done -> Running": ("InvalidTransition", "InvalidTransitionError", "agent"),
    "Loop error: Max iterations (50) reached without validation passing": (
        "MaxIterations",
        "MaxIterationsError",
        "agent",
    ),
    "Loop error: Parent loop l3 not found": ("ParentNotFound", "ParentNotFoundError", "agent"),
    "Loop error: Triggering artifact not found: plan.md": ("ArtifactNotFound", "ArtifactNotFoundError", "agent"),
    "Loop error: Loop l4 was invalidated: parent changed": ("Invalidated", "LoopInvalidatedError", "agent"),
    "Loop error: Validation failed: 2 tests fail": ("ValidationFailed", "ValidationFailedError", "agent"),
    "Git error: Failed to create worktree: exists": ("WorktreeCreation", "WorktreeCreationError", "agent"),
    "Git error: Failed to remove worktree: busy": ("WorktreeRemoval", "WorktreeRemovalError", "agent"),
    'Git error: Merge conflict in files: ["a.rs"]': ("MergeConflict", "MergeConflictError", "agent"),
    "Git error: Branch loop/l4 not found": ("BranchNotFound", "BranchNotFoundError", "agent"),
    "Git error: Git command failed: git push - refused": ("CommandFailed", "GitCommandFailedError", "agent"),
    'Config error: Config file not found: "loopr.toml"': ("FileNotFound", "ConfigFileNotFoundError", "agent"),
    "Config error: Invalid config: no model": ("Invalid", "InvalidConfigError", "agent"),
    "Config error: Invalid config: missing field `model`": ("Invalid", "InvalidConfigError", "agent"),
    "Config error: Missing required field: model": ("MissingField", "MissingFieldError", "agent"),
    "Config error: Invalid value for retries: -1 (expected 0 or more)": ("InvalidValue", "InvalidValueError", "agent"),
    "Config error: Environment variable API_URL not set": ("EnvNotSet", "EnvNotSetError", "agent"),
}
ENUMS = {
    "Tool": "ToolError",
    "LLM": "LlmError",
    "Storage": "StorageError",
    "Loop": "LoopError",
    "Git": "GitError",
    "Config": "ConfigError",
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("text", LOOPR)
def test_loopr_s_errors_as_text(text: str, door: str) -> None:
    _, wanted, operation = LOOPR[text]
    line = {
        "level": "ERROR",
        "message": "Loop failed permanently",
        "error": text,
        "loop_id": "l1",
        "target": "loopr::manager",
    }
    report = only(through(door, line))
    assert (report["source"], report["operation"], report["outcome"]) == ("loopr", operation, "error")
    assert (report["session"], report["severity"]) == ("l1", "error")
    if wanted:
        assert report["error_class"] == wanted


@pytest.mark.parametrize("text", [text for text, (variant, _, _) in LOOPR.items() if variant])
def test_loopr_s_errors_as_enum_and_as_serde_writes_it(text: str) -> None:
    variant, wanted, operation = LOOPR[text]
    category = text.split(" ", 1)[0]
    path = f"{ENUMS[category]}::{variant}"
    outer = "Llm" if category == "LLM" else category
    line = {"timestamp": "2026-11-21T21:41:50.5Z", "level": "ERROR", "target": "loopr"}
    shapes: list[dict[str, Any]] = [
        {**line, "fields": {"message": "failed", "loop_id": "l1", "error": {outer: {variant: {"message": "m"}}}}},
        {
            **line,
            "fields": {"message": "failed", "loop_id": "l1", "error": json.dumps({outer: {variant: {"message": "m"}}})},
        },
        {outer: {variant: {"message": "m"}}},
        {outer: {variant: "m"}, "loop_id": "l1"},
    ]
    if operation != "agent":
        shapes.append({**line, "fields": {"message": "failed", "loop_id": "l1", "error": path}})
    for shape in shapes:
        report = only(through("events", shape, service=""))
        assert (report["source"], report["operation"], report["reported_class"]) == ("loopr", operation, path), shape
        if wanted:
            assert report["error_class"] == wanted, shape


def test_loopr_s_retries_tell_attempt_and_delay() -> None:
    line = {
        "timestamp": "2026-11-21T21:41:50.5Z",
        "level": "WARN",
        "target": "loopr::llm",
        "span": {"name": "iteration"},
        "fields": {
            "message": "Retrying after transient error",
            "error": "LLM error: Network error: refused",
            "attempt": 2,
            "delay_ms": 4000,
            "loop_id": "l1",
        },
    }
    wanted = {
        "attempt": 2,
        "retry_after_ms": 4000,
        "severity": "warn",
        "error_class": "ConnectionError",
        "operation": "model",
        "time_ns": NOW - 500_000_000,
        "session": "l1",
        "retryable": True,
    }
    assert missing(only(through("events", line)), wanted) == {}


@pytest.mark.parametrize("text", ["no content", "unexpected end of JSON input"])
def test_an_answer_that_loopr_calls_invalid_is_never_worth_a_retry(text: str) -> None:
    shapes: list[dict[str, Any]] = [
        {"error": f"LLM error: Invalid response: {text}", "loop_id": "l1"},
        {"error": f"Invalid response: {text}", "loop_id": "l1"},
        {"Llm": {"InvalidResponse": text}, "loop_id": "l1"},
    ]
    for shape in shapes:
        report = only(through("events", shape, service="loopr"))
        assert missing(report, {"error_class": "InvalidResponseError", "retryable": False}) == {}, shape


@pytest.mark.parametrize("status", [503, 504, 529])
def test_loopr_waits_five_seconds_after_a_failure_of_the_server(status: int) -> None:
    report = only(through("events", {"error": f"LLM error: API error {status}: x", "loop_id": "l1"}, service="loopr"))
    assert missing(report, {"status_code": status, "retry_after_ms": 5000}) == {}


def test_loopr_s_rate_limit_tells_its_own_delay() -> None:
    item = {"Llm": {"RateLimited": {"retry_after": {"secs": 30, "nanos": 0}}}}
    report = only(through("events", item))
    assert missing(report, {"error_class": "RateLimitError", "retry_after_ms": 30_000, "retryable": True}) == {}
