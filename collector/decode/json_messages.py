"""The messages of OTLP/JSON, as far as they are read, as types for msgspec.

Attributes and events of spans stay bytes until they are read: most spans are dropped by name.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Value(msgspec.Struct, gc=False):
    """An AnyValue; its content is checked when it is read, so that one odd value does not cost the request."""

    stringValue: Any = None
    boolValue: Any = None
    intValue: Any = None
    doubleValue: Any = None
    arrayValue: Any = None
    kvlistValue: Any = None
    bytesValue: Any = None


class KeyValue(msgspec.Struct, gc=False):
    key: str = ""
    value: Value | None = None


class Resource(msgspec.Struct, gc=False):
    attributes: list[KeyValue] | None = None


class ScopeInfo(msgspec.Struct, gc=False):
    name: str | None = None
    version: str | None = None
    attributes: list[KeyValue] | None = None


class Event(msgspec.Struct, gc=False):
    name: str | None = None
    timeUnixNano: int | str | None = None
    attributes: list[KeyValue] | None = None


class Status(msgspec.Struct, gc=False):
    code: int | str | None = None
    message: str | None = None


class Span(msgspec.Struct, gc=False):
    name: str | None = None
    traceId: str | None = None
    spanId: str | None = None
    parentSpanId: str | None = None
    traceState: str | None = None
    kind: int | str | None = None
    startTimeUnixNano: int | str | None = None
    endTimeUnixNano: int | str | None = None
    attributes: msgspec.Raw = msgspec.Raw(b"")
    events: msgspec.Raw = msgspec.Raw(b"")
    status: Status | None = None


class Log(msgspec.Struct, gc=False):
    timeUnixNano: int | str | None = None
    observedTimeUnixNano: int | str | None = None
    severityNumber: int | str | None = None
    eventName: str | None = None
    traceId: str | None = None
    spanId: str | None = None
    body: dict[str, Any] | None = None
    attributes: list[KeyValue] | None = None


class Metric(msgspec.Struct, gc=False):
    name: str | None = None
    gauge: dict[str, Any] | None = None
    sum: dict[str, Any] | None = None
    histogram: dict[str, Any] | None = None
    exponentialHistogram: dict[str, Any] | None = None
    summary: dict[str, Any] | None = None


class ScopeSpans(msgspec.Struct, gc=False):
    scope: ScopeInfo | None = None
    spans: list[Span] | None = None


class ScopeLogs(msgspec.Struct, gc=False):
    scope: ScopeInfo | None = None
    logRecords: list[Log] | None = None


class ScopeMetrics(msgspec.Struct, gc=False):
    scope: ScopeInfo | None = None
    metrics: list[Metric] | None = None


class ResourceSpans(msgspec.Struct, gc=False):
    resource: Resource | None = None
    scopeSpans: list[ScopeSpans] | None = None


class ResourceLogs(msgspec.Struct, gc=False):
    resource: Resource | None = None
    scopeLogs: list[ScopeLogs] | None = None


class ResourceMetrics(msgspec.Struct, gc=False):
    resource: Resource | None = None
    scopeMetrics: list[ScopeMetrics] | None = None


class Traces(msgspec.Struct, gc=False):
    resourceSpans: list[ResourceSpans] | None = None


class Logs(msgspec.Struct, gc=False):
    resourceLogs: list[ResourceLogs] | None = None


class MetricsRequest(msgspec.Struct, gc=False):
    resourceMetrics: list[ResourceMetrics] | None = None


DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    "traces": msgspec.json.Decoder(Traces),
    "logs": msgspec.json.Decoder(Logs),
    "metrics": msgspec.json.Decoder(MetricsRequest),
}
PAIRS = msgspec.json.Decoder(list[KeyValue] | None)
EVENTS = msgspec.json.Decoder(list[Event] | None)
