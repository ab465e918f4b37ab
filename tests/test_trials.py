"""Trying rules from outside: a real collector, its API, and the commands that use it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import RunningCollector, misstep
from tests.webhook import Webhook

YAML = {"Content-Type": "application/yaml"}

RULES = """
rules:
  - {name: lasting, measure: errors, where: {tool: read_file}, by: [service], window: 30m, condition: ">= 3", for: 2m}
  - {name: never, measure: error_rate, condition: "> 0.99", min_calls: 1000}
"""


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    hook = Webhook()
    yield hook
    hook.close()


@pytest.fixture
def remembering(start_collector: Callable[..., RunningCollector], webhook: Webhook, tmp_path: Path) -> RunningCollector:
    """A collector with a receiver, and four failures two hours ago in two sessions."""
    rules = tmp_path / "in-force.yaml"
    rules.write_text(f"receivers:\n  team: {{webhook: '{webhook.url}'}}\n")
    collector = start_collector(RULES=str(rules))
    then = int(time.time() * 1000) - 7_200_000
    entries = [
        {
            "timeUnixNano": str((then + i * 60_000) * 10**6),
            "attributes": [
                {"key": "event.name", "value": {"stringValue": "gemini_cli.tool_call"}},
                {"key": "function_name", "value": {"stringValue": "read_file"}},
                {"key": "session.id", "value": {"stringValue": f"s{i % 2}"}},
                {"key": "error_type", "value": {"stringValue": "file_not_found"}},
                {"key": "call_id", "value": {"stringValue": f"c{i}"}},
                {"key": "success", "value": {"boolValue": False}},
            ],
        }
        for i in range(4)
    ]
    answer = collector.post("/v1/logs", json.dumps(_logs(entries)))
    assert answer.status_code == 200, answer.text
    assert len(collector.events()) == 4
    return collector


def _logs(entries: list[dict[str, Any]]) -> dict[str, Any]:
    service = [{"key": "service.name", "value": {"stringValue": "gemini-cli"}}]
    return {"resourceLogs": [{"resource": {"attributes": service}, "scopeLogs": [{"logRecords": entries}]}]}


def tried(collector: RunningCollector, what: str, body: str = RULES, **params: str) -> httpx.Response:
    return httpx.post(f"{collector.url}/api/v1/rules/{what}", content=body, params=params, headers=YAML, timeout=30)


def test_rules_can_be_tried_before_they_page(remembering: RunningCollector, webhook: Webhook, tmp_path: Path) -> None:
    answer = tried(remembering, "backtest", **{"from": "-1d"}).json()
    lasting, never = answer["rows"]
    assert answer["evaluations"] == 1441
    assert (lasting["fired"], lasting["pages"], lasting["notifications"]) == (1, 1, 2)
    (firing,) = lasting["firings"]
    assert (firing["labels"], firing["peak"], firing["threshold"]) == ({"service": "gemini-cli"}, 4, 3)
    assert {one["session"]: one["events"] for one in firing["sessions"]} == {"s0": 2, "s1": 2}
    assert 25 * 60 <= firing["seconds"] <= 28 * 60
    assert [one["receiver"] for one in lasting["told"]] == ["team", "team"], "receivers in force are counted too"
    (line,) = lasting["series"]
    assert max(point["value"] or 0 for point in line["points"]) == 4
    assert [one["state"] for one in line["states"]] == ["pending", "firing", "inactive"]
    assert (never["fired"], never["firings"]) == (0, [])

    (only,) = tried(remembering, "suggest", **{"from": "-1d", "rule": "lasting", "pages": "7"}).json()["rows"]
    assert (only["suggested"]["condition"], only["suggested"]["pages_per_week"]) == (">= 1", 7)

    moved = tried(remembering, "backtest", **{"from": "-1d", "rule": "lasting", "threshold": "5"}).json()["rows"][0]
    assert (moved["condition"], moved["threshold"], moved["fired"]) == (">= 5", 5, 0)
    broken = tried(remembering, "backtest", RULES.replace("window", "windwo")).json()
    assert (broken["ok"], [one["line"] for one in broken["mistakes"]]) == (False, [3])
    for params in (
        {"step": "1s"},
        {"step": "10m"},
        {"from": "-400d"},
        {"rule": "nothing"},
        {"form": "-1d"},
        {"threshold": "nan"},
    ):
        refused = tried(remembering, "backtest", **params)
        assert (refused.status_code, bool(refused.json()["error"]["message"])) == (400, True), params
    assert tried(remembering, "suggest", pages="many").status_code == 400

    path = tmp_path / "alerts.yaml"
    path.write_text(RULES)
    settings = {"COLLECTOR_URL": remembering.url}
    done = misstep("rules", "backtest", path, "--since", "1d", cwd=tmp_path, settings=settings)
    first, second, last = done.stdout.splitlines()
    assert first.startswith("lasting: would have fired once, 2"), done.stderr
    assert first.endswith("in all: 1 page, 2 messages")
    assert "s0" in second
    assert "(service gemini-cli)" in second
    assert last == "never: would not have fired"
    done = misstep("rules", "suggest", path, "--since", "1d", "--pages", "10", cwd=tmp_path, settings=settings)
    assert done.stdout.startswith('lasting: condition: ">= '), done.stdout + done.stderr
    path.write_text(RULES.replace("window", "windwo"))
    done = misstep("rules", "backtest", path, cwd=tmp_path, settings=settings)
    assert (done.returncode, "did you mean 'window'?" in done.stdout) == (1, True)

    sent = remembering.post("/api/v1/receivers/team/test", "{}")
    assert sent.json() == {"rows": [{"receiver": "team", "sent": True, "error": None}]}
    assert webhook.taken[0]["alerts"][0]["labels"]["alertname"] == "misstep-test"
    (health,) = remembering.get("/api/v1/alerts")["receivers"]
    assert (health["success"] is None, health["failure"]) == (False, None)
    webhook.status = 403
    refused = remembering.post("/api/v1/receivers/team/test", "{}").json()["rows"]
    assert refused == [{"receiver": "team", "sent": False, "error": "answered 403"}]
    (health,) = remembering.get("/api/v1/alerts")["receivers"]
    assert (health["failure"] is None, health["error"]) == (False, "answered 403")
    assert remembering.post("/api/v1/receivers/nobody/test", "{}").status_code == 404
    assert remembering.post("/api/v1/receivers/team/test?foo=1", "{}").status_code == 400
    assert remembering.post("/api/v1/receivers/team/test", "", {"content-type": "text/plain"}).status_code == 415


def test_a_receiver_can_be_tested_from_the_command_line(webhook: Webhook, tmp_path: Path) -> None:
    path = tmp_path / "alerts.yaml"
    path.write_text(f"receivers:\n  team: {{webhook: '{webhook.url}'}}\n")
    done = misstep("rules", "notify-test", "team", "--rules", path, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "team: sent\n")
    assert webhook.taken[0]["alerts"][0]["annotations"]["summary"] == "This is a test. Alerts will reach you here."
    webhook.status = 404
    done = misstep("rules", "notify-test", "team", "--rules", path, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "team: answered 404\n")
    done = misstep("rules", "notify-test", "nobody", "--rules", path, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, f"{path}: there is no receiver 'nobody'; there are: team\n")
