"""OTLP as exporters use it: encodings, connections, partial success, and refusals that say when to retry."""

from __future__ import annotations

import gzip
import json
import socket
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import httpx
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry._logs import LogRecord
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcLogs
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcMetrics
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpans
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpLogs
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpMetrics
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpans
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from collector import zstd
from tests.conftest import HTTP, RunningCollector
from tests.doors import PROTOBUF, protobuf, span, traces
from tests.test_encoding import raw_deflate
from tests.test_encoding import zstd as packed

JSON = {"content-type": "application/json"}
CALL = {"event.name": "codex.tool_result", "tool_name": "shell", "call_id": "1", "success": "false"}


@pytest.fixture
def numbers(shared: RunningCollector) -> Callable[[], int]:
    """Numbers for spans, none of which the shared collector has seen."""
    free = iter(range(shared.get("/api/v1/health")["accepted"] + 1, 1 << 30))
    return lambda: next(free)


ENCODINGS: dict[str, Callable[[bytes], bytes]] = {
    "identity": bytes,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "Deflate": raw_deflate,
    "zstd": packed,
    "identity, gzip": gzip.compress,
}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_encoding_is_taken_in_both_forms(
    encoding: str, shared: RunningCollector, numbers: Callable[[], int]
) -> None:
    before = len(shared.events())
    for body, kind in ((traces(span(numbers())), JSON), (protobuf(numbers() + 10**6).SerializeToString(), PROTOBUF)):
        media = {"content-type": f"{kind['content-type']}; charset=utf-8"}
        answer = shared.post("/v1/traces", ENCODINGS[encoding](body), {**media, "content-encoding": encoding})
        assert (answer.status_code, answer.headers["content-type"]) == (200, kind["content-type"])
    assert len(shared.events()) == before + 2


def test_one_connection_takes_chunked_and_whole_bodies_one_after_the_other(
    shared: RunningCollector, numbers: Callable[[], int]
) -> None:
    connections = set()
    with httpx.Client(base_url=shared.url, headers=JSON) as client:
        for whole in (False, True, False):
            body = traces(span(numbers()))
            answer = client.post("/v1/traces", content=body if whole else iter([body[:50], body[50:]]))
            assert answer.json() == {}
            assert answer.headers.get("connection", "") != "close"
            connections.add(answer.extensions["network_stream"].get_extra_info("client_addr"))
        assert len(connections) == 1


def test_http2_without_tls(shared: RunningCollector, numbers: Callable[[], int]) -> None:
    """Writes frames by hand: there is no HTTP/2 client among the dependencies."""
    body = traces(span(numbers()))

    def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
        return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload

    def literal(name: bytes, value: bytes) -> bytes:
        return b"\x00" + bytes((len(name),)) + name + bytes((len(value),)) + value

    headers = b"".join(
        literal(name, value)
        for name, value in (
            (b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/v1/traces"), (b":authority", b"localhost"),
            (b"content-type", b"application/json"),
        )
    )  # fmt: skip
    with socket.create_connection(("127.0.0.1", int(shared.url.rpartition(":")[2])), timeout=10) as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + frame(1, 4, 1, headers))
        connection.sendall(frame(0, 1, 1, body))
        with connection.makefile("rb") as answers:
            while True:
                head = answers.read(9)
                payload = answers.read(int.from_bytes(head[:3], "big"))
                if head[3] == 1:  # HEADERS; 0x88 is `:status: 200` in the static table
                    assert payload[0] == 0x88
                    return


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"stringValue": "x"}
    for _ in range(levels):
        value = {"arrayValue": {"values": [value]}}
    return {"key": "deep", "value": value}


def wide(number: int) -> dict[str, Any]:
    many = [{"key": f"k{place}", "value": {"intValue": place}} for place in range(70_000)]
    return {**span(number), "attributes": [*span(number)["attributes"], *many]}


BAD: dict[str, tuple[Callable[[int], dict[str, Any]], str]] = {
    "a bad id": (lambda number: {**span(number), "traceId": "xyz"}, "traceId of 3 characters is not hex"),
    "a deep value": (
        lambda number: {**span(number), "attributes": [*span(number)["attributes"], deep(70)]}, "nested too deeply"
    ),
    "a wrong type": (lambda number: {**span(number), "name": {"no": "text"}}, "not OTLP JSON"),
    "a million attributes": (wide, "more than 65536 attributes"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_span_does_not_cost_the_others(case: str, shared: RunningCollector, numbers: Callable[[], int]) -> None:
    bad, reason = BAD[case]
    before, health = len(shared.events()), shared.get("/api/v1/health")
    spans = [span(numbers()) for _ in range(9)]
    answer = shared.post("/v1/traces", traces(*spans[:4], bad(numbers()), *spans[4:], bad(numbers())))
    assert answer.status_code == 200
    said = answer.json()["partialSuccess"]
    assert said["rejectedSpans"] == "2"
    assert "2 of 11 records not taken; the first, number 5: " in said["errorMessage"]
    assert reason in said["errorMessage"]
    assert len(shared.events()) == before + 9
    after = shared.get("/api/v1/health")
    assert after["dropped"]["malformed"] - health["dropped"].get("malformed", 0) == 2
    assert after["accepted"] - health["accepted"] == 11


def test_a_bottomless_value_costs_its_own_span_alone(shared: RunningCollector, numbers: Callable[[], int]) -> None:
    before = len(shared.events())
    value = b'{"arrayValue":{"values":[' * 2000 + b"{}" + b"]}}" * 2000
    spans = [span(numbers()), {**span(numbers()), "attributes": [{"key": "deep", "value": "HERE"}]}]
    answer = shared.post("/v1/traces", b"\xef\xbb\xbf" + traces(*spans).replace(b'"HERE"', value))
    assert answer.status_code == 200
    assert answer.json()["partialSuccess"]["rejectedSpans"] == "1"
    assert "number 2: an attribute value is nested too deeply" in answer.json()["partialSuccess"]["errorMessage"]
    assert len(shared.events()) == before + 1


def test_an_endless_number_costs_nothing(shared: RunningCollector, numbers: Callable[[], int]) -> None:
    before = len(shared.events())
    spans = [span(numbers()), {**span(numbers()), "attributes": [{"key": "big", "value": {"intValue": "HERE"}}]}]
    answer = shared.post("/v1/traces", traces(*spans).replace(b'"HERE"', b"9" * 5000))
    assert (answer.status_code, answer.json()) == (200, {})
    assert len(shared.events()) == before + 1  # the second is not about a call


def test_bad_records_are_found_wherever_they_are(shared: RunningCollector, numbers: Callable[[], int]) -> None:
    """In several resources and scopes, at the limits of what is read together: only these records."""
    before, bad = len(shared.events()), {0, 15, 16, 17, 31, 47, 59}
    spans = [span(numbers()) | ({"traceId": "xyz"} if place in bad else {}) for place in range(60)]
    parts = [{"resource": {}, "scopeSpans": [{"spans": spans[low : low + 5]}, {"spans": spans[low + 5 : low + 10]}]}
             for low in range(0, 60, 10)]  # fmt: skip
    said = shared.post("/v1/traces", json.dumps({"resourceSpans": parts})).json()["partialSuccess"]
    assert said["rejectedSpans"] == "7"
    assert said["errorMessage"].startswith("7 of 60 records not taken; the first, number 1: ")
    assert len(shared.events()) == before + 53


def test_a_bottomless_value_in_protobuf_is_left_out(shared: RunningCollector, numbers: Callable[[], int]) -> None:
    before = len(shared.events())
    message = protobuf(numbers() + 4 * 10**6)
    value = message.resource_spans[0].scope_spans[0].spans[0].attributes.add(key="deep").value
    for _ in range(200):
        value = value.array_value.values.add()
    answer = shared.post("/v1/traces", message.SerializeToString(), PROTOBUF)
    said = ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert (said.rejected_spans, said.error_message) == (
        0,
        "bad characters were replaced, or values nested too deeply left out",
    )
    assert len(shared.events()) == before + 1


def broken(number: int) -> ExportTraceServiceRequest:
    message = protobuf(number)
    message.resource_spans[0].scope_spans[0].spans.add(name="execute_tool x", trace_id=b"short")
    return message


def test_a_bad_span_in_protobuf_and_grpc(shared: RunningCollector, numbers: Callable[[], int]) -> None:
    answer = shared.post("/v1/traces", broken(numbers() + 2 * 10**6).SerializeToString(), PROTOBUF)
    with grpc.insecure_channel(shared.grpc) as channel:
        answers = [
            ExportTraceServiceResponse.FromString(answer.content),
            TraceServiceStub(channel).Export(broken(numbers() + 3 * 10**6)),
        ]
    for said in answers:
        assert said.partial_success.rejected_spans == 1
        assert "number 2: trace_id has 5 bytes" in said.partial_success.error_message


def test_logs_sent_to_the_traces_path_are_pointed_out(shared: RunningCollector) -> None:
    """In protobuf, they look like spans without ids."""
    logs = ExportLogsServiceRequest()
    record = logs.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=time.time_ns())
    record.body.string_value = "hello"
    answer = shared.post("/v1/traces", logs.SerializeToString(), PROTOBUF)
    said = ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert (said.rejected_spans, "send logs to /v1/logs" in said.error_message) == (0, True)


@pytest.mark.parametrize("name", ["scope_spans", "instrumentationLibrarySpans"])
def test_a_name_that_is_not_otlp_s_is_pointed_out(shared: RunningCollector, name: str) -> None:
    body = json.dumps({"resourceSpans": [{name: [{"spans": [{"name": "x"}]}]}]})
    said = shared.post("/v1/traces", body).json()["partialSuccess"]
    assert said == {"errorMessage": f"OTLP does not know {name}, so nothing was taken"}


def test_bad_log_records_are_counted_as_such(shared: RunningCollector) -> None:
    """Where they are read at all: ids of records that make no event are not looked at."""
    call = [{"key": key, "value": {"stringValue": value}} for key, value in CALL.items()]
    records = [{"traceId": "zz", "attributes": call}, {"body": {"stringValue": "hello"}}]
    body = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]})
    said = shared.post("/v1/logs", body).json()["partialSuccess"]
    assert said["rejectedLogRecords"] == "1"


def test_bad_plain_objects_are_counted(shared: RunningCollector) -> None:
    answer = shared.post("/v1/events", b'{"tool": "t", "outcome": "ok"}\n7\n', JSON).json()
    assert (answer["accepted"], answer["partialSuccess"]["rejectedEvents"]) == (1, "1")


def test_plain_objects_are_taken_as_json_alone(shared: RunningCollector) -> None:
    body = b'{"tool": "t", "outcome": "ok"}\n{"tool": "u", "outcome": "ok"}'
    for media in ("application/json", "application/x-ndjson", "application/jsonl; charset=utf-8"):
        assert shared.post("/v1/events", body, {"content-type": media}).json() == {"accepted": 2}
    for media in ("application/x-protobuf", "text/plain"):
        answer = shared.post("/v1/events", body, {"content-type": media})
        assert (answer.status_code, b"application/x-ndjson" in answer.content) == (415, True)


MENDED: dict[str, bytes] = {
    "lone surrogate": traces(span(1)).replace(b"S_1", b"S_\\ud83d"),
    "bad UTF-8": traces(span(2)).replace(b"S_2", b"S_\xff"),
    "a time that is a float": traces({**span(3), "kind": 3.0}),
}


@pytest.mark.parametrize("case", MENDED)
def test_what_can_be_mended_is_taken_with_a_warning(case: str, shared: RunningCollector) -> None:
    said = shared.post("/v1/traces", MENDED[case]).json()["partialSuccess"]
    assert "replaced" in said["errorMessage"]
    assert "rejectedSpans" not in said


@pytest.mark.parametrize("signal", ["logs", "traces", "metrics"])
def test_an_empty_request_succeeds_whatever_its_form(signal: str, shared: RunningCollector) -> None:
    for body, headers in ((b"", JSON), (b"{}", JSON), (b"", PROTOBUF), (gzip.compress(b""), PROTOBUF)):
        encoding = {"content-encoding": "gzip"} if len(body) > 2 else {}
        answer = shared.post(f"/v1/{signal}", body, {**headers, **encoding})
        assert (answer.status_code, answer.content) == (200, b"{}" if headers is JSON else b"")


def test_root_takes_json_of_any_signal(shared: RunningCollector, numbers: Callable[[], int]) -> None:
    one = json.loads(traces(span(numbers())))
    for body in (b"", b"{}", json.dumps({"about": "x" * 300, **one}).encode(), b'{"resourceMetrics": []}'):
        assert shared.post("/", body).json() == {}
    assert shared.post("/", b'{"something": 1}').status_code == 404


@pytest.mark.parametrize("place", ["/api/public/otel/v1/traces", "/api/otel/v1/traces"], ids=["Langfuse", "LangWatch"])
def test_where_an_sdk_sends_to_whatever_its_address_is_taken_as_otlp(
    place: str, shared: RunningCollector, numbers: Callable[[], int]
) -> None:
    assert shared.post(place, traces(span(numbers()))).json() == {}
    assert HTTP.get(shared.url + place).status_code == 405
    refused = shared.post(place, b"no protobuf", PROTOBUF)
    assert (refused.status_code, bool(Status.FromString(refused.content).message)) == (400, True)


WRONG = {
    "a path that is none": ("POST", "/v1/profiles", {}, 404),
    "a path of no signal": ("POST", "/otlp/v1/traces", {}, 404),
    "a path that is none, with two slashes": ("POST", "//v1/profiles", {}, 404),
    "another method": ("PUT", "/v1/traces", {}, 405),
    "an unknown encoding": ("POST", "/v1/traces", {"content-encoding": "br"}, 415),
    "another host": ("POST", "/v1/traces", {"host": "evil.example"}, 403),
}


@pytest.mark.parametrize("media", [JSON, PROTOBUF], ids=["json", "protobuf"])
@pytest.mark.parametrize("case", WRONG)
def test_every_refusal_is_a_status_in_the_form_of_the_request(
    case: str, media: dict[str, str], shared: RunningCollector
) -> None:
    method, path, headers, status = WRONG[case]
    answer = HTTP.request(method, shared.url + path, content=b"x", headers={**media, **headers})
    assert (answer.status_code, answer.headers["content-type"]) == (status, media["content-type"])
    said = Status.FromString(answer.content).message if media is PROTOBUF else answer.json()["message"]
    assert said
    assert answer.headers.get("allow") == ("POST" if status == 405 else None)


@pytest.mark.parametrize(
    "path", ["/healthz", "/readyz", "/metrics", "/openapi.json", "/api/v1/breakdown", "/api/v1/rules"]
)
def test_a_probe_that_asks_with_head_is_answered_like_get(path: str, shared: RunningCollector) -> None:
    head, whole = HTTP.head(shared.url + path), HTTP.get(shared.url + path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == whole.headers["content-type"]
    assert whole.headers["content-type"].count("charset") <= 1


def test_a_copy_that_can_be_fetched_once_is_not_used_up_by_head(shared: RunningCollector) -> None:
    assert HTTP.head(f"{shared.url}/api/v1/backup/file").status_code == 405


def details(error: Any) -> bytes | None:
    """The `google.rpc.Status` of a gRPC refusal."""
    return dict(error.trailing_metadata()).get("grpc-status-details-bin")


def test_grpc_on_the_http_port_is_told_the_other(shared: RunningCollector) -> None:
    place = shared.url.removeprefix("http://")
    with grpc.insecure_channel(place) as channel, pytest.raises(grpc.RpcError) as refused:
        TraceServiceStub(channel).Export(protobuf(1))
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert f"gRPC is on port {shared.grpc.rpartition(':')[2]}" in str(refused.value.details())


CUT_OFF = {
    "less than its length": b"Content-Length: 100\r\n\r\n{}",
    "a chunk that is none": b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
    "no last chunk": b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
}


@pytest.mark.parametrize("case", CUT_OFF)
def test_a_body_that_is_cut_off_is_no_failure_of_the_collector(case: str, shared: RunningCollector) -> None:
    with socket.create_connection(("127.0.0.1", int(shared.url.rpartition(":")[2])), timeout=10) as connection:
        connection.sendall(b"POST /v1/logs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        connection.sendall(CUT_OFF[case])
        connection.shutdown(socket.SHUT_WR)
        assert b" 400 " in connection.recv(1000)
    assert "misstep_failures_total{" not in HTTP.get(f"{shared.url}/metrics").text


def test_grpc_messages_of_60_mib_are_taken_and_of_65_refused_for_good(shared: RunningCollector) -> None:
    def huge(size: int) -> ExportTraceServiceRequest:
        message = protobuf(size)
        attributes = message.resource_spans[0].scope_spans[0].spans[0].attributes
        attributes.add(key="noise").value.string_value = "x" * size
        return message

    with grpc.insecure_channel(shared.grpc, options=[("grpc.max_send_message_length", -1)]) as channel:
        stub = TraceServiceStub(channel)
        assert stub.Export(huge(60 << 20)) == ExportTraceServiceResponse()
        for size, compression in ((65 << 20, None), (200 << 20, grpc.Compression.Gzip)):
            with pytest.raises(grpc.RpcError) as refused:
                stub.Export(huge(size), compression=compression)
            assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert details(refused.value) is None
    assert shared.get("/api/v1/health")["refused"]["too_large"] >= 2


def test_a_client_may_ping_as_often_as_it_likes(shared: RunningCollector, numbers: Callable[[], int]) -> None:
    options = [("grpc.keepalive_time_ms", 200), ("grpc.keepalive_permit_without_calls", 1)]
    options += [("grpc.http2.max_pings_without_data", 0), ("grpc.http2.min_sent_ping_interval_without_data_ms", 200)]
    seen: list[grpc.ChannelConnectivity] = []
    with grpc.insecure_channel(shared.grpc, options=options) as channel:
        channel.subscribe(seen.append)
        for _ in range(3):
            TraceServiceStub(channel).Export(protobuf(numbers() + 4 * 10**6))
            time.sleep(1)
    dropped = {grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.IDLE}
    assert grpc.ChannelConnectivity.READY in seen
    assert not dropped.intersection(seen[seen.index(grpc.ChannelConnectivity.READY) :])


def test_a_full_queue_says_when_to_come_back(start_collector: Callable[..., RunningCollector]) -> None:
    running = start_collector(QUEUE="1KiB")

    def send(number: int) -> httpx.Response:
        return running.post("/v1/traces", traces(*(span(number * 100 + each) for each in range(100))))

    with ThreadPoolExecutor(8) as pool, grpc.insecure_channel(running.grpc) as channel:
        sending = [pool.submit(send, number) for number in range(100)]
        refused: list[grpc.RpcError] = []
        while not all(each.done() for each in sending):
            try:
                TraceServiceStub(channel).Export(protobuf(len(refused) + 10**7))
            except grpc.RpcError as error:
                refused.append(error)
        answers = [each.result() for each in sending]
    assert {answer.status_code for answer in answers} == {200, 429}
    delays = {int(answer.headers["retry-after"]) for answer in answers if answer.status_code == 429}
    assert delays <= {2, 3, 4}
    assert len(delays) > 1
    status = Status.FromString(details(refused[0]) or b"")
    info = RetryInfo()
    assert refused[0].code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert status.details[0].Unpack(info)
    assert 2 <= info.retry_delay.ToTimedelta().total_seconds() <= 4


EXPORTERS: dict[str, tuple[Callable[[RunningCollector, str], dict[str, Any]], Any, Any, Any]] = {
    "HTTP": (lambda running, path: {"endpoint": f"{running.url}/v1/{path}"}, HttpSpans, HttpLogs, HttpMetrics),
    "HTTP, gzip": (
        lambda running, path: {"endpoint": f"{running.url}/v1/{path}", "compression": Compression.Gzip},
        HttpSpans, HttpLogs, HttpMetrics,
    ),
    "gRPC": (
        lambda running, _: {"endpoint": f"http://{running.grpc}", "insecure": True}, GrpcSpans, GrpcLogs, GrpcMetrics
    ),
    "gRPC, gzip": (
        lambda running, _: {
            "endpoint": f"http://{running.grpc}", "insecure": True, "compression": grpc.Compression.Gzip,
        },
        GrpcSpans, GrpcLogs, GrpcMetrics,
    ),
}  # fmt: skip


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_the_exporters_of_the_python_sdk(exporter: str, shared: RunningCollector) -> None:
    before = shared.get("/api/v1/health")
    where, spans, logs, metrics = EXPORTERS[exporter]
    resource = Resource({"service.name": "an agent"})
    tracing = TracerProvider(resource=resource)
    tracing.add_span_processor(SimpleSpanProcessor(spans(**where(shared, "traces"))))
    with tracing.get_tracer("agent").start_as_current_span("execute_tool read_file") as span:
        span.set_attributes({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "read_file"})
    logging = LoggerProvider(resource)
    logging.add_log_record_processor(SimpleLogRecordProcessor(logs(**where(shared, "logs"))))
    logging.get_logger("agent").emit(LogRecord(timestamp=time.time_ns(), body="nothing of interest"))
    reader = PeriodicExportingMetricReader(metrics(**where(shared, "metrics")))
    metering = MeterProvider([reader], resource)
    metering.get_meter("agent").create_counter("calls").add(1)
    for provider in (tracing, logging, metering):
        provider.shutdown()
    after = shared.get("/api/v1/health")
    assert (after["accepted"] - before["accepted"], after["stored"] - before["stored"]) == (3, 1)
    for reason in ("metric", "no_event"):
        assert after["dropped"][reason] - before["dropped"].get(reason, 0) == 1


def test_a_zstd_frame_with_a_large_window_is_refused(shared: RunningCollector) -> None:
    body = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 27})
    answer = shared.post("/v1/traces", body.compress(b"{}") + body.flush(), {"content-encoding": "zstd"})
    assert answer.status_code == 400
