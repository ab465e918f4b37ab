"""The metrics of calls and rules, and that the Grafana dashboard queries series that exist."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import promql_parser
import yaml

from collector.telemetry import CALL_LABELS
from tests.conftest import HTTP, RunningCollector, wait_until

ROOT = Path(__file__).parent.parent
RULES = (ROOT / "examples/prometheus-rules.yaml").read_text()


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

    wait_until(lambda: 'misstep_alerts_firing{rule="any-error",severity="critical"} 1.0' in shown(), shown)
    assert HTTP.get(f"{collector.url}/metrics", headers={"host": "evil.example"}).status_code == 403
    text = shown()
    assert 'misstep_alerts_firing{rule="many",severity="warning"} 0.0' in text
    shown_names = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    expressions = [*of_grafana(), *of_prometheus()]
    recorded = set(re.findall(r"record: (\S+)", RULES))
    assert len(expressions) > 15
    for expression in expressions:
        named = set(re.findall(r"\b(?:\w+:)?misstep_[\w:]+", expression))
        assert named - shown_names - recorded == set(), expression


def test_expressions_of_the_examples_are_promql_over_labels_that_there_are() -> None:
    for expression in [*of_grafana(), *of_prometheus()]:
        promql_parser.parse(expression)
        for inside in re.findall(r"misstep_calls_total\{(.*?)\}", expression):
            assert set(re.findall(r"(\w+)(?:=~|=|!=)", inside)) <= set(CALL_LABELS), expression
        for inside in re.findall(r"by \((.*?)\)", expression):
            known = {*CALL_LABELS, "rule", "severity", "fate", "reason", "instance"}
            assert set(re.split(r",\s*", inside)) <= known, expression
        if " / " in expression.replace("\n", " ") and "misstep_calls_total" in expression:
            assert expression.count('rated="true"') >= 2, "a rate is of what the API takes for a rate"


def test_the_rules_for_prometheus_have_its_form() -> None:
    [group] = yaml.safe_load(RULES)["groups"]
    assert group.keys() == {"name", "rules"}
    for rule in group["rules"]:
        kind = {"record", "expr"} if "record" in rule else {"alert", "expr", "labels", "annotations"}
        assert kind <= rule.keys() <= kind | {"for", "labels"}, rule
        for name in re.findall(r"\$labels\.(\w+)", json.dumps(rule)):
            assert name in {*CALL_LABELS, "rule", "instance", "reason"}


def of_grafana() -> list[str]:
    """The expressions of the dashboard, with its variables filled in as Grafana does."""
    board = json.loads((ROOT / "examples/grafana.json").read_text())
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    places = [panel["gridPos"] for panel in board["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    queries = [one["expr"] for panel in board["panels"] for one in panel["targets"]]
    filled = (query.replace("$__rate_interval", "5m").replace("$__range", "6h") for query in queries)
    return [query.replace("$service", "api|web") for query in filled]


def of_prometheus() -> list[str]:
    return [rule["expr"] for group in yaml.safe_load(RULES)["groups"] for rule in group["rules"]]
