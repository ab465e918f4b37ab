"""From end to end, from outside: a request, the event, the rule that fires, the message, the resolution."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conftest import RunningCollector, wait_until
from tests.webhook import Webhook

RULES = """
rules:
  - name: three-in-a-row
    measure: streak
    by: [service, session]
    window: 1h
    condition: ">= 3"
    severity: warning
    summary: "{{ service }}: {{ value }} mistakes in a row"
    notify: [hook]
receivers:
  hook: {webhook: "%s", group_wait: 0s, group_interval: 0s}
"""


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    hook = Webhook()
    yield hook
    hook.close()


SECRET = "9f8e7d6c5b4a" + "3f2e1d0c9b8a7654"


def call(number: int, error: str = "") -> bytes:
    """One call of apply_diff, reported by the GenAI conventions."""
    attributes = {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "apply_diff", "gen_ai.conversation.id": "task-1",
        "gen_ai.tool.call.id": f"call_{number}",
        "gen_ai.tool.call.arguments": json.dumps({"path": "/srv/app/main.py", "api_key": SECRET}),
    }  # fmt: skip
    if error:
        attributes["error.type"] = error
    span = {
        "name": "execute_tool apply_diff", "traceId": f"{number + 1:032x}", "spanId": f"{number + 1:016x}",
        "endTimeUnixNano": str(time.time_ns()), "status": {"code": 2, "message": "missing path"} if error else {},
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
    }  # fmt: skip
    service = [{"key": "service.name", "value": {"stringValue": "coder"}}]
    scopes = [{"spans": [span]}]
    return json.dumps({"resourceSpans": [{"resource": {"attributes": service}, "scopeSpans": scopes}]}).encode()


def test_three_mistakes_in_a_row_reach_the_webhook_and_a_success_resolves_them(
    start_collector: Callable[..., RunningCollector], webhook: Webhook, tmp_path: Any
) -> None:
    rules = tmp_path / "alerts.yaml"
    rules.write_text(RULES % webhook.url)
    collector = start_collector(RULES=str(rules))
    for number in range(3):
        assert collector.post("/v1/traces", call(number, "MissingParameterError")).status_code == 200

    wait_until(lambda: webhook.taken, lambda: str(collector.get("/api/v1/rules")))
    assert webhook.told == [("firing", ["firing coder task-1"])]
    assert webhook.taken[0]["alerts"][0]["annotations"]["summary"] == "coder: 3 mistakes in a row"
    firing = collector.get("/api/v1/alerts")["rows"]
    assert [(row["rule"], row["state"], row["value"]) for row in firing] == [("three-in-a-row", "firing", 3)]
    assert [row["length"] for row in collector.kept_up().get("/api/v1/streaks", state="open")["rows"]] == [3]

    collector.restart()
    assert collector.post("/v1/traces", call(3)).status_code == 200
    wait_until(lambda: len(webhook.taken) > 1, lambda: str(collector.get("/api/v1/alerts")))
    assert webhook.told[1:] == [("resolved", ["resolved coder task-1"])]
    assert [row["state"] for row in collector.kept_up().get("/api/v1/streaks")["rows"]] == ["recovered"]

    event = collector.events()[-1]
    assert (event["error_class"], event["mistake"], event["target"]) == (
        "MissingParameterError",
        True,
        "/srv/app/main.py",
    )
    assert event["params"]["api_key"].startswith("[redacted:")
    assert SECRET not in json.dumps(collector.events())
    assert collector.get("/api/v1/health")["redactions"]
