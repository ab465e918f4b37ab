"""OTLP protobuf, parsed by the published messages."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.decode.record import (
    SERVICE,
    Convert,
    Metrics,
    Record,
    Request,
    Scope,
    SpanEvent,
    check_count,
    check_depth,
    check_records,
    joined,
)
from collector.decode.wire import mended
from collector.errors import Rejected

MESSAGES: dict[str, type[Message]] = {
    "logs": ExportLogsServiceRequest,
    "traces": ExportTraceServiceRequest,
    "metrics": ExportMetricsServiceRequest,
}


def decode(body: bytes, signal: str) -> Request:
    """One OTLP protobuf body. Raises Rejected."""
    message, warning = parse(body, signal)
    if signal == "metrics":
        return _metrics(message, warning)
    scopes = list(_scopes(message, signal))
    if signal == "traces" and _no_span(message):
        warning = joined(warning, "these are no spans, so nothing was taken: send logs to /v1/logs")
    return Request(signal, scopes, sum(len(scope.records) for scope in scopes), warning)


def _no_span(message: Any) -> bool:
    """Whether there are no spans among these: none has an id, but some have fields that spans do not, as logs look like
    here.
    """
    foreign = False
    for group in message.resource_spans:
        for part in group.scope_spans:
            for span in part.spans:
                if span.trace_id or span.span_id:
                    return False
                foreign = foreign or len(UnknownFieldSet(span)) > 0
    return foreign


def parse(body: bytes, signal: str) -> tuple[Any, str]:
    """The Export…ServiceRequest in a body, and a warning if it had to be mended. Raises Rejected."""
    message: Any = MESSAGES[signal]()
    try:
        message.ParseFromString(body)
        return message, ""
    except (DecodeError, RecursionError):
        # protobuf refuses a whole body for one bad UTF-8 byte in a string field, or one value nested too deeply.
        try:
            better = mended(body, message.DESCRIPTOR)
            message.ParseFromString(better)
        except (DecodeError, RecursionError, ValueError):
            raise Rejected("body is not an OTLP protobuf message") from None
        if better == body:
            raise Rejected("body is not an OTLP protobuf message") from None
        return message, "bad characters were replaced, or values nested too deeply left out"


def _scopes(message: Any, signal: str) -> Iterator[Scope]:
    traces = signal == "traces"
    groups = message.resource_spans if traces else message.resource_logs
    check_records(count := len(groups))
    for group in groups:
        parts = group.scope_spans if traces else group.scope_logs
        check_records(count := count + len(parts))
        resource = _attributes(group.resource.attributes)
        for part in parts:
            raw = part.spans if traces else part.log_records
            check_records(count := count + len(raw))
            scope = part.scope
            if traces:
                records = [Record.later("span", item.name, item, _CONVERT) for item in raw]
            else:
                records = [Record.later("log", item.event_name, item, _CONVERT) for item in raw]
            yield Scope(resource, scope.name, scope.version, records, _attributes(scope.attributes))


def _fill(record: Record, raw: Any) -> None:
    record.trace_id = _id(raw.trace_id, "trace_id")
    record.span_id = _id(raw.span_id, "span_id")
    if record.signal == "span":
        record.time_ns, record.start_ns = _small(raw.end_time_unix_nano), _small(raw.start_time_unix_nano)
        record.parent_span_id = _id(raw.parent_span_id, "parent_span_id")
        record.kind = raw.kind
        status = raw.status
        record.status, record.status_message = status.code, status.message
        record.trace_state = raw.trace_state
        record.observed_ns = record.severity = 0
        if not raw.events:
            record.events = []
    else:
        record.time_ns, record.observed_ns = _small(raw.time_unix_nano), _small(raw.observed_time_unix_nano)
        record.severity = raw.severity_number
        record.start_ns = record.kind = record.status = 0
        record.parent_span_id = record.status_message = record.trace_state = ""


def _small(value: int) -> int:
    """Protobuf times are unsigned 64 bits, ours are signed: what does not fit counts as absent."""
    return value if value < 1 << 63 else 0


def _id(value: bytes, field: str) -> str:
    if len(value) not in (0, 8, 16):
        raise Rejected(f"{field} has {len(value)} bytes; 16 or 8 are allowed")
    return value.hex() if value.strip(b"\0") else ""


def _attributes(pairs: Any) -> dict[str, Any]:
    check_count(len(pairs))
    # Nearly all values are strings; `string_value` of any other kind is "".
    return {pair.key: pair.value.string_value or value_of(pair.value) for pair in pairs}


def value_of(value: Any, depth: int = 0) -> Any:
    """A protobuf AnyValue as a Python value; nothing at all is None; nested beyond MAX_DEPTH raises Rejected."""
    check_depth(depth)
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [value_of(item, depth + 1) for item in value.array_value.values]
    if kind == "kvlist_value":
        return {pair.key: value_of(pair.value, depth + 1) for pair in value.kvlist_value.values}
    if kind in ("string_value", "bool_value", "int_value", "double_value", "bytes_value"):
        return getattr(value, kind)
    return None


def _events(raw: Any) -> list[SpanEvent]:
    return [SpanEvent(event.name, _small(event.time_unix_nano), _attributes(event.attributes)) for event in raw.events]


_CONVERT = Convert(
    _fill,
    lambda raw: _attributes(raw.attributes),
    _events,
    lambda raw: value_of(raw.body),
    lambda raw, sought: sought.protobuf.search(raw.SerializePartialToString()) is not None,
    attrgetter("parent_span_id"),
    b"\0",
)


def _metrics(message: Any, warning: str) -> Request:
    seen: list[Metrics] = []
    points = 0
    for group in message.resource_metrics:
        service = _attributes([pair for pair in group.resource.attributes if pair.key == SERVICE]).get(SERVICE)
        for part in group.scope_metrics:
            seen.append((service, part.scope.name, [metric.name for metric in part.metrics]))
            for metric in part.metrics:
                kind = metric.WhichOneof("data")
                points += len(getattr(metric, kind).data_points) if kind else 0
    return Request("metrics", [], points, warning, seen)
