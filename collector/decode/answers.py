"""The messages with which OTLP requests are answered, and where they count records that were not taken."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from google.protobuf.json_format import Parse, ParseError
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from collector.decode.otlp import JSON

RESPONSES: dict[str, type[Message]] = {
    "logs": ExportLogsServiceResponse,
    "traces": ExportTraceServiceResponse,
    "metrics": ExportMetricsServiceResponse,
}

# The field of `partial_success`; in JSON it is written in lowerCamelCase.
REJECTED = {"logs": "rejected_log_records", "traces": "rejected_spans", "metrics": "rejected_data_points"}


def rejected(answer: bytes, media_type: str, signal: str) -> int:
    """How many records an answer to a request says were not taken; 0 if it cannot be read."""
    message: Any = RESPONSES[signal]()
    with suppress(DecodeError, ParseError, UnicodeDecodeError):
        if media_type == JSON:
            Parse(answer, message, ignore_unknown_fields=True)
        else:
            message.ParseFromString(answer)
        return int(getattr(message.partial_success, REJECTED[signal]))
    return 0
