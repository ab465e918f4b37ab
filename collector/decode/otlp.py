"""OTLP request bytes, JSON or protobuf, as a `Request` of records. Knows nothing of Misstep's own columns.

Source: opentelemetry-proto docs/specification.md.
"""

from __future__ import annotations

from collector.decode import otlp_json, otlp_protobuf
from collector.decode.record import Record, Request, Scope, SpanEvent

__all__ = ["JSON", "PROTOBUF", "TOP_KEYS", "Record", "Request", "Scope", "SpanEvent", "decode"]

JSON = "application/json"
PROTOBUF = "application/x-protobuf"

# What a JSON body holds is told by its only top key: older Gemini CLIs post everything on `/`, and so do recordings.
TOP_KEYS = {"resourceLogs": "logs", "resourceSpans": "traces", "resourceMetrics": "metrics"}


def decode(body: bytes, media_type: str, signal: str) -> Request:
    """Decodes one request body; `signal` is logs, traces or metrics.

    Raises Rejected for what can never be decoded. One bad character costs nothing: it is mended and said in `warning`.
    """
    if media_type == PROTOBUF:
        return otlp_protobuf.decode(body, signal)
    return otlp_json.decode(body, signal)
