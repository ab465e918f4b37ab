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


def test_what_is_no_time_of_a_recording_neither_moves_nor_counts() -> None:
    times = ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00+05:00", "1970-01-01T00:00:00Z", "2026-11-21T20:16:18Z"]
    recording = Recording(
        "test", "events", JSON_LINES, b"\n".join(json.dumps({"time": each}).encode() for each in times)
    )
    assert newest_ns(recording) == 1_795_292_178_000_000_000
    found = [json.loads(line)["time"] for line in moved(recording, later).body.splitlines()]
    assert found == [*times[:3], "2026-11-21T21:16:18Z"]


def test_a_line_that_is_not_json_keeps_no_other_from_moving() -> None:
    lines = [b'{"ts":1700000000}', b"{not json", b"", b"[" * 100_000, '{"ts":"\u00b2"}'.encode(), b'{"ts":1700000001}']
    found = moved(Recording("test", "events", JSON_LINES, b"\n".join(lines)), later).body.split(b"\n")
    assert found == [b'{"ts":1700003600}', *lines[1:5], b'{"ts":1700003601}']


@pytest.mark.parametrize("indent", [None, 1])
def test_entries_in_one_document_move(indent: int | None) -> None:
    body = json.dumps([{"ts": 1700000000}, {"ts": 1700000001}], indent=indent).encode()
    found = moved(Recording("test", "events", JSON, body), later).body
    assert json.loads(found) == [{"ts": 1700003600}, {"ts": 1700003601}]


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
