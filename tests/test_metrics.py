"""The metrics of calls and rules, and that the Grafana dashboard queries series that exist."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from tests.conftest import HTTP, RunningCollector, wait_until

ROOT = Path(__file__).parent.parent


def test_a_collector_shows_calls_and_firing_rules(
    start_collector: Callable[..., RunningCollector], tmp_path: Path
) -> None:
    rules = tmp_path / "alerts.yaml"
    rules.write_text(
        "rules:\n  - {name: any-error, measure: errors, condition: '> 0', severity: critical}\n"
        "  - {name: many, measure: errors, condition: '> 99'}\n"
    )
    collector = start_collector(RULES=str(rules))
    entry = {
        "resourceLogs": [{
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "gemini-cli"}}]},
            "scopeLogs": [{"logRecords": [{"attributes": [
                {"key": "event.name", "value": {"stringValue": "gemini_cli.tool_call"}},
                {"key": "function_name", "value": {"stringValue": "read_file"}},
                {"key": "error_type", "value": {"stringValue": "file_not_found"}},
                {"key": "call_id", "value": {"stringValue": "c1"}},
                {"key": "success", "value": {"boolValue": False}},
            ]}]}],
        }]
    }  # fmt: skip
    for _ in range(2):
        assert collector.post("/v1/logs", json.dumps(entry)).status_code == 200

    def shown() -> str:
        return HTTP.get(f"{collector.url}/metrics").text

    wait_until(lambda: 'misstep_alerts_firing{rule="any-error",severity="critical"} 1.0' in shown(), 25, shown)
    assert HTTP.get(f"{collector.url}/metrics", headers={"host": "evil.example"}).status_code == 403
    text = shown()
    assert 'misstep_alerts_firing{rule="many",severity="warning"} 0.0' in text
    dashboard = json.loads((ROOT / "examples/grafana.json").read_text())
    asked = {name for panel in dashboard["panels"] for one in panel["targets"] for name in _names(one["expr"])}
    assert asked
    assert asked - set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE)) == set()


def _names(expression: str) -> set[str]:
    return set(re.findall(r"misstep_\w+", expression))
