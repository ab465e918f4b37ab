"""OTLP request bytes, JSON or protobuf, as a `Request` of records. Knows nothing of Misstep's own columns.

Source: opentelemetry-proto docs/specification.md.
"""

from __future__ import annotations

from collector.decode import otlp_json, otlp_protobuf
from collector.decode.record import Request

JSON = "application/json"
PROTOBUF = "application/x-protobuf"

# The only top-level key of a JSON body says its signal: older Gemini CLIs post everything to `/`, and so do recordings.
TOP_KEYS = {"resourceLogs": "logs", "resourceSpans": "traces", "resourceMetrics": "metrics"}


def media_type(content_type: str) -> str:
    """The type in a `Content-Type`, in lower case and without parameters."""
    return content_type.partition(";")[0].strip().lower()


def decode(body: bytes, media_type: str, signal: str) -> Request:
    """Decodes one request body; `signal` is logs, traces or metrics.

    Raises Rejected for what can never be decoded. Bad characters are mended, and mentioned in `warning`.
    """
    if media_type == PROTOBUF:
        return otlp_protobuf.decode(body, signal)
    return otlp_json.decode(body, signal)
