"""What an operator sees: every record accounted for, every refusal with its reason, metrics with customary names."""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import MISSTEP, RunningCollector, free_port, largest_file, wait_until
from tests.doors import PROTOBUF, span, spans, traces

BASE_UNITS = (
    "_seconds", "_bytes", "_requests", "_records", "_fds", "_alerts_firing", "_alerts_evaluating",
    "_alerts_pending", "_sessions", "_calls",
)  # fmt: skip


def families(running: RunningCollector) -> dict[str, Any]:
    text = httpx.get(f"{running.url}/metrics").text
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(running: RunningCollector, name: str, **labels: str) -> float:
    family = families(running)[name]
    return next((each.value for each in family.samples if each.labels == labels), 0.0)


def identity(health: dict[str, Any]) -> bool:
    return not health["unaccounted"] and bool(
        health["accepted"] == health["stored"] + health["duplicate"] + sum(health["dropped"].values())
    )


def test_every_record_is_accounted_for_over_restarts_and_every_refusal_has_its_reason(
    start_collector: Callable[..., RunningCollector],
) -> None:
    running = start_collector(INGEST_TOKENS="a,b", MAX_BODY="1MiB")
    token = {"authorization": "Bearer a"}
    good = traces(span(0), span(1), {"name": "unknown"}, {"traceId": "zz"})
    for _ in range(3):
        assert running.post("/v1/traces", good, token).status_code == 200
    for body, headers in (
        (b"{", {}), (b"{", {}), (bytes(2 << 20), {}),
        (b"x", {"content-encoding": "br"}), (b"x", {"content-type": "a/b"}),
        (b"{}", {"authorization": ""}), (b"{}", {"authorization": "Bearer c"}),
        (gzip.compress(bytes(2 << 20)), {"content-encoding": "gzip", **PROTOBUF}),
    ):  # fmt: skip
        assert running.post("/v1/traces", body, {**token, **headers}).status_code >= 400
    assert running.post("/v1/nothing", b"", token).status_code == 404
    wanted = {"malformed": 2, "too_large": 2, "unknown_type": 2, "no_token": 1, "not_allowed": 1, "no_such_path": 1}
    health = running.get("/api/v1/health")
    assert health["refused"] == wanted
    assert {reason: value(running, "misstep_refused_requests", reason=reason) for reason in wanted} == wanted
    assert (health["accepted"], health["stored"], health["duplicate"]) == (12, 2, 8)
    assert health["dropped"] == {"no_event": 1, "malformed": 1}
    assert health["sources"] == {"gen-ai": 2}
    assert value(running, "misstep_events", source="gen-ai") == 2
    running.kill()
    running.restart()
    assert running.post("/v1/traces", good, token).status_code == 200
    again = running.get("/api/v1/health")
    assert (again["accepted"], again["stored"], again["duplicate"]) == (16, 2, 12)
    assert identity(again)
    assert again["refused"] == {}


def test_a_call_is_counted_once_however_many_reports_tell_of_it(collector: RunningCollector) -> None:
    def told(name: str, span_id: str, **more: Any) -> None:
        """One span of Claude Code in a request of its own, stored before the next is sent."""
        one = {"name": f"claude_code.{name}", "spanId": span_id, **more}
        assert collector.post("/v1/traces", spans(one, service="claude-code")).status_code == 200
        collector.get("/api/v1/health")

    def counted() -> tuple[float, int]:
        events = sum(sample.value for sample in families(collector)["misstep_events"].samples)
        return events, collector.get("/api/v1/health")["sources"].get("claude-code", 0)

    refused = {"decision": "reject", "source": "user_reject"}
    told("tool.blocked_on_user", "4", parentSpanId="2", attributes=refused)  # does not make another event
    assert counted() == (0, 0)
    told("tool", "2", attributes={"tool_name": "Bash", "tool_use_id": "t9"})
    assert counted() == (1, 1)
    told("tool.execution", "3", parentSpanId="2", status=2, attributes={"tool_use_id": "t9", "success": "false"})
    assert counted() == (1, 1)
    told("tool", "12", attributes={"tool_name": "Bash", "tool_use_id": "t10"})
    assert counted() == (2, 2)
    assert collector.get("/api/v1/breakdown", **{"from": "2026-01-01"})["rows"][0]["calls"] == 2


def test_the_collectors_own_errors_are_told_with_their_remedy(collector: RunningCollector) -> None:
    assert collector.post("/v1/traces", traces(span(0))).status_code == 200
    assert collector.get("/api/v1/health")["errors"] == []
    assert collector.process is not None
    with largest_file(collector.process.pid, collector.store.with_name("misstep.duckdb.wal").stat().st_size + 10):
        assert collector.post("/v1/traces", traces(span(1))).status_code == 200  # it is in the journal
        collector.get("/api/v1/health")
        assert collector.post("/v1/traces", traces(span(2))).status_code == 503
    # Retention may have failed on the same disk, and reported it.
    [error] = [each for each in collector.get("/api/v1/health")["errors"] if "remedy" in each]
    assert error["remedy"] == "make room on its disk"
    assert error["timestamp"]
    assert value(collector, "misstep_refused_requests", reason="unavailable") == 1
    assert value(collector, "misstep_failures", part="writer") >= 1


def filled_pipe() -> tuple[int, int]:
    """Both ends of a pipe that takes nothing more."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    for size in (4096, 1):
        with contextlib.suppress(BlockingIOError):
            while os.write(writing, bytes(size)):
                pass
    os.set_blocking(writing, True)
    return reading, writing


def test_a_log_that_nobody_reads_stops_nothing(tmp_path: Path) -> None:
    reading, writing = filled_pipe()
    running = RunningCollector(tmp_path, url=f"http://127.0.0.1:{free_port()}")
    command = [
        MISSTEP,
        "collector",
        "--http",
        running.url.removeprefix("http://"),
        "--grpc",
        f"127.0.0.1:{free_port()}",
    ]
    with subprocess.Popen(command, cwd=tmp_path, env=running.environment, stderr=writing) as process:

        def logged() -> bool:
            process.send_signal(signal.SIGHUP)
            return b"SIGHUP changes" in os.read(reading, 1 << 20)

        try:
            wait_until(lambda: process.poll() is None and answers(running))
            for call in range(3):
                process.send_signal(signal.SIGHUP)  # which is logged
                assert running.post("/v1/traces", traces(span(call))).status_code == 200
            assert len(running.events()) == 3
            wait_until(lambda: value(running, "misstep_lost_log_lines") >= 3)
            assert os.read(reading, 1 << 20).strip(b"\0") == b""
            wait_until(logged)
            assert identity(running.get("/api/v1/health"))
            process.terminate()
            assert process.wait(20) == 0
        finally:
            process.kill()
            os.close(reading)
            os.close(writing)


def answers(running: RunningCollector) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{running.url}/readyz", timeout=2).is_success
    return False


def test_metrics_are_named_as_prometheus_wants_them(collector: RunningCollector) -> None:
    collector.post("/v1/traces", traces(span(0)))
    found = families(collector)
    assert len(found) > 15
    for name, family in found.items():
        assert re.fullmatch(r"(misstep|process)_[a-z][a-z0-9_]*", name), name
        assert family.documentation.endswith(".") or name.startswith("process_"), name
        if family.type in ("gauge", "histogram") and name.startswith("misstep_"):
            assert name.endswith(BASE_UNITS), name
        if family.type == "counter":
            assert all(sample.name.endswith(("_total", "_created")) for sample in family.samples), name
        chosen_by_senders = {"session"} if name == "misstep_calls" else {"service", "session", "tool"}  # calls: bounded
        for sample in family.samples:
            assert chosen_by_senders.isdisjoint(sample.labels), name
    assert found["process_resident_memory_bytes"].samples[0].value > 1 << 20


def test_queues_and_sizes_are_told(collector: RunningCollector) -> None:
    collector.post("/v1/traces", traces(span(0)))
    health = collector.kept_up().get("/api/v1/health")
    assert health["queue"] == {"requests": 0, "records": 0, "bytes": 0, "receiving_bytes": 0}
    assert health["store"]["log_bytes"] > 0
    assert health["uptime_seconds"] > 0
    assert value(collector, "misstep_store_bytes", part="log") == health["store"]["log_bytes"]
    assert value(collector, "misstep_store_bytes", part="free") > 1 << 20


def test_what_waits_for_the_store_is_told_before_it_is_waited_for(collector: RunningCollector) -> None:
    told: set[tuple[str, float]] = set()
    for number in range(20):  # each waits for up to half a second after the previous transaction
        for place in ("metrics", "health"):
            assert collector.post("/v1/traces", traces(span(2 * number), span(2 * number + 1))).status_code == 200
            if place == "metrics":
                told.add((place, value(collector, "misstep_queue_records")))
            else:
                told.add((place, collector.get("/api/v1/health")["queue"]["records"]))
            assert collector.get("/api/v1/health")["waiting"] == 0
    assert {("metrics", 2.0), ("health", 2)} <= told
