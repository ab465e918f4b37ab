"""Ingestion as a sender sees it: what is accepted, what is refused and how; and what was acknowledged is stored."""

from __future__ import annotations

import gzip
import json
import signal
import socket
from collections.abc import Callable
from urllib.parse import urlsplit

import grpc
import httpx
import pytest
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from tests.conftest import HTTP, RunningCollector, wait_until
from tests.doors import PROTOBUF, protobuf, span, traces


def test_json_protobuf_and_grpc_are_taken_alike(collector: RunningCollector) -> None:
    answers = [
        collector.post("/v1/traces", traces(span(0))),
        collector.post("/v1/traces", gzip.compress(traces(span(1))), {"content-encoding": "gzip"}),
        collector.post("//v1/traces", traces(span(2)), {"content-type": "application/json; charset=utf-8"}),
        collector.post("/", traces(span(3))),
        collector.post("/v1/traces", protobuf(4).SerializeToString(), PROTOBUF),
    ]
    assert [answer.status_code for answer in answers] == [200] * 5
    assert [answer.json() for answer in answers[:4]] == [{}] * 4
    assert answers[4].headers["content-type"] == "application/x-protobuf"
    assert ExportTraceServiceResponse.FromString(answers[4].content) == ExportTraceServiceResponse()
    with grpc.insecure_channel(collector.grpc) as channel:
        TraceServiceStub(channel).Export(protobuf(5), compression=grpc.Compression.Gzip)
    found = collector.events()
    assert len(found) == 6
    assert {event["outcome"] for event in found} == {"ok"}


def test_chunked_bodies_and_http2_without_tls_are_taken(collector: RunningCollector) -> None:
    body = traces(span(0))
    answer = HTTP.post(
        f"{collector.url}/v1/traces", content=iter([body[:50], body[50:]]), headers={"content-type": "application/json"}
    )
    assert answer.status_code == 200
    assert len(collector.events()) == 1


def deep() -> bytes:
    """A span with an attribute of 500 nested arrays, written by hand, because json.dumps cannot nest so deep."""
    value = '{"arrayValue":{"values":[' * 500 + "{}" + "]}}" * 500
    body = traces({**span(0), "attributes": [*span(0)["attributes"], {"key": "deep", "value": "HERE"}]})
    return body.replace(b'"HERE"', value.encode())


REFUSED: dict[str, tuple[bytes, dict[str, str], int]] = {
    "bad JSON": (b"{", {}, 400),
    "wrong types": (b'{"resourceSpans": [{"scopeSpans": 5}]}', {}, 400),
    "bad trace id": (traces({**span(0), "traceId": "xyz"}), {}, 400),
    "100,000 brackets": (b'{"resourceSpans":' + b"[" * 100_000, {}, 400),
    "deep attribute": (deep(), {}, 400),
    "random protobuf": (b"\x00\x01random", PROTOBUF, 400),
    "truncated protobuf": (protobuf(0).SerializeToString()[:-3], PROTOBUF, 400),
    "truncated gzip": (gzip.compress(traces(span(0)))[:-9], {"content-encoding": "gzip"}, 400),
    "no gzip": (b"junk", {"content-encoding": "gzip"}, 400),
    "unknown encoding": (b"junk", {"content-encoding": "br"}, 415),
    "no content type": (b"{}", {"content-type": ""}, 415),
    "text": (b"{}", {"content-type": "text/plain"}, 415),
    "gzip bomb": (gzip.compress(bytes(256 << 20)), {"content-encoding": "gzip"}, 413),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_with_a_status_in_its_own_encoding(case: str, shared: RunningCollector) -> None:
    body, headers, status = REFUSED[case]
    answer = shared.post("/v1/traces", body, headers)
    assert answer.status_code == status
    if headers.get("content-type") == "application/x-protobuf":
        assert Status.FromString(answer.content).message
    else:
        assert answer.json()["message"]
    assert shared.post("/v1/traces", traces(span(7))).status_code == 200


def memory(running: RunningCollector) -> int:
    assert running.process is not None
    with open(f"/proc/{running.process.pid}/status") as file:
        return next(int(line.split()[1]) >> 10 for line in file if line.startswith("VmRSS"))


def test_large_bodies_are_refused_and_cost_no_memory(shared: RunningCollector) -> None:
    before = memory(shared)
    for _ in range(3):
        answer = shared.post("/v1/traces", bytes(70 << 20))
        assert answer.status_code == 413
        endless = HTTP.post(
            f"{shared.url}/v1/traces",
            content=(bytes(1 << 20) for _ in range(70)),
            headers={"content-type": "application/json"},
        )
        assert endless.status_code == 413
    wait_until(lambda: memory(shared) < before + 150, lambda: f"{before} → {memory(shared)} MiB")


def test_a_path_that_is_none_is_404(shared: RunningCollector) -> None:
    assert shared.post("/v1/profiles", b"{}").status_code == 404
    assert shared.post("/", protobuf(0).SerializeToString(), PROTOBUF).status_code == 404
    assert HTTP.get(f"{shared.url}/v1/traces").status_code == 405


def test_other_hosts_are_refused_on_loopback(shared: RunningCollector) -> None:
    for path in ("/v1/traces", "/api/v1/events"):
        send = httpx.post if path == "/v1/traces" else httpx.get
        headers = {"host": "evil.example", "content-type": "application/json"}
        assert send(shared.url + path, headers=headers).status_code == 403


def test_a_web_page_can_neither_write_nor_read_where_only_one_door_has_tokens(
    start_collector: Callable[..., RunningCollector],
) -> None:
    asks, sends = start_collector(QUERY_TOKENS="ask"), start_collector(INGEST_TOKENS="send")
    page, anywhere = {"origin": "https://evil.example"}, {"host": "evil.example"}
    assert asks.post("/v1/traces", traces(span(0)), anywhere).status_code == 403
    assert HTTP.get(f"{asks.url}/metrics", headers=anywhere).status_code == 403
    assert HTTP.get(f"{asks.url}/api/v1/events", headers=anywhere | {"authorization": "Bearer ask"}).is_success
    assert sends.post("/v1/traces", traces(span(0)), anywhere | {"authorization": "Bearer send"}).is_success
    for path in ("/api/v1/rules/check", "/api/v1/rules/backtest"):
        assert HTTP.post(sends.url + path, content="rules: []", headers=page).status_code == 403
        assert HTTP.post(sends.url + path, content="rules: []").status_code == 415  # as a page may send it, unasked
        assert HTTP.post(sends.url + path, content="rules: []", headers={"content-type": "application/yaml"}).is_success


@pytest.mark.parametrize("path", ["rules/check", "rules/backtest", "rules/suggest", "silences"])
def test_a_large_body_is_not_read(shared: RunningCollector, path: str) -> None:
    headers = {"content-type": "application/json", "content-length": str(1 << 30)}
    with socket.create_connection(("127.0.0.1", urlsplit(shared.url).port)) as connection:
        head = "".join(f"{name}: {value}\r\n" for name, value in (headers | {"host": "localhost"}).items())
        connection.settimeout(20)
        connection.sendall(f"POST /api/v1/{path} HTTP/1.1\r\n{head}\r\n".encode() + bytes(2 << 20))
        assert connection.recv(100).startswith(b"HTTP/1.1 413")


def test_tokens(start_collector: Callable[..., RunningCollector]) -> None:
    running = start_collector(INGEST_TOKENS="send", QUERY_TOKENS="ask")
    given = {"authorization": "Bearer send"}
    assert running.post("/v1/traces", traces(span(0))).status_code == 401
    assert running.post("/v1/traces", traces(span(0)), {"authorization": "Bearer ask"}).status_code == 403
    assert running.post("/v1/traces", traces(span(0)), given).status_code == 200
    with grpc.insecure_channel(running.grpc) as channel:
        with pytest.raises(grpc.RpcError) as refused:
            TraceServiceStub(channel).Export(protobuf(1))
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        TraceServiceStub(channel).Export(protobuf(1), metadata=(("authorization", "Bearer send"),))
    for headers, status in (({}, 401), ({"authorization": "Bearer send"}, 403), ({"authorization": "Bearer ask"}, 200)):
        assert HTTP.get(f"{running.url}/api/v1/events", headers=headers).status_code == status
    assert HTTP.get(f"{running.url}/healthz").status_code == 200


def test_the_same_request_again_adds_nothing_also_after_a_restart(collector: RunningCollector) -> None:
    body = traces(span(0, error="FileNotFoundError"), span(1))
    for _ in range(2):
        assert collector.post("/v1/traces", body).status_code == 200
    collector.kill()
    collector.restart()
    assert collector.post("/v1/traces", body).status_code == 200
    assert len(collector.events()) == 2
    health = collector.get("/api/v1/health")
    assert (health["accepted"], health["stored"], health["duplicate"]) == (6, 2, 4)


def test_sigterm_ends_it_cleanly(collector: RunningCollector) -> None:
    assert collector.post("/v1/traces", traces(span(0))).status_code == 200
    assert collector.stop(signal.SIGTERM) == 0
    assert not collector.store.with_name("misstep.duckdb.wal").exists()


def test_a_second_collector_on_the_same_store_says_why_it_cannot_start(
    collector: RunningCollector, start_collector: Callable[..., RunningCollector]
) -> None:
    with pytest.raises(AssertionError, match="in use by another process"):
        start_collector(STORE=f"duckdb:///{collector.store}")


def test_metrics_are_acknowledged_and_counted(collector: RunningCollector) -> None:
    metric = {"name": "m", "sum": {"dataPoints": [{"asInt": "1"}, {"asInt": "2"}]}}
    agent = {"attributes": [{"key": "service.name", "value": {"stringValue": "continue-cli"}}]}
    body = json.dumps({"resourceMetrics": [{"resource": agent, "scopeMetrics": [{"metrics": [metric]}]}]})
    assert collector.post("/v1/metrics", body).status_code == 200
    assert collector.get("/api/v1/health")["dropped"] == {"metric": 2}
    [seen] = collector.get("/api/v1/sources")["rows"]
    assert (seen["source"], seen["events"], seen["errors"], seen["tool_data"]) == ("continue", 0, None, False)
    assert 'misstep_records_total{fate="metric"} 2.0' in HTTP.get(f"{collector.url}/metrics").text
