"""Claude Code by its documented signals: log events, spans of the beta, and one event for all reports of a call."""

from __future__ import annotations

import json
from typing import Any

import pytest

from collector.columns import Row
from tests.doors import NOW, logs, only, pairs, spans, stored, taken

SESSION = {"session.id": "s1", "prompt.id": "p1"}


def log(name: str, sequence: Any = 1, **attributes: Any) -> dict[str, Any]:
    """One log record as Claude Code sends it: the event's name in an attribute, and with a prefix as the body."""
    own = {"event.name": name, "event.sequence": sequence, "event.timestamp": "2026-11-21T21:41:51.000Z", **SESSION}
    return {"body": f"claude_code.{name}", "attributes": own | attributes}


def one(*records: dict[str, Any]) -> Any:
    return only(taken(logs(*records, service="claude-code")))


CASES: dict[str, tuple[dict[str, Any], Row | None]] = {
    "a call that ended well": (
        log(
            "tool_result",
            7,
            tool_name="Read",
            tool_use_id="t1",
            success="true",
            duration_ms="12",
            decision_type="accept",
        ),
        {
            "operation": "tool",
            "outcome": "ok",
            "tool": "Read",
            "call_id": "t1",
            "session": "s1",
            "turn": "p1",
            "sequence": 7,
            "duration_ms": 12.0,
        },
    ),
    "an errno in the class": (
        log("tool_result", tool_name="Read", tool_use_id="t1", success="false", error_type="Error:ENOENT"),
        {"outcome": "error", "error_class": "FileNotFoundError", "classified_by": "alias"},
    ),
    "a shell command that failed": (
        log(
            "tool_result",
            tool_name="Bash",
            tool_use_id="t1",
            success="false",
            error_type="ShellError",
            error="Exit code 1\nboom",
            tool_parameters=json.dumps({"bash_command": "make", "full_command": "make test"}),
        ),
        {"outcome": "error", "error_class": "CommandFailedError", "target": "make test", "tool_kind": "command"},
    ),
    "a shell command that is not there": (
        log(
            "tool_result",
            tool_name="Bash",
            tool_use_id="t1",
            success="false",
            error_type="ShellError",
            error="Exit code 127\nbash: rg: command not found",
        ),
        {"error_class": "CommandNotFoundError", "mistake": True},
    ),
    "a shell command that took too long": (
        log(
            "tool_result",
            tool_name="Bash",
            tool_use_id="t1",
            success="false",
            error_type="ShellError",
            error="Command timed out after 2m 0.0s",
        ),
        {"error_class": "CommandTimeoutError"},
    ),
    "an edit without a match": (
        log(
            "tool_result",
            tool_name="Edit",
            tool_use_id="t1",
            success="false",
            error_type="Error",
            error="String to replace not found in file.\nString: foo",
            tool_input=json.dumps({"file_path": "a.py"}),
        ),
        {"error_class": "ContentNotFoundError", "target": "a.py", "mistake": True},
    ),
    "an MCP tool goes by its own name": (
        log(
            "tool_result",
            tool_name="mcp_tool",
            tool_use_id="t1",
            success="true",
            tool_parameters=json.dumps({"mcp_server_name": "files", "mcp_tool_name": "read"}),
        ),
        {"tool": "read", "mcp_server": "files"},
    ),
    "a person said no": (
        log("tool_decision", tool_name="Bash", tool_use_id="t2", decision="reject", source="user_reject"),
        {"outcome": "denied", "error_class": "ToolPermissionError", "call_id": "t2", "mistake": False},
    ),
    "a policy said no": (
        log("tool_decision", tool_name="Bash", tool_use_id="t2", decision="reject", source="config"),
        {"outcome": "denied"},
    ),
    "a person interrupted": (
        log("tool_decision", tool_name="Bash", tool_use_id="t2", decision="reject", source="user_abort"),
        {"outcome": "cancelled"},
    ),
    "consent is no outcome": (
        log("tool_decision", tool_name="Bash", tool_use_id="t2", decision="accept", source="config"),
        None,
    ),
    "a model request": (
        log(
            "api_request",
            model="m",
            input_tokens="10",
            output_tokens="5",
            cost_usd="0.01",
            duration_ms="900",
            request_id="r1",
        ),
        {"operation": "model", "outcome": "ok", "model": "m", "input_tokens": 10, "output_tokens": 5, "cost_usd": 0.01},
    ),
    "a rate limit": (
        log(
            "api_error", model="m", error='429 {"type":"rate_limit_error"}', status_code=429, attempt=11, duration_ms=9
        ),
        {
            "operation": "model",
            "outcome": "error",
            "error_class": "RateLimitError",
            "status_code": 429,
            "attempt": 11,
            "retryable": True,
        },
    ),
    "an overload": (
        log("api_error", model="m", error="529 overloaded_error", status_code="529", attempt="3"),
        {"error_class": "OverloadedError", "status_code": 529, "attempt": 3},
    ),
    "no connection": (
        log("api_error", model="m", error="Connection error.", attempt=11),
        {"error_class": "ConnectionError"},
    ),
    "a request that was stopped": (log("api_error", model="m", error="Request was aborted."), {"outcome": "cancelled"}),
    "the twin of an API error": (
        log("api_retries_exhausted", model="m", error="429", status_code=429, total_attempts=11),
        None,
    ),
    "a refusal": (log("api_refusal", model="m", attempt=1), {"outcome": "error", "error_class": "RefusedError"}),
    "an MCP server that does not start": (
        log("mcp_server_connection", status="failed", transport_type="stdio", error_code="ENOENT", server_name="files"),
        {"operation": "agent", "error_class": "McpConnectionError", "mcp_server": "files"},
    ),
    "an MCP server that starts": (log("mcp_server_connection", status="connected"), None),
    "a bug of the agent": (log("internal_error", error_name="TypeError"), {"operation": "agent", "outcome": "error"}),
    "a prompt": (log("user_prompt", prompt="secret plan"), None),
    "a hook": (log("hook_execution_complete", num_blocking=1, num_non_blocking_error=2), None),
}


@pytest.mark.parametrize("case", CASES)
def test_log_events(case: str) -> None:
    record, wanted = CASES[case]
    batch = taken(logs(record, service="claude-code"))
    if wanted is None:
        assert batch.reports == []
        return
    report = only(batch)
    assert {name: report.get(name) for name in wanted} == wanted
    assert report["source"] == "claude-code"


@pytest.mark.parametrize("service", ["claude-code", "claude-code-desktop", "my-wrapper", ""])
@pytest.mark.parametrize("named", ["attribute", "body", "both"])
def test_the_event_is_known_by_either_of_its_names(service: str, named: str) -> None:
    record = log("tool_result", tool_name="Read", tool_use_id="t1", success="true")
    if named == "attribute":
        del record["body"]
        record["attributes"]["event.name"] = "claude_code.tool_result" if "claude" not in service else "tool_result"
    elif named == "body":
        del record["attributes"]["event.name"]
    elif "claude" not in service:
        record["attributes"]["event.name"] = "claude_code.tool_result"
    assert only(taken(logs(record, service=service)))["source"] == "claude-code"


def test_no_person_and_no_prompt_is_kept() -> None:
    people = {
        "user.email": "ann@example.org",
        "user.account_uuid": "u",
        "organization.id": "o",
        "terminal.type": "xterm",
    }
    report = one(log("tool_result", tool_name="Read", tool_use_id="t1", success="true", **people))
    assert "ann" not in json.dumps(report, default=str)


TOOL = {"tool_name": "Edit", "tool_use_id": "t9", "session.id": "s1", "agent_id": "sub-1", "file_path": "a.py"}


def span(name: str, own: str, parent: str, status: Any = 0, **attributes: Any) -> dict[str, Any]:
    return {
        "name": f"claude_code.{name}",
        "spanId": own,
        "parentSpanId": parent,
        "status": status,
        "attributes": attributes,
    }


def call(execution: dict[str, Any] | None = None, blocked: dict[str, Any] | None = None) -> bytes:
    """The spans of one call below its interaction."""
    records = [
        span("interaction", "1", "", **{"session.id": "s1", "interaction.sequence": 1}),
        span("tool", "2", "1", **TOOL),
    ]
    if execution is not None:
        records.append(span("tool.execution", "3", "2", 2, tool_use_id="t9", **execution))
    if blocked is not None:
        records.append(span("tool.blocked_on_user", "4", "2", duration_ms=5000, **blocked))
    return spans(*records, service="claude-code")


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (call(), {"outcome": "ok"}),
        (call({"success": "false", "error": "Error:ENOENT"}), {"outcome": "error", "error_class": "FileNotFoundError"}),
        (
            call({"success": "false", "error": "String to replace not found in file."}),
            {"outcome": "error", "error_class": "ContentNotFoundError", "reported_class": None},
        ),
        (call(None, {"decision": "reject", "source": "user_reject"}), {"outcome": "denied"}),
        (call(None, {"decision": "reject", "source": "user_abort"}), {"outcome": "cancelled"}),
        (
            call({"success": "false", "error": "ShellError"}, {"decision": "accept", "source": "config"}),
            {"outcome": "error"},
        ),
    ],
)
def test_the_spans_of_a_call_are_one_event(body: bytes, wanted: Row) -> None:
    rows = stored([taken(body, "traces")])
    assert len(rows) == 1
    whole = {"tool": "Edit", "call_id": "t9", "subagent": "sub-1", "target": "a.py", "session": "s1"} | wanted
    assert {name: rows[0].get(name) for name in whole} == whole


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_log_span_and_hook_of_one_call_are_one_event(order: tuple[int, ...]) -> None:
    hook = {
        "hook_event_name": "PostToolUseFailure",
        "session_id": "s1",
        "tool_name": "Edit",
        "tool_use_id": "t9",
        "tool_input": {"file_path": "a.py", "old_string": "x"},
        "error": "String to replace not found in file.",
    }
    batches = [
        taken(
            logs(
                log("tool_result", tool_name="Edit", tool_use_id="t9", success="false", error_type="Error"),
                service="claude-code",
            )
        ),
        taken(call({"success": "false", "error": "Error"}), "traces"),
        taken(json.dumps(hook).encode(), "events"),
    ]
    rows = stored(*([batches[position]] for position in order))
    assert len(rows) == 1
    wanted = {"outcome": "error", "error_class": "ContentNotFoundError", "subagent": "sub-1", "service": "claude-code"}
    assert {name: rows[0].get(name) for name in wanted} == wanted


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
@pytest.mark.parametrize("failed", [False, True])
def test_a_call_of_an_old_version_is_one_event_although_its_span_has_no_id(
    order: tuple[int, ...], failed: bool
) -> None:
    facts = {"success": "false", "error": "Shell command failed", "use_id": "t9"} if failed else {"success": "true"}
    called = span("tool", "2", "1", **{"session.id": "s1"}, tool_name="Bash", full_command="make")
    ended = span("tool.execution", "3", "2", success=True)  # that of another call made at once
    hook = {"hook_event_name": "PostToolUse", "session_id": "s1", "tool_name": "Bash", "tool_use_id": "t9"}
    reports = (
        lambda: taken(logs(log("tool_result", tool_name="Bash", **facts), service="claude-code")),
        lambda: taken(spans(called, ended, service="claude-code"), "traces"),
        lambda: taken(json.dumps(hook | {"tool_response": {}, "time": NOW / 10**9}).encode(), "events"),
    )
    rows = stored(*([reports[number]()] for number in order if not (failed and number == 2)))
    wanted = ("error" if failed else "ok", "t9", "make")
    assert [(row["outcome"], row["call_id"], row["target"]) for row in rows] == [wanted]


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("rejected", [False, True])
def test_a_log_with_an_id_and_a_span_without_are_one_event(order: int, rejected: bool) -> None:
    called = span("tool", "2", "1", **{"session.id": "s1"}, tool_name="Bash", full_command="make")
    ended = log("tool_result", tool_name="Bash", tool_use_id="t9", success="true")
    refused = log("tool_decision", tool_name="Bash", tool_use_id="t9", decision="reject", source="user_reject")
    request = json.loads(logs(refused if rejected else ended, service="claude-code"))
    resource = request["resourceLogs"][0]["resource"]
    resource["attributes"] += pairs({"service.version": "2.1.142"})
    batches = [taken(json.dumps(request).encode()), taken(spans(called, service="claude-code"), "traces")]
    rows = stored(*([batch] for batch in batches[::order]))
    wanted = ("denied" if rejected else "ok", "t9", "make")
    assert [(row["outcome"], row["call_id"], row["target"]) for row in rows] == [wanted]


def read_of_an_old_version(*times: int) -> bytes:
    """Calls whose records differ in nothing but these times."""
    facts = {"event.name": "tool_result", **SESSION, "tool_name": "Read", "success": "true", "duration_ms": "1"}
    return logs(*({"timeUnixNano": str(time), "attributes": facts} for time in times), service="claude-code")


def test_equal_records_of_one_request_are_calls_made_at_once() -> None:
    whole, part = read_of_an_old_version(NOW, NOW), read_of_an_old_version(NOW)
    # A collector on the way put the first sending and its repetition into one request.
    both = json.dumps({"resourceLogs": 2 * json.loads(whole)["resourceLogs"]}).encode()
    for bodies in ([whole], [whole, whole], [whole, part, part], [part, whole], [both], [both, part, whole]):
        assert len(stored(*([taken(body)] for body in bodies))) == 2
    assert len(stored([taken(read_of_an_old_version(NOW + 1, NOW + 1))])) == 1  # no clock gives two calls this time


def test_a_refused_call_with_a_span_is_denied_once() -> None:
    decision = log("tool_decision", tool_name="Edit", tool_use_id="t9", decision="reject", source="user_reject")
    rows = stored([taken(logs(decision, service="claude-code"))], [taken(call(), "traces")])
    assert [(row["outcome"], row["tool"]) for row in rows] == [("denied", "Edit")]


def test_one_failed_request_counts_once() -> None:
    error = {"model": "m", "error": "529 overloaded_error", "status_code": 529, "attempt": 11, "request_id": "r1"}
    records = [log("api_error", 1, **error), log("api_retries_exhausted", 2, **error, total_attempts=11)]
    request = span(
        "llm_request",
        "5",
        "1",
        2,
        **{
            "session.id": "s1",
            "model": "m",
            "success": "false",
            "status_code": 529,
            "error": "Overloaded",
            "request_id": "r1",
            "attempt": 11,
        },
    )
    rows = stored(
        [taken(logs(*records, service="claude-code"))], [taken(spans(request, service="claude-code"), "traces")]
    )
    assert [(row["operation"], row["error_class"], row["attempt"]) for row in rows] == [
        ("model", "OverloadedError", 11)
    ]


@pytest.mark.parametrize("order", [(0,), (1,), (2,), (0, 1), (1, 0), (0, 1, 2), (2, 1, 0)])
def test_a_failed_request_without_an_id_counts_once_whoever_tells_of_it(order: tuple[int, ...]) -> None:
    facts = {"session.id": "s1", "model": "m", "error": "Connection error.", "attempt": 2}
    traced = span("llm_request", "5", "1", 2, **facts, success=False, error_class="connection_error")
    hook = {"hook_event_name": "StopFailure", "session_id": "s1", "error": "Connection error."}
    reports = (
        lambda: taken(logs(log("api_error", 1, **facts), service="claude-code")),
        lambda: taken(spans(traced, service="claude-code"), "traces"),
        lambda: taken(json.dumps(hook | {"time": NOW / 10**9}).encode(), "events"),
    )
    rows = stored(*([reports[number]()] for number in order))
    assert [(row["operation"], row["error_class"], row["session"]) for row in rows] == [
        ("model", "ConnectionError", "s1")
    ]


def test_requests_without_an_id_that_differ_stay_apart() -> None:
    tokens = {"session.id": "s1", "model": "m", "input_tokens": 10}
    said = [log("api_request", number, **tokens, output_tokens=number) for number in (1, 2)]
    traced = [
        span("llm_request", f"{number}", "f", 0, **tokens, success=True, output_tokens=number, attempt=1)
        for number in (2, 3)
    ]
    rows = stored([taken(logs(*said, service="claude-code"))], [taken(spans(*traced, service="claude-code"), "traces")])
    assert sorted(row["output_tokens"] for row in rows) == [1, 2, 3]


TOLD = "<tool_use_error>String to replace not found in file.\nString: x</tool_use_error>"
NEVER_RAN = {
    "the raw body of a request": lambda: taken(
        logs(
            log(
                "api_request_body",
                body=json.dumps(
                    {
                        "messages": [
                            {"role": "assistant", "content": [
                                {"type": "tool_use", "id": "t1", "name": "Edit", "input": {"file_path": "/a"}},
                            ]},
                            {"role": "user", "content": [
                                {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": TOLD},
                            ]},
                        ]
                    }
                ),
            ),
            service="claude-code",
        )
    ),
    "the new context of a span": lambda: taken(
        spans(
            span(
                "llm_request", "5", "1", 0, success=True, request_id="r1",
                **{"session.id": "s1", "new_context": f"[TOOL RESULT: t0]\nfine\n\n---\n\n[TOOL RESULT: t1]\n{TOLD}"},
            ),
            service="claude-code",
        ),
        "traces",
    ),
    "the hook after a batch": lambda: taken(
        json.dumps(
            {
                "hook_event_name": "PostToolBatch",
                "session_id": "s1",
                "tool_calls": [
                    {"tool_name": "Read", "tool_input": {}, "tool_use_id": "t0", "tool_response": "fine"},
                    {"tool_name": "Edit", "tool_input": {}, "tool_use_id": "t1", "tool_response": TOLD},
                ],
            }
        ).encode(),
        "events",
    ),
}  # fmt: skip


@pytest.mark.parametrize("place", NEVER_RAN)
def test_a_call_that_never_ran_is_told_by(place: str) -> None:
    calls = [row for row in stored([NEVER_RAN[place]()]) if row["operation"] == "tool"]
    assert [(row["call_id"], row["outcome"], row["error_class"], row["session"]) for row in calls] == [
        ("t1", "error", "ContentNotFoundError", "s1")
    ]


@pytest.mark.parametrize(("took", "name"), [(1509, "CommandTimeoutError"), (900, "CommandFailedError")])
def test_a_command_that_took_its_whole_timeout_timed_out(took: int, name: str) -> None:
    report = one(
        log(
            "tool_result", tool_name="Bash", tool_use_id="t1", success="false", duration_ms=str(took),
            error_type="ShellError", error="Shell command failed",
            tool_input=json.dumps({"command": "sleep 20", "timeout": 1500}),
        )
    )  # fmt: skip
    assert report["error_class"] == name
