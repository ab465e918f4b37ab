"""OTLP request bytes, JSON or protobuf, as `Scope`s of `Record`s. Knows nothing of Misstep's own columns.

Attributes, bodies and span events are converted only when they are read: most spans of real agents are dropped by name alone.
Source: opentelemetry-proto docs/specification.md and its JSON mapping (hex ids, lowerCamelCase, 64-bit integers as text or number).
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.errors import Rejected
from collector.wire import mend_utf8

JSON = "application/json"
PROTOBUF = "application/x-protobuf"
MAX_DEPTH = 64  # of nested attribute values; real agents stay below 10

MESSAGES = {"logs": ExportLogsServiceRequest, "traces": ExportTraceServiceRequest, "metrics": ExportMetricsServiceRequest}


class SpanEvent:
    """One event of a span: name, time and attributes."""

    __slots__ = ("attributes", "name", "time_ns")

    def __init__(self, name: str, time_ns: int = 0, attributes: dict[str, Any] | None = None) -> None:
        self.name = name
        self.time_ns = time_ns
        self.attributes = {} if attributes is None else attributes


class Record:
    """One log record, span or plain JSON object, whatever the encoding it came in.

    Times are nanoseconds, 0 where absent; `time_ns` of a span is its end. Ids are lower-case hex, "" where absent.
    `status` is 0 unset, 1 ok, 2 error; `kind` is the span kind (2 server, 3 client); `signal` is log, span or event.
    """

    __slots__ = (
        "_attributes", "_body", "_convert", "_events", "_raw",
        "kind", "name", "observed_ns", "parent_span_id", "severity", "signal", "span_id",
        "start_ns", "status", "status_message", "time_ns", "trace_id",
    )  # fmt: skip

    def __init__(
        self,
        signal: str,
        name: str = "",
        attributes: dict[str, Any] | None = None,
        *,
        body: Any = None,
        time_ns: int = 0,
        start_ns: int = 0,
        observed_ns: int = 0,
        trace_id: str = "",
        span_id: str = "",
        parent_span_id: str = "",
        kind: int = 0,
        status: int = 0,
        status_message: str = "",
        severity: int = 0,
        events: list[SpanEvent] | None = None,
        raw: Any = None,
        convert: Convert | None = None,
    ) -> None:
        self.signal = signal
        self.name = name
        self.time_ns = time_ns
        self.start_ns = start_ns
        self.observed_ns = observed_ns
        self.trace_id = trace_id
        self.span_id = span_id
        self.parent_span_id = parent_span_id
        self.kind = kind
        self.status = status
        self.status_message = status_message
        self.severity = severity
        self._raw = raw
        self._convert = convert
        self._attributes = attributes if convert is None else None
        self._body = body
        self._events = events

    @property
    def attributes(self) -> dict[str, Any]:
        """Attribute values as str, bool, int, float, bytes, list, dict or None."""
        if self._attributes is None:
            self._attributes = {} if self._convert is None else self._convert.attributes(self._raw)
        return self._attributes

    @property
    def body(self) -> Any:
        """The log body, converted like an attribute value; None for a span."""
        if self._body is None and self._convert is not None and self.signal == "log":
            self._body = self._convert.body(self._raw)
        return self._body

    @property
    def events(self) -> list[SpanEvent]:
        """The span's events; empty for anything else."""
        if self._events is None:
            self._events = [] if self._convert is None or self.signal != "span" else self._convert.events(self._raw)
        return self._events


@dataclass(slots=True)
class Scope:
    """Records that share a resource and an instrumentation scope."""

    resource: dict[str, Any]
    name: str
    version: str
    records: list[Record]


@dataclass(slots=True, frozen=True)
class Convert:
    """How one encoding's raw record gives up its attributes, events and body."""

    attributes: Callable[[Any], dict[str, Any]]
    events: Callable[[Any], list[SpanEvent]]
    body: Callable[[Any], Any]


@dataclass(slots=True)
class Request:
    """One decoded export request.

    `records` counts log records, spans or data points; `warning` says what had to be mended, for `partialSuccess`;
    `metrics` holds (resource, scope name, metric names) of a metrics request, whose points are never events.
    """

    signal: str
    scopes: list[Scope]
    records: int
    warning: str = ""
    metrics: list[tuple[dict[str, Any], str, list[str]]] | None = None


def decode(body: bytes, media_type: str, signal: str) -> Request:
    """Decodes one request body; `signal` is logs, traces or metrics.

    Raises Rejected for what can never be decoded. One bad character costs nothing: it is mended and said in `warning`.
    """
    if media_type == PROTOBUF:
        return _decode_protobuf(body, signal)
    return _decode_json(body, signal)


# JSON ------------------------------------------------------------------------------------------------------------------


class _KeyValue(msgspec.Struct, gc=False):
    key: str = ""
    value: dict[str, Any] | None = None


class _Resource(msgspec.Struct, gc=False):
    attributes: list[_KeyValue] | None = None


class _ScopeInfo(msgspec.Struct, gc=False):
    name: str | None = None
    version: str | None = None


class _Event(msgspec.Struct, gc=False):
    name: str | None = None
    timeUnixNano: int | str | None = None
    attributes: list[_KeyValue] | None = None


class _Status(msgspec.Struct, gc=False):
    code: int | str | None = None
    message: str | None = None


class _Span(msgspec.Struct, gc=False):
    name: str | None = None
    traceId: str | None = None
    spanId: str | None = None
    parentSpanId: str | None = None
    kind: int | str | None = None
    startTimeUnixNano: int | str | None = None
    endTimeUnixNano: int | str | None = None
    attributes: list[_KeyValue] | None = None
    events: list[_Event] | None = None
    status: _Status | None = None


class _Log(msgspec.Struct, gc=False):
    timeUnixNano: int | str | None = None
    observedTimeUnixNano: int | str | None = None
    severityNumber: int | str | None = None
    eventName: str | None = None
    traceId: str | None = None
    spanId: str | None = None
    body: dict[str, Any] | None = None
    attributes: list[_KeyValue] | None = None


class _Metric(msgspec.Struct, gc=False):
    name: str | None = None
    gauge: dict[str, Any] | None = None
    sum: dict[str, Any] | None = None
    histogram: dict[str, Any] | None = None
    exponentialHistogram: dict[str, Any] | None = None
    summary: dict[str, Any] | None = None


class _ScopeSpans(msgspec.Struct, gc=False):
    scope: _ScopeInfo | None = None
    spans: list[_Span] | None = None


class _ScopeLogs(msgspec.Struct, gc=False):
    scope: _ScopeInfo | None = None
    logRecords: list[_Log] | None = None


class _ScopeMetrics(msgspec.Struct, gc=False):
    scope: _ScopeInfo | None = None
    metrics: list[_Metric] | None = None


class _ResourceSpans(msgspec.Struct, gc=False):
    resource: _Resource | None = None
    scopeSpans: list[_ScopeSpans] | None = None


class _ResourceLogs(msgspec.Struct, gc=False):
    resource: _Resource | None = None
    scopeLogs: list[_ScopeLogs] | None = None


class _ResourceMetrics(msgspec.Struct, gc=False):
    resource: _Resource | None = None
    scopeMetrics: list[_ScopeMetrics] | None = None


class _Traces(msgspec.Struct, gc=False):
    resourceSpans: list[_ResourceSpans] | None = None


class _Logs(msgspec.Struct, gc=False):
    resourceLogs: list[_ResourceLogs] | None = None


class _Metrics(msgspec.Struct, gc=False):
    resourceMetrics: list[_ResourceMetrics] | None = None


_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    "traces": msgspec.json.Decoder(_Traces),
    "logs": msgspec.json.Decoder(_Logs),
    "metrics": msgspec.json.Decoder(_Metrics),
}


def _decode_json(body: bytes, signal: str) -> Request:
    decoder = _DECODERS[signal]
    warning = ""
    if not body.strip():
        return Request(signal, [], 0)
    try:
        message = decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as first:
        message, warning = _mended(body, decoder.type, str(first))
    except RecursionError:
        raise Rejected("JSON is nested too deeply") from None
    if signal == "metrics":
        return _metrics_request(message, warning)
    scopes = list(_json_scopes(message, signal))
    return Request(signal, scopes, sum(len(scope.records) for scope in scopes), warning)


def _mended(body: bytes, kind: Any, reason: str) -> tuple[Any, str]:
    """The slow pass: bad UTF-8 and lone surrogates become U+FFFD, integral floats become integers."""
    try:
        loose = json.loads(body.decode("utf-8", "replace"))
        return msgspec.convert(_tidy(loose), kind, strict=False), "bad characters or numbers were replaced"
    except RecursionError:
        raise Rejected("JSON is nested too deeply") from None
    except (ValueError, TypeError, msgspec.MsgspecError):
        raise Rejected(f"body is not OTLP JSON: {_first_line(reason)}") from None


def _tidy(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_tidy(item) for item in value]
    if isinstance(value, dict):
        return {_tidy(key): (item if key == "doubleValue" else _tidy(item)) for key, item in value.items()}
    return value


def _first_line(text: str) -> str:
    """Only msgspec's own words: they name the place (`$.resourceSpans[0]`), never the data."""
    return text.splitlines()[0][:200] if text else "not readable"


def _json_scopes(message: Any, signal: str) -> Iterator[Scope]:
    record_of = _json_span if signal == "traces" else _json_log
    for group in (message.resourceSpans if signal == "traces" else message.resourceLogs) or ():
        resource = _json_attributes(group.resource.attributes) if group.resource else {}
        for part in (group.scopeSpans if signal == "traces" else group.scopeLogs) or ():
            scope = part.scope or _ScopeInfo()
            raw = (part.spans if signal == "traces" else part.logRecords) or ()
            yield Scope(resource, scope.name or "", scope.version or "", [record_of(item) for item in raw])


def _json_span(raw: _Span) -> Record:
    status = raw.status
    return Record(
        "span",
        raw.name or "",
        time_ns=_integer(raw.endTimeUnixNano),
        start_ns=_integer(raw.startTimeUnixNano),
        trace_id=_hex(raw.traceId),
        span_id=_hex(raw.spanId),
        parent_span_id=_hex(raw.parentSpanId),
        kind=_integer(raw.kind),
        status=_integer(status.code) if status else 0,
        status_message=(status.message or "") if status else "",
        raw=raw,
        convert=_JSON,
    )


def _json_log(raw: _Log) -> Record:
    return Record(
        "log",
        raw.eventName or "",
        time_ns=_integer(raw.timeUnixNano),
        observed_ns=_integer(raw.observedTimeUnixNano),
        trace_id=_hex(raw.traceId),
        span_id=_hex(raw.spanId),
        severity=_integer(raw.severityNumber),
        raw=raw,
        convert=_JSON,
    )


# Names of enum values are not valid OTLP/JSON, but hand-written senders use them and the meaning is certain.
_NAMED = {
    "STATUS_CODE_OK": 1, "STATUS_CODE_ERROR": 2,
    "SPAN_KIND_INTERNAL": 1, "SPAN_KIND_SERVER": 2, "SPAN_KIND_CLIENT": 3, "SPAN_KIND_PRODUCER": 4, "SPAN_KIND_CONSUMER": 5,
}  # fmt: skip


def _integer(value: int | str | None) -> int:
    if isinstance(value, int):
        return value if 0 <= value < 1 << 63 else 0
    if not value:
        return 0
    try:
        number = int(value)
    except ValueError:
        return _NAMED.get(value, 0)
    return number if 0 <= number < 1 << 63 else 0


def _hex(value: str | None) -> str:
    """Lower-case hex; ids in the proto3 mapping's base64 (12 or 24 characters) are taken too; all zeros mean none."""
    if not value or not value.strip("0"):
        return ""
    if len(value) in (16, 32):
        try:
            int(value, 16)
            return value.lower()
        except ValueError:
            pass
    try:
        raw = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise Rejected(f"a trace or span id is not hex ({len(value)} characters)") from None
    if len(raw) not in (8, 16):
        raise Rejected(f"a trace or span id has {len(raw)} bytes; 16 or 8 are allowed")
    return raw.hex()


def _json_attributes(pairs: list[_KeyValue] | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs or ():
        value = pair.value
        if value is not None:
            text = value.get("stringValue")
            found[pair.key] = text if type(text) is str else json_value(value)
    return found


def json_value(value: Any, depth: int = 0) -> Any:
    """A JSON AnyValue as a Python value; nothing at all is None; nested beyond MAX_DEPTH raises Rejected."""
    if depth > MAX_DEPTH:
        raise Rejected("an attribute value is nested too deeply")
    if not isinstance(value, dict):
        return None
    for kind, item in value.items():
        if kind in ("stringValue", "boolValue", "doubleValue"):
            return item
        if kind == "intValue":
            return _signed(item)
        if kind == "arrayValue":
            items = item.get("values") if isinstance(item, dict) else None
            return [json_value(each, depth + 1) for each in items or ()] if isinstance(items, list | None) else []
        if kind == "kvlistValue":
            pairs = item.get("values") if isinstance(item, dict) else None
            return _json_map(pairs, depth) if isinstance(pairs, list) else {}
        if kind == "bytesValue":
            return _bytes(item)
    return None


def _json_map(pairs: list[Any], depth: int) -> dict[str, Any]:
    return {
        str(pair.get("key", "")): json_value(pair.get("value"), depth + 1) for pair in pairs if isinstance(pair, dict)
    }


def _signed(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _bytes(value: Any) -> bytes | None:
    try:
        return base64.b64decode(value)
    except (TypeError, ValueError):
        return None


def _json_events(raw: _Span) -> list[SpanEvent]:
    return [
        SpanEvent(event.name or "", _integer(event.timeUnixNano), _json_attributes(event.attributes))
        for event in raw.events or ()
    ]


_JSON = Convert(lambda raw: _json_attributes(raw.attributes), _json_events, lambda raw: json_value(raw.body))


def _metrics_request(message: _Metrics, warning: str) -> Request:
    seen: list[tuple[dict[str, Any], str, list[str]]] = []
    points = 0
    for group in message.resourceMetrics or ():
        resource = _json_attributes(group.resource.attributes) if group.resource else {}
        for part in group.scopeMetrics or ():
            metrics = part.metrics or []
            seen.append(
                (resource, (part.scope and part.scope.name) or "", [metric.name or "" for metric in metrics])
            )
            for metric in metrics:
                for data in (metric.gauge, metric.sum, metric.histogram, metric.exponentialHistogram, metric.summary):
                    rows = data.get("dataPoints") if data else None
                    points += len(rows) if isinstance(rows, list) else 0
    return Request("metrics", [], points, warning, seen)


# Protobuf --------------------------------------------------------------------------------------------------------------


def _decode_protobuf(body: bytes, signal: str) -> Request:
    message: Any = MESSAGES[signal]()
    warning = ""
    try:
        message.ParseFromString(body)
    except (DecodeError, RecursionError):
        # protobuf refuses a whole body for one bad UTF-8 byte in a string field.
        try:
            mended = mend_utf8(body, message.DESCRIPTOR)
            message.ParseFromString(mended)
        except (DecodeError, RecursionError, ValueError):
            raise Rejected("body is not an OTLP protobuf message") from None
        if mended == body:
            raise Rejected("body is not an OTLP protobuf message") from None
        warning = "bad characters were replaced"
    return request_of(message, signal, warning)


def request_of(message: Any, signal: str, warning: str = "") -> Request:
    """The request in an already parsed Export…ServiceRequest (what gRPC hands over)."""
    if signal == "metrics":
        return _protobuf_metrics(message, warning)
    scopes = list(_protobuf_scopes(message, signal))
    return Request(signal, scopes, sum(len(scope.records) for scope in scopes), warning)


def _protobuf_scopes(message: Any, signal: str) -> Iterator[Scope]:
    traces = signal == "traces"
    record_of = _protobuf_span if traces else _protobuf_log
    for group in message.resource_spans if traces else message.resource_logs:
        resource = _protobuf_attributes(group.resource.attributes)
        for part in group.scope_spans if traces else group.scope_logs:
            raw = part.spans if traces else part.log_records
            yield Scope(resource, part.scope.name, part.scope.version, [record_of(item) for item in raw])


def _protobuf_span(raw: Any) -> Record:
    return Record(
        "span",
        raw.name,
        time_ns=_small(raw.end_time_unix_nano),
        start_ns=_small(raw.start_time_unix_nano),
        trace_id=_id(raw.trace_id),
        span_id=_id(raw.span_id),
        parent_span_id=_id(raw.parent_span_id),
        kind=raw.kind,
        status=raw.status.code,
        status_message=raw.status.message,
        raw=raw,
        convert=_PROTOBUF,
    )


def _protobuf_log(raw: Any) -> Record:
    return Record(
        "log",
        raw.event_name,
        time_ns=_small(raw.time_unix_nano),
        observed_ns=_small(raw.observed_time_unix_nano),
        trace_id=_id(raw.trace_id),
        span_id=_id(raw.span_id),
        severity=raw.severity_number,
        raw=raw,
        convert=_PROTOBUF,
    )


def _small(value: int) -> int:
    """Protobuf times are unsigned 64 bits, ours are signed: what does not fit is absurd and counts as absent."""
    return value if value < 1 << 63 else 0


def _id(value: bytes) -> str:
    if len(value) not in (0, 8, 16):
        raise Rejected(f"a trace or span id has {len(value)} bytes; 16 or 8 are allowed")
    return value.hex() if value.strip(b"\0") else ""


def _protobuf_attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: protobuf_value(pair.value) for pair in pairs}


def protobuf_value(value: Any, depth: int = 0) -> Any:
    """A protobuf AnyValue as a Python value; nothing at all is None; nested beyond MAX_DEPTH raises Rejected."""
    if depth > MAX_DEPTH:
        raise Rejected("an attribute value is nested too deeply")
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [protobuf_value(item, depth + 1) for item in value.array_value.values]
    if kind == "kvlist_value":
        return {pair.key: protobuf_value(pair.value, depth + 1) for pair in value.kvlist_value.values}
    if kind in ("string_value", "bool_value", "int_value", "double_value", "bytes_value"):
        return getattr(value, kind)
    return None


def _protobuf_events(raw: Any) -> list[SpanEvent]:
    return [
        SpanEvent(event.name, _small(event.time_unix_nano), _protobuf_attributes(event.attributes)) for event in raw.events
    ]


_PROTOBUF = Convert(
    lambda raw: _protobuf_attributes(raw.attributes), _protobuf_events, lambda raw: protobuf_value(raw.body)
)


def _protobuf_metrics(message: Any, warning: str) -> Request:
    seen: list[tuple[dict[str, Any], str, list[str]]] = []
    points = 0
    for group in message.resource_metrics:
        resource = _protobuf_attributes(group.resource.attributes)
        for part in group.scope_metrics:
            seen.append((resource, part.scope.name, [metric.name for metric in part.metrics]))
            for metric in part.metrics:
                kind = metric.WhichOneof("data")
                points += len(getattr(metric, kind).data_points) if kind else 0
    return Request("metrics", [], points, warning, seen)
