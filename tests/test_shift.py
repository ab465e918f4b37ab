"""Times in recordings are shifted to the present, in both encodings and in plain entries."""

from __future__ import annotations

import json
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.commands.recordings import JSON_LINES, Recording
from collector.commands.shift import moved, newest_ns
from collector.decode.otlp import JSON, PROTOBUF

HOUR_NS = 3_600_000_000_000
THEN_NS = 1_700_000_000_123_456_789


def later(time_ns: int) -> int:
    return time_ns + HOUR_NS


def json_body(value: Any) -> Recording:
    return Recording("test", "logs", JSON, json.dumps(value).encode())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"timeUnixNano": str(THEN_NS)}, {"timeUnixNano": str(THEN_NS + HOUR_NS)}),
        ({"observedTimeUnixNano": THEN_NS}, {"observedTimeUnixNano": THEN_NS + HOUR_NS}),
        ({"timeUnixNano": "0", "startTimeUnixNano": 0}, {"timeUnixNano": "0", "startTimeUnixNano": 0}),
        (
            [{"key": "event.timestamp", "value": {"stringValue": "2026-11-21T20:16:18.019Z"}}],
            [{"key": "event.timestamp", "value": {"stringValue": "2026-11-21T21:16:18.019000Z"}}],
        ),
        (
            [{"key": "start_time", "value": {"intValue": "1700000000123"}}, {"key": "end_time", "value": {}}],
            [{"key": "start_time", "value": {"intValue": "1700003600123"}}, {"key": "end_time", "value": {}}],
        ),
        (
            [{"key": "timestamp", "value": {"doubleValue": 1700000000.5}}],
            [{"key": "timestamp", "value": {"doubleValue": 1700003600.5}}],
        ),
        (
            [{"key": "duration_ms", "value": {"intValue": "1700000000123"}}],
            [{"key": "duration_ms", "value": {"intValue": "1700000000123"}}],
        ),
        ({"body": {"stringValue": "at 2026-11-21T20:16:18Z"}}, {"body": {"stringValue": "at 2026-11-21T20:16:18Z"}}),
        ({"text": "cut \ud83d here", "timeUnixNano": 5}, {"text": "cut \ud83d here", "timeUnixNano": 5}),
    ],
)
def test_times_in_json_move_and_nothing_else_does(before: Any, after: Any) -> None:
    assert json.loads(moved(json_body(before), later).body) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"timestamp": 1700000000123}, {"timestamp": 1700003600123}),
        ({"timestamp": "2026-11-21T20:16:18+02:00"}, {"timestamp": "2026-11-21T21:16:18+02:00"}),
        ({"time": "2026-11-21 20:16:18"}, {"time": "2026-11-21T21:16:18"}),
        ({"ts": 1700000000}, {"ts": 1700003600}),
        ({"timestamp": True, "time": "yesterday", "ts": None}, {"timestamp": True, "time": "yesterday", "ts": None}),
    ],
)
def test_times_in_plain_entries_move(before: Any, after: Any) -> None:
    body = b"\n".join([json.dumps(before).encode()] * 2)
    lines = moved(Recording("test", "events", JSON_LINES, body), later).body.splitlines()
    assert [json.loads(line) for line in lines] == [after, after]


def test_times_in_protobuf_move_at_every_depth() -> None:
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(name="x")
    span.start_time_unix_nano, span.end_time_unix_nano = THEN_NS, THEN_NS + 5
    span.events.add(time_unix_nano=THEN_NS + 1)
    span.attributes.add(key="event.timestamp").value.string_value = "2026-11-21T20:16:18Z"
    recording = Recording("test", "traces", PROTOBUF, request.SerializeToString())

    assert newest_ns(recording) == 1_795_292_178_000_000_000
    shifted = ExportTraceServiceRequest.FromString(moved(recording, later).body)
    span = shifted.resource_spans[0].scope_spans[0].spans[0]
    assert (span.name, span.start_time_unix_nano, span.end_time_unix_nano) == (
        "x",
        THEN_NS + HOUR_NS,
        THEN_NS + HOUR_NS + 5,
    )
    assert span.events[0].time_unix_nano == THEN_NS + HOUR_NS + 1
    assert span.attributes[0].value.string_value == "2026-11-21T21:16:18Z"


@pytest.mark.parametrize("body", [b"{not json", b"\xff\xff\xff", b"[" * 100_000])
@pytest.mark.parametrize("media_type", [JSON, PROTOBUF])
def test_what_cannot_be_read_stays_as_it_is(body: bytes, media_type: str) -> None:
    recording = Recording("test", "logs", media_type, body)
    assert moved(recording, later) == recording
    assert newest_ns(recording) == 0
