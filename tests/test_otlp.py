"""OTLP bytes to records: both encodings give the same, known oddities are accepted, nonsense is refused."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from collector.decode.otlp import JSON, PROTOBUF, decode
from collector.decode.otlp_json import MENDED as MENDED_WORDS
from collector.decode.otlp_json import value_of
from collector.decode.record import Record
from collector.errors import Rejected
from collector.recognise.recognise import recognise
from collector.recognise.source_tables import load_sources

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def span(**fields: Any) -> dict[str, Any]:
    return {"name": "execute_tool x", "traceId": TRACE, "spanId": SPAN, **fields}


def traces(*spans: dict[str, Any], resource: dict[str, Any] | None = None) -> bytes:
    scope = {"scope": {"name": "lib", "version": "1"}, "spans": list(spans)}
    return json.dumps({"resourceSpans": [{"resource": resource or {}, "scopeSpans": [scope]}]}).encode()


def logs(*records: dict[str, Any]) -> bytes:
    return json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": list(records)}]}]}).encode()


def attribute(key: str, **value: Any) -> dict[str, Any]:
    return {"key": key, "value": value}


def one(body: bytes, signal: str = "traces", media: str = JSON) -> Record:
    request = decode(body, media, signal)
    assert request.records == 1
    return request.scopes[0].records[0]


VALUES = [
    ({"stringValue": "a"}, "a"),
    ({"boolValue": False}, False),
    ({"intValue": "9007199254740993"}, 9007199254740993),
    ({"intValue": 5}, 5),
    ({"doubleValue": 1.5}, 1.5),
    ({"arrayValue": {"values": [{"stringValue": "a"}, {}]}}, ["a", None]),
    ({"arrayValue": {}}, []),
    ({"kvlistValue": {"values": [{"key": "k", "value": {"intValue": 1}}]}}, {"k": 1}),
    ({"bytesValue": base64.b64encode(b"\0x").decode()}, b"\0x"),
    ({}, None),
]


@pytest.mark.parametrize(("value", "expected"), VALUES)
def test_every_kind_of_value_is_read(value: dict[str, Any], expected: Any) -> None:
    record = one(traces(span(attributes=[attribute("a", **value)])))
    assert record.attributes == {"a": expected}


def test_both_encodings_give_the_same_records() -> None:
    message = ExportTraceServiceRequest()
    group = message.resource_spans.add()
    group.resource.attributes.add(key="service.name").value.string_value = "s"
    part = group.scope_spans.add()
    part.scope.name = "lib"
    raw = part.spans.add(
        name="n", trace_id=bytes.fromhex(TRACE), span_id=bytes.fromhex(SPAN), kind=3,
        start_time_unix_nano=1, end_time_unix_nano=2,
    )  # fmt: skip
    raw.status.code = Status.STATUS_CODE_ERROR
    raw.status.message = "bad"
    raw.attributes.add(key="list").value.array_value.values.add().int_value = 1
    raw.events.add(name="exception", time_unix_nano=2).attributes.add(key="t").value.string_value = "E"
    as_json = traces(
        {
            "name": "n", "traceId": TRACE.upper(), "spanId": SPAN, "kind": 3, "startTimeUnixNano": "1",
            "endTimeUnixNano": 2,
            "status": {"code": 2, "message": "bad"},
            "attributes": [attribute("list", arrayValue={"values": [{"intValue": "1"}]})],
            "events": [{"name": "exception", "timeUnixNano": "2", "attributes": [attribute("t", stringValue="E")]}],
            "unknownField": {"is": "ignored"},
        },
        resource={"attributes": [attribute("service.name", stringValue="s")]},
    )  # fmt: skip
    for body, media in ((message.SerializeToString(), PROTOBUF), (as_json, JSON)):
        scope = decode(body, media, "traces").scopes[0]
        found = scope.records[0]
        assert (scope.resource, scope.name) == ({"service.name": "s"}, "lib")
        assert (found.trace_id, found.span_id, found.parent_span_id) == (TRACE, SPAN, "")
        assert (found.name, found.kind, found.start_ns, found.time_ns) == ("n", 3, 1, 2)
        assert (found.status, found.status_message, found.attributes) == (2, "bad", {"list": [1]})
        assert [(event.name, event.time_ns, event.attributes) for event in found.events] == [
            ("exception", 2, {"t": "E"})
        ]


def test_log_record_fields() -> None:
    found = one(
        logs({"eventName": "e", "observedTimeUnixNano": "7", "severityNumber": 17, "body": {"stringValue": "text"}}),
        "logs",
    )
    assert (found.signal, found.name, found.time_ns, found.observed_ns) == ("log", "e", 0, 7)
    assert (found.severity, found.body, found.attributes, found.events) == (17, "text", {}, [])


@pytest.mark.parametrize("signal", ["logs", "traces", "metrics"])
@pytest.mark.parametrize("body", [b"", b"{}", b'{"resourceSpans":[],"resourceLogs":null}'])
def test_an_empty_request_succeeds(signal: str, body: bytes) -> None:
    assert decode(body, JSON, signal).records == 0


@pytest.mark.parametrize(
    ("signal", "key"), [("traces", "resourceSpans"), ("logs", "resourceLogs"), ("metrics", "resourceMetrics")]
)
def test_a_body_of_something_else_is_said_to_be_none(signal: str, key: str) -> None:
    for body in (b'{"resource_spans": []}', b'{"resourceProfiles": []}', b'{"tool": "t"}'):
        assert decode(body, JSON, signal).warning == f"there is no {key} in this body, so nothing was taken"
    for body in (b"{}", f'{{"{key}": []}}'.encode(), f'{{"{key}": null, "more": 1}}'.encode()):
        assert not decode(body, JSON, signal).warning


def test_a_double_is_one_however_json_writes_it() -> None:
    """As in protobuf, so that a record that comes in both encodings is the same."""
    for written, read in ((3, 3.0), (3.5, 3.5), ("1.5", 1.5), ("x", None), ([1], None)):
        assert repr(value_of({"doubleValue": written})) == repr(read)
    assert math.isnan(value_of({"doubleValue": "NaN"}))


def test_of_the_resource_of_metrics_only_the_service_is_read() -> None:
    deep: Any = {"stringValue": "x"}
    for _ in range(80):
        deep = {"arrayValue": {"values": [deep]}}
    name = {"key": "service.name", "value": {"stringValue": "s"}}
    group = {"resource": {"attributes": [{"key": "deep", "value": deep}, name]}}
    metrics = [{"name": "m", "sum": {"dataPoints": [{}]}}]
    as_json = json.dumps({"resourceMetrics": [group | {"scopeMetrics": [{"metrics": metrics}]}]}).encode()
    request = decode(as_json, JSON, "metrics")
    assert (request.records, request.metrics) == (1, [("s", "", ["m"])])


def test_metrics_are_counted_by_data_point() -> None:
    metric = {"name": "m", "sum": {"dataPoints": [{"asInt": "1"}, {"asInt": "2"}]}}
    as_json = json.dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": [metric]}]}]}).encode()
    message = ExportMetricsServiceRequest()
    found = message.resource_metrics.add().scope_metrics.add().metrics.add(name="m")
    found.gauge.data_points.add()
    found.gauge.data_points.add()
    for body, media in ((as_json, JSON), (message.SerializeToString(), PROTOBUF)):
        request = decode(body, media, "metrics")
        assert (request.records, request.metrics) == (2, [(None, "", ["m"])])


MENDED = [
    (b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"a\\ud83d"}]}]}]}', "a�"),
    (b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"a\xff"}]}]}]}', "a�"),
    (b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"a","endTimeUnixNano":5.0}]}]}]}', "a"),
    (b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"a\tb\x02"}]}]}]}', "a\tb\x02"),
]


@pytest.mark.parametrize(("body", "name"), MENDED)
def test_one_bad_character_does_not_cost_the_batch(body: bytes, name: str) -> None:
    request = decode(body, JSON, "traces")
    assert request.scopes[0].records[0].name == name
    assert request.warning


def test_bad_utf8_in_protobuf_is_mended() -> None:
    message = ExportLogsServiceRequest()
    record = message.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=3)
    record.body.string_value = "cut XX here"
    request = decode(message.SerializeToString().replace(b"XX", b"\xf0\x9f"), PROTOBUF, "logs")
    found = request.scopes[0].records[0]
    assert (found.body, found.time_ns) == ("cut � here", 3)
    assert request.warning


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {"stringValue": "x"}
    for _ in range(depth):
        value = {"arrayValue": {"values": [value]}}
    return value


REFUSED = [
    (b"{", JSON),
    (b"[]", JSON),
    (b'"text"', JSON),
    (b'{"resourceSpans": 5}', JSON),
    (b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": {}}]}]}]}', JSON),
    (b'{"resourceSpans":' + b"[" * 100_000, JSON),
    (traces(span(traceId="xyz")), JSON),
    (traces(span(traceId="0af7")), JSON),
    (traces(span(traceId="0x" + TRACE[2:])), JSON),
    (traces(span(traceId="+" + TRACE[1:])), JSON),
    (traces(span(traceId=TRACE[:8] + "_" + TRACE[9:])), JSON),
    (traces(span(spanId=" " + SPAN[1:])), JSON),
    (traces(span(spanId="\u0661" + SPAN[1:])), JSON),
    (b"\x00\x01random", PROTOBUF),
    (b"\x0a\x7f", PROTOBUF),
]


@pytest.mark.parametrize(("body", "media"), REFUSED)
def test_what_can_never_be_read_is_refused(body: bytes, media: str) -> None:
    with pytest.raises(Rejected):
        [record.trace_id for scope in decode(body, media, "traces").scopes for record in scope.records]


def test_of_spans_that_are_dropped_by_name_neither_ids_nor_values_are_read() -> None:
    noise = span(
        name="append_items", traceId="xyz", parentSpanId="7", attributes=[{"key": "code.file.path", "value": 5}]
    )
    body = json.loads(traces(noise))
    body["resourceSpans"][0]["scopeSpans"][0]["scope"]["name"] = "codex_exec"
    found = recognise(decode(json.dumps(body).encode(), JSON, "traces").scopes, load_sources())
    assert found.dropped == {"no_event": 1}


def test_attributes_of_wrong_types_are_mended_where_they_are_read() -> None:
    request = decode(traces(span(events=[{"name": "exception", "timeUnixNano": 1.5e18}])), JSON, "traces")
    [[record]] = [scope.records for scope in request.scopes]
    assert record.trace_id == TRACE
    assert request.mended == set()
    assert [event.time_ns for event in record.events] == [1_500_000_000_000_000_000]
    assert request.mended == {MENDED_WORDS}


def test_deeply_nested_attribute_is_refused() -> None:
    record = one(traces(span(attributes=[attribute("a", **nested(200))])))
    with pytest.raises(Rejected, match="deep"):
        _ = record.attributes


@given(st.binary(max_size=300), st.sampled_from(["logs", "traces", "metrics"]), st.sampled_from([JSON, PROTOBUF]))
def test_any_bytes_are_a_request_or_refused(body: bytes, signal: str, media: str) -> None:
    try:
        request = decode(body, media, signal)
    except Rejected:
        return
    assert request.records >= 0


KEYS = ["resourceSpans", "scopeSpans", "spans", "attributes", "key", "value", "stringValue", "arrayValue", "values",
        "status", "traceId"]  # fmt: skip
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=30,
)


@given(ANY_JSON)
def test_any_json_is_a_request_or_refused(value: Any) -> None:
    try:
        request = decode(json.dumps(value).encode(), JSON, "traces")
        for scope in request.scopes:
            for record in scope.records:
                assert isinstance(record.attributes, dict)
                assert isinstance(record.events, list)
    except Rejected:
        return
