"""Misstep's own telemetry: Prometheus counters and structlog. No metric has a label that a sender can choose freely."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, MutableMapping
from typing import Any

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

REGISTRY = CollectorRegistry()

SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)

RECEIVED = Counter("misstep_received_records", "Records in requests that were read.", ["signal"], registry=REGISTRY)
REQUESTS = Counter("misstep_requests", "Requests by path and answer.", ["path", "status"], registry=REGISTRY)
ACCOUNTED = Counter(
    "misstep_records",
    "What became of every record: stored, duplicate, or the reason why it is no event.",
    ["fate"],
    registry=REGISTRY,
)
EVENTS = Counter("misstep_events", "Events written, by outcome.", ["outcome"], registry=REGISTRY)
REDACTED = Counter("misstep_redactions", "Secrets removed, by rule.", ["rule"], registry=REGISTRY)
FAILED = Counter("misstep_failures", "Failures of the collector itself, by part.", ["part"], registry=REGISTRY)
QUEUE_REQUESTS = Gauge("misstep_queue_requests", "Requests that wait for the writer.", registry=REGISTRY)
QUEUE_BYTES = Gauge("misstep_queue_bytes", "Bytes of requests between receipt and commit.", registry=REGISTRY)
RECEIVING_BYTES = Gauge("misstep_receiving_bytes", "Bytes of HTTP bodies on their way.", registry=REGISTRY)
COMMIT_SECONDS = Histogram("misstep_commit_seconds", "One transaction.", buckets=SECONDS, registry=REGISTRY)
COMMIT_REQUESTS = Histogram(
    "misstep_commit_requests", "Requests in one transaction.", buckets=(1, 2, 5, 10, 25, 50, 100), registry=REGISTRY
)
FORWARDED = Counter(
    "misstep_forwarded_requests", "What became of the copies for MISSTEP_FORWARD.", ["fate"], registry=REGISTRY
)
FORWARD_BYTES = Gauge("misstep_forward_queue_bytes", "Bytes of copies that wait to be delivered.", registry=REGISTRY)
LAG_SECONDS = Gauge("misstep_lag_seconds", "Receive time minus event time of the newest event.", registry=REGISTRY)

Scrub = Callable[[str], tuple[str, tuple[str, ...]]]


def configure_logging(scrub: Scrub, *, json_lines: bool | None = None) -> None:
    """Logs to standard error: readable on a terminal, JSON lines elsewhere. Every text passes `scrub`."""
    lines = not sys.stderr.isatty() if json_lines is None else json_lines

    def sanitise(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        return {key: scrub(value)[0] if isinstance(value, str) else value for key, value in event.items()}

    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            sanitise,
            structlog.processors.JSONRenderer() if lines else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
