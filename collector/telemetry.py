"""Misstep's own telemetry: Prometheus metrics and structlog. Every label has a bounded number of values."""

from __future__ import annotations

import logging
import os
import sys
from collections import Counter as Counted
from collections import deque
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, TextIO, cast

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from collector.visible import visible

disable_created_metrics()  # a series more for each counter, which Prometheus takes for gauges
REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)

SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
LOG_S = 0.1  # longest time that anything waits for a line of the log to be written
CALL_LABELS = ("project", "service", "operation", "tool", "outcome", "rated", "category", "error_class")

RECEIVED = Counter("misstep_received_records", "Records in requests that were read.", ["signal"], registry=REGISTRY)
REQUESTS = Counter("misstep_requests", "Requests by path and answer.", ["path", "status"], registry=REGISTRY)
ACCOUNTED = Counter(
    "misstep_records",
    "Records by fate: stored, duplicate, or the reason why they became no event.",
    ["fate"],
    registry=REGISTRY,
)
EVENTS = Counter(
    "misstep_events",
    "Events by source, each counted once, when it is first stored.",
    ["source"],
    registry=REGISTRY,
)
LOST_LINES = Counter("misstep_lost_log_lines", "Lines of the log that standard error did not take.", registry=REGISTRY)
REFUSED = Counter("misstep_refused_requests", "Requests that were refused, by reason.", ["reason"], registry=REGISTRY)
UNREAD = Counter(
    "misstep_unread_answers", "Large answers that were not sent whole, by reason.", ["why"], registry=REGISTRY
)
REDACTED = Counter("misstep_redactions", "Secrets removed, by rule.", ["rule"], registry=REGISTRY)
FAILED = Counter("misstep_failures", "Failures of the collector itself, by part.", ["part"], registry=REGISTRY)
FIRING = Gauge("misstep_alerts_firing", "Firing alerts by rule.", ["rule", "severity"], registry=REGISTRY)
PENDING = Gauge("misstep_alerts_pending", "Pending alerts by rule.", ["rule"], registry=REGISTRY)
EVALUATING = Gauge(
    "misstep_alerts_evaluating",
    "1 where this collector evaluates the alert rules, of those of a cluster one.",
    registry=REGISTRY,
)
EVALUATION_SECONDS = Gauge(
    "misstep_alerts_evaluation_seconds", "Duration of the last evaluation of all rules.", registry=REGISTRY
)
QUEUE_REQUESTS = Gauge("misstep_queue_requests", "Requests in the journal that are not stored yet.", registry=REGISTRY)
QUEUE_BYTES = Gauge(
    "misstep_queue_bytes", "Bytes of bodies not answered yet; with MISSTEP_FORWARD, not stored yet.", registry=REGISTRY
)
RECEIVING_BYTES = Gauge("misstep_receiving_bytes", "Bytes of HTTP bodies that are being received.", registry=REGISTRY)
QUEUE_RECORDS = Gauge("misstep_queue_records", "Records in the journal that are not stored yet.", registry=REGISTRY)
ASIDE_RECORDS = Gauge(
    "misstep_aside_records",
    "Records that could not be stored and are kept in a file beside the store.",
    registry=REGISTRY,
)
CHECKPOINT_SECONDS = Histogram(
    "misstep_checkpoint_seconds", "Duration of commits that included a checkpoint.", buckets=SECONDS, registry=REGISTRY
)
STORE_BYTES = Gauge("misstep_store_bytes", "Bytes on disk by part, and free space.", ["part"], registry=REGISTRY)
ANSWER_SECONDS = Histogram(
    "misstep_answer_seconds",
    "Time from the last byte of an accepted request to its answer.",
    buckets=SECONDS,
    registry=REGISTRY,
)
COMMIT_SECONDS = Histogram("misstep_commit_seconds", "Duration of one transaction.", buckets=SECONDS, registry=REGISTRY)
COMMIT_REQUESTS = Histogram(
    "misstep_commit_requests", "Requests in one transaction.", buckets=(1, 2, 5, 10, 25, 50, 100), registry=REGISTRY
)
FORWARDED = Counter("misstep_forwarded_requests", "Copies for MISSTEP_FORWARD, by fate.", ["fate"], registry=REGISTRY)
FORWARD_BYTES = Gauge(
    "misstep_forward_queue_bytes", "Bytes of copies that are waiting to be delivered.", registry=REGISTRY
)
TOKEN_USE = Counter(
    "misstep_token_use",
    "What each named token used: requests, bytes, events; and requests that were refused for a limit.",
    ["token", "kind"],
    registry=REGISTRY,
)
LANGFUSE = Counter("misstep_langfuse_scores", "Verdicts sent to Langfuse, by fate.", ["fate"], registry=REGISTRY)
LAG_SECONDS = Gauge(
    "misstep_lag_seconds", "Receive time minus event time of the event last received.", registry=REGISTRY
)
KEEPER_SESSIONS = Gauge(
    "misstep_keeper_sessions", "Sessions that changed since their streaks were last computed.", registry=REGISTRY
)
KEEPER_SECONDS = Gauge(
    "misstep_keeper_seconds",
    "Age of the oldest commit whose sessions are not computed yet; 0 where there is none.",
    registry=REGISTRY,
)

_HARMLESS = (int, float, bool, type(None))
RECENT: deque[dict[str, Any]] = deque(maxlen=20)  # the last warnings and errors, sanitised like every log line


def count_events(events: Sequence[Mapping[str, Any]]) -> None:
    """Counts newly stored events by source."""
    for source, number in Counted(event["source"] for event in events).items():
        EVENTS.labels(source or "unknown").inc(number)


class Calls:
    """Calls by labels, as `show` was last given them: counted by the store, which goes on after a restart."""

    def __init__(self) -> None:
        self._shown: Callable[[], tuple[Mapping[tuple[str, ...], int], int]] = lambda: ({}, 0)

    def show(self, shown: Callable[[], tuple[Mapping[tuple[str, ...], int], int]]) -> None:
        """`shown` returns the calls by the values of CALL_LABELS, and how many of them are too many."""
        self._shown = shown

    def collect(self) -> Iterator[Metric]:
        """The metrics, for the registry."""
        calls, owed = self._shown()
        counter = CounterMetricFamily(
            "misstep_calls",
            "Calls and other events, each counted once it has settled (MISSTEP_METRICS_SETTLE).",
            labels=CALL_LABELS,
        )
        for labels, number in calls.items():
            counter.add_metric(labels, number)
        yield counter
        yield GaugeMetricFamily(
            "misstep_overcounted_calls",
            "How many too many misstep_calls_total has, by corrections of calls that had settled.",
            owed,
        )


CALLS = Calls()
REGISTRY.register(CALLS)

Scrub = Callable[[str], tuple[str, tuple[str, ...]]]


class _Patient:
    """A log file that never raises, and lets nobody wait: on a full disk, or where nobody reads a full pipe, lines are
    lost and counted, and nothing else fails.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._begin()
        os.register_at_fork(after_in_child=self._begin)  # which has no thread of its parent

    def _begin(self) -> None:
        self._lines: SimpleQueue[bytes] = SimpleQueue()
        self._free = Event()
        self._free.set()
        self._thread: Thread | None = None

    def write(self, text: str) -> int:
        """Returns when the line is written, but does not wait for long; one at a time."""
        if not self._free.is_set():
            LOST_LINES.inc()
            return len(text)
        if self._thread is None:
            self._thread = Thread(target=self._write_all, name="log", daemon=True)
            self._thread.start()
        self._free.clear()
        self._lines.put(text.encode(errors="backslashreplace"))
        self._free.wait(LOG_S)
        return len(text)

    def flush(self) -> None:
        """Nothing is kept back."""

    def _write_all(self) -> None:
        while True:
            line = self._lines.get()
            try:
                while line:
                    line = line[os.write(self._number, line) :]
            except OSError:
                LOST_LINES.inc()
            self._free.set()


def configure_logging(scrub: Scrub, *, json_lines: bool | None) -> None:
    """Logs to standard error, by default readable on a terminal and JSON lines elsewhere. Every text passes `scrub`."""
    lines = not sys.stderr.isatty() if json_lines is None else json_lines

    def sanitise(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        shown = str if lines else visible
        clean = {key: value if isinstance(value, _HARMLESS) else scrub(str(value))[0] for key, value in event.items()}
        return {key: shown(value) if isinstance(value, str) else value for key, value in clean.items()}

    def remember(_: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if method in ("warning", "error", "critical", "exception"):
            RECENT.append({name: value for name, value in event.items() if isinstance(value, str | int | float)})
        return event

    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            sanitise,
            remember,
            structlog.processors.JSONRenderer() if lines else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, _Patient(sys.stderr.fileno()))),
        cache_logger_on_first_use=True,
    )
