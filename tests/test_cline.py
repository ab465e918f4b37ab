"""Cline: log events whose body is the event's name."""

from __future__ import annotations

from typing import Any

import pytest

from collector.columns import Row
from tests.doors import cline, logs, only, taken

CLINE: dict[str, tuple[dict[str, Any], Row | None]] = {
    "a call": (
        cline("task.tool_used", tool="read_file", success=True, modelId="m", provider="p", autoApproved=True),
        {"operation": "tool", "outcome": "ok", "tool": "read_file", "session": "u1", "model": "m", "provider": "p"},
    ),
    "a call that failed": (cline("task.tool_used", tool="read_file", success=False), {"outcome": "error"}),
    "a sub-agent's call": (
        cline("task.tool_used", tool="read_file", success="true", isSubagent=True, agentId="a1"),
        {"subagent": "a1"},
    ),
    "the main agent's call": (
        cline("task.tool_used", tool="read_file", success=True, isSubagent=False, agentId="a0"),
        {"subagent": None},
    ),
    "absent is absent": (
        cline("task.tool_used", tool="read_file", success=True, conversationId="undefined"),
        {"session": "u1"},
    ),
    "a failed diff": (
        cline("task.diff_edit_failed", errorType="the search block is not in the file"),
        {"outcome": "error", "operation": "tool", "mistake": True},
    ),
    "a time-out": (
        cline(
            "sdk.tool_timeout",
            tool_name="execute_command",
            tool_call_id="c1",
            duration_ms=30001,
            effective_timeout_ms=30000,
        ),
        {"outcome": "error", "error_class": "CommandTimeoutError", "call_id": "c1"},
    ),
    "plan mode": (cline("sdk.plan_mode_command_blocked"), {"outcome": "denied", "error_class": "ToolPermissionError"}),
    "an API error": (
        cline(
            "task.provider_api_error",
            model="m",
            provider="p",
            errorMessage="rate limit",
            errorStatus=429,
            requestId="r1",
        ),
        {"operation": "model", "error_class": "RateLimitError", "status_code": 429, "retryable": True},
    ),
    "a broken stream": (
        cline(
            "task.provider_stream_failed",
            error_type="Error",
            error_message="too long",
            error_class="context_window_exceeded",
        ),
        {"operation": "model", "error_class": "ContextOverflowError"},
    ),
    "its own streak": (
        cline(
            "task.mistake_limit_reached",
            reason="tool_execution_failed",
            consecutiveMistakes=6,
            maxConsecutiveMistakes=6,
        ),
        {"operation": "agent", "error_class": "ConsecutiveMistakeError", "reported_streak": 6, "mistake": False},
    ),
    "a cancelled task": (cline("task.cancelled"), {"operation": "agent", "outcome": "cancelled"}),
    "a new task": (cline("task.created", apiProvider="p"), None),
}


@pytest.mark.parametrize("case", CLINE)
def test_cline(case: str) -> None:
    record, wanted = CLINE[case]
    batch = taken(logs(record, service="cline", scope="cline"))
    if wanted is None:
        assert batch.reports == []
        return
    report = only(batch)
    assert {name: report.get(name) for name in wanted} == wanted
