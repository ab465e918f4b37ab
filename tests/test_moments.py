"""Events of a span that a table takes for records of their own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.doors import NOW, spans, taken

NAME = "github.copilot.mcp.server"


def lifecycle(state: str, server: str, at: int, **more: str) -> dict[str, Any]:
    """What Copilot's command line tells of a server."""
    told = {f"{NAME}.state": state, f"{NAME}.name": server} | {f"{NAME}.{key}": value for key, value in more.items()}
    return {"name": f"{NAME}.lifecycle", "timeUnixNano": str(NOW - at), "attributes": told}


def turn(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The span of a turn in which all servers start."""
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "s1"}
    return {
        "name": "invoke_agent", "traceId": "0a" * 16, "attributes": attributes, "events": events,
    }  # fmt: skip


STARTED = [lifecycle("discovered", "files", 8_000_000), lifecycle("initialized", "files", 7_000_001)]
BROKEN = lifecycle("error", "broken", 7_000_003, error="failed to spawn MCP server process: No such file or directory")
FAILED = {"name": "gen_ai.client.operation.exception", "attributes": {"github.copilot.message": "529 Overloaded"}}


@pytest.mark.parametrize(
    ("events", "servers"),
    [
        (STARTED, []),
        ([*STARTED, BROKEN], ["broken"]),
        ([BROKEN, *STARTED, lifecycle("error", "other", 6_000_009)], ["broken", "other"]),
        ([BROKEN, FAILED], ["broken"]),
        ([lifecycle("disabled", "files", 6_000_001)], []),
    ],
)
def test_each_server_that_does_not_start_is_one_event(events: list[dict[str, Any]], servers: list[str]) -> None:
    batch = taken(spans(turn(events), scope="github.copilot"), "traces")
    found = [report for report in batch.reports if report["operation"] == "agent"]
    assert [report["mcp_server"] for report in found] == servers
    assert {report["error_class"] for report in found} <= {"McpConnectionError"}
    assert {report["trace_id"] for report in found} <= {"0a" * 16}
    assert batch.kept + batch.dropped.total() == batch.records == 1
