"""Misstep as the second exporter of an OpenTelemetry Collector: what real exporters send arrives whole and once.

No Collector can be had from a package registry with a receiver of OTLP. The stand-in does what its batch processor and
its otlp_http exporter do: it merges requests of several services, compresses, sends to each backend on its own, and
sends the same bytes again after 429, 502, 503, 504 or a lost connection.
"""

from __future__ import annotations

import gzip
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from tests.conftest import RunningCollector
from tests.test_forward import Endpoint

RETRIED = (429, 502, 503, 504)


class FanOut:
    """Takes OTLP/HTTP traces; `flush` sends all that it took as one batch."""

    def __init__(self) -> None:
        self.batch = ExportTraceServiceRequest()
        fan_out = self

        class Door(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                assert self.headers["Content-Encoding"] == "gzip"
                fan_out.batch.MergeFromString(gzip.decompress(body))
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: Any) -> None:
                """Logs nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def flush(self) -> bytes:
        body = gzip.compress(self.batch.SerializeToString())
        self.batch.Clear()
        return body

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def sent(base: str, body: bytes) -> bool:
    """One attempt of the exporter; False: to be sent again."""
    headers = {
        "Content-Type": "application/x-protobuf", "Content-Encoding": "gzip",
        "User-Agent": "OpenTelemetry Collector Contrib/0.135.0 (linux/amd64)",
    }  # fmt: skip
    try:
        answer = httpx.post(f"{base}/v1/traces", content=body, headers=headers)
    except httpx.TransportError:
        return False
    assert answer.is_success or answer.status_code in RETRIED, answer.text
    return answer.is_success


@pytest.fixture
def fan_out() -> Iterator[FanOut]:
    opened = FanOut()
    yield opened
    opened.close()


@pytest.fixture
def backend() -> Iterator[Endpoint]:
    opened = Endpoint()
    yield opened
    opened.close()


def agent(name: str, endpoint: str) -> TracerProvider:
    """The real SDK, with its exporter, as an agent has it."""
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    exporter = OTLPSpanExporter(f"{endpoint}/v1/traces", compression=Compression.Gzip)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


def test_two_backends_get_every_call_once_whatever_fails(
    fan_out: FanOut, backend: Endpoint, start_collector: Callable[..., RunningCollector]
) -> None:
    misstep = start_collector()
    agents = [agent(name, fan_out.url) for name in ("coder", "reviewer")]

    def calls(number: int) -> None:
        for one in agents:
            told = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": f"tool-{number}"}
            with one.get_tracer("agent").start_as_current_span(f"execute_tool tool-{number}", attributes=told):
                pass

    calls(1)
    first = fan_out.flush()
    assert sent(backend.base, first)
    assert sent(misstep.url, first)
    backend.status = 503
    calls(2)
    second = fan_out.flush()
    assert not sent(backend.base, second)
    assert sent(misstep.url, second), "the other backend's failure is its own"
    assert sent(misstep.url, second), "as after an answer that was lost"
    misstep.kill()
    calls(3)
    third = fan_out.flush()
    assert not sent(misstep.url, third)
    misstep.restart()
    assert sent(misstep.url, third)
    backend.status = 200
    assert sent(backend.base, second)
    assert sent(backend.base, third)

    found = Counter((row["service"], row["tool"]) for row in misstep.events())
    assert found == {(name, f"tool-{number}"): 1 for name in ("coder", "reviewer") for number in (1, 2, 3)}
    health = misstep.get("/api/v1/health")
    assert (health["accepted"], health["stored"], health["duplicate"], health["unaccounted"]) == (8, 6, 2, 0)
    spans = [
        span.name
        for _, _, body in backend.taken
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    assert len(spans) == 6
    for one in agents:
        one.shutdown()
