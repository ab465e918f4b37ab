"""The demo's traffic, as stored by a collector."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from collector.commands.demo import Exporters, demo
from tests.conftest import RunningCollector, free_port, misstep

NOW = datetime.now(UTC).replace(microsecond=0)
NOW_NS = int(NOW.timestamp()) * 10**9


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    """A collector that has received one demo."""
    running = RunningCollector(tmp_path_factory.mktemp("demo")).start()
    demo(running.url, 70, 7, now_ns=NOW_NS)
    yield running.kept_up()
    running.stop()


@pytest.fixture(scope="module")
def seen(collector: RunningCollector) -> list[dict[str, Any]]:
    """Every event of that demo."""
    return collector.events(**{"from": "-8d"})


def test_demo_shows_everything_that_the_pages_are_about(
    collector: RunningCollector, seen: list[dict[str, Any]]
) -> None:
    tools = [event for event in seen if event["operation"] == "tool"]
    outcomes = Counter(event["outcome"] for event in tools)
    assert outcomes["ok"] > outcomes["error"] > 30
    assert outcomes["denied"] > 0
    assert {event["service"] for event in seen} == {"shop-coder", "support-desk", "nightly-review", "roo-code"}
    assert len({event["error_class"] for event in seen} - {None}) >= 10
    assert any(event["operation"] == "model" and event["status_code"] == 429 for event in seen)
    assert {event["mcp_server"] for event in tools} >= {"tickets", "orders", "articles"}
    unknown = [event["reported_class"] for event in seen if event["error_class"] == "UnknownError"]
    assert unknown == []

    ages = [NOW - datetime.fromisoformat(event["time"]) for event in seen]
    assert timedelta(0) <= min(ages) < timedelta(hours=2)
    assert timedelta(days=5) < max(ages) <= timedelta(days=7)

    streaks = collector.get("/api/v1/streaks", **{"from": "-8d", "min_length": 3})["rows"]
    assert {streak["state"] for streak in streaks} >= {"recovered"}
    retries = collector.get("/api/v1/retries", **{"from": "-25h"})["rows"]
    assert sum(row["identical_retries"] for row in retries) > 0


def test_one_call_is_one_event_although_mcp_calls_have_two_spans(seen: list[dict[str, Any]]) -> None:
    calls = Counter(event["call_id"] for event in seen if event["operation"] == "tool" and event["call_id"])
    assert set(calls.values()) == {1}
    assert sum(calls.values()) + 4 == sum(event["operation"] == "tool" for event in seen)  # Roo Code has no call ids


def test_no_secret_and_no_user_name_is_kept(collector: RunningCollector, seen: list[dict[str, Any]]) -> None:
    assert sum(event["redactions"] or 0 for event in seen) > 20
    for text in (json.dumps(seen), collector.logged(), collector.store.read_bytes().decode("latin-1")):
        assert not re.search("gh" + r"p_\w{36}|AKIA[A-Z2-7]{16}|/home/ann|customer\d+@", text)


def test_bad_deploy_is_worse_than_the_version_before(collector: RunningCollector, seen: list[dict[str, Any]]) -> None:
    filters = {"from": "-8d", "by": "service_version", "tool": "apply_diff", "service": "shop-coder"}
    rates = {row["service_version"]: row for row in collector.get("/api/v1/breakdown", **filters)["rows"]}
    assert rates["2.5.0"]["calls"] >= 10
    assert rates["2.5.0"]["error_rate"] > 2 * rates["2.4.0"]["error_rate"]


def test_same_seed_gives_the_same_events(start_collector: Callable[[], RunningCollector]) -> None:
    def events() -> list[tuple[Any, ...]]:
        collector = start_collector()
        demo(collector.url, 5, 3, now_ns=NOW_NS)
        return [
            (event["time"], event["span_id"], event["tool"], event["outcome"])
            for event in collector.events(**{"from": "-8d"})
        ]

    assert events() == events()


def test_command_says_what_it_sent(start_collector: Callable[[], RunningCollector]) -> None:
    collector = start_collector()
    done = misstep("demo", "--to", collector.url, "--sessions", 2, "--seed", 5, cwd=collector.folder)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"2 sessions, \d+ tool calls, \d+ of them failed; the same again with --seed 5\n", done.stdout)
    assert len(collector.events(source="roo-code")) == 4


def test_no_collector_is_one_sentence(collector: RunningCollector) -> None:
    address = f"http://127.0.0.1:{free_port()}"
    done = misstep("demo", "--to", address, cwd=collector.folder)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"misstep: no collector answers at {address}")


@pytest.mark.parametrize("setting", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_the_demo_trusts_what_every_other_command_trusts(
    setting: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Shown by certificates that are not there: with others, the SDK would say that nobody listens."""
    trusted = str(tmp_path / "trusted.pem")
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.setenv(name, trusted if name == setting else "")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "")
    exporters = Exporters(f"https://127.0.0.1:{free_port()}", {}, Random(1))
    exporters.tracers("shop-coder", "1.0").get_tracer("test").start_span("chat").end()
    with pytest.raises(OSError, match="did not accept"):
        exporters.flush()
    assert trusted in caplog.text
    exporters.close()
