"""For programs without OpenTelemetry of their own: one call, and spans go to a collector."""

from __future__ import annotations

import os

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

ENDPOINT = "http://127.0.0.1:4318"


def configure(
    service: str, *, version: str | None = None, endpoint: str | None = None, token: str | None = None
) -> TracerProvider:
    """Sends what is recorded as `service` to the collector at `endpoint`; also works, without sending, while none runs.

    `endpoint` is else `OTEL_EXPORTER_OTLP_ENDPOINT`, else Misstep's on this machine; `token` is an ingest token. If the
    program has a provider of the OpenTelemetry SDK already, that one gets a second exporter and keeps its resource.
    """
    base = endpoint or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or ENDPOINT
    headers = {"authorization": f"Bearer {token}"} if token else None
    exporter = OTLPSpanExporter(endpoint=f"{base.rstrip('/')}/v1/traces", headers=headers)
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        attributes = {"service.name": service, **({"service.version": version} if version else {})}
        provider = TracerProvider(resource=Resource.create(attributes))
        trace.set_tracer_provider(provider)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider
