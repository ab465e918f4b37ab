"""`misstep demo`: a week of traffic from a few agents, sent with the OpenTelemetry SDK as by an instrumented agent.
On its last day, a release makes things worse.

Spans follow the GenAI conventions (`invoke_agent`, `chat`, `execute_tool`); Roo Code's entries are log records. All
random choices come from one seed and all times from one `now`, so that the same two give the same traffic.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx
from misstep_sdk import AgentError, Recorder, errors, session
from opentelemetry._logs import SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, LogRecordExportResult
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, use_span

from collector.commands.client import bearer
from collector.commands.demo_agents import AGENTS, Agent, Failure, Tool, github_token
from collector.commands.progress import progress
from collector.plural import plural
from collector.settings import without_user
from collector.times import DAY, SECOND

MOST_ATTEMPTS = 6
EARLIER_DAYS = 6
EARLIER = 0.55  # of the sessions, the share of the days before the last one


class _Ids(IdGenerator):
    def __init__(self, random: Random) -> None:
        self._random = random

    def generate_span_id(self) -> int:
        return self._random.getrandbits(64) or 1

    def generate_trace_id(self) -> int:
        return self._random.getrandbits(128) or 1


class _Spans(OTLPSpanExporter):
    """Counts failed requests, which the SDK only logs."""

    failed = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = super().export(spans)
        self.failed += result is not SpanExportResult.SUCCESS
        return result


class _Logs(OTLPLogExporter):
    failed = 0

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        result = super().export(batch)
        self.failed += result is not LogRecordExportResult.SUCCESS
        return result


@dataclass(slots=True)
class Exporters:
    """One SDK pipeline per service and version for traces, and one per service for logs, as in an agent's process."""

    url: str
    headers: dict[str, str]
    random: Random
    _exporters: list[_Spans | _Logs] = field(default_factory=list)
    _tracers: dict[tuple[str, str], TracerProvider] = field(default_factory=dict)
    _loggers: dict[str, LoggerProvider] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if trusted := os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR"):  # as httpx reads them
            os.environ["REQUESTS_CA_BUNDLE"] = trusted  # what the SDK's client reads

    def tracers(self, service: str, version: str) -> TracerProvider:
        """The pipeline of this service and version for traces."""
        key = (service, version)
        if key not in self._tracers:
            provider = TracerProvider(
                resource=_resource(service, version), id_generator=_Ids(self.random), shutdown_on_exit=False
            )
            exporter = _Spans(endpoint=f"{self.url}/v1/traces", headers=self.headers)
            self._exporters.append(exporter)
            provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=8192))
            self._tracers[key] = provider
        return self._tracers[key]

    def loggers(self, service: str, version: str) -> LoggerProvider:
        """The log pipeline of this service."""
        if service not in self._loggers:
            provider = LoggerProvider(resource=_resource(service, version), shutdown_on_exit=False)
            exporter = _Logs(endpoint=f"{self.url}/v1/logs", headers=self.headers)
            self._exporters.append(exporter)
            provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
            self._loggers[service] = provider
        return self._loggers[service]

    def flush(self) -> None:
        """Returns when everything so far has been accepted. Raises OSError if something was not."""
        for provider in self._providers():
            provider.force_flush()
        if any(exporter.failed for exporter in self._exporters):
            raise OSError(f"{self.url} did not accept everything; the lines above say why")

    def close(self) -> None:
        """Sends the rest and ends the SDK's threads."""
        for provider in self._providers():
            provider.shutdown()

    def _providers(self) -> list[TracerProvider | LoggerProvider]:
        return [*self._tracers.values(), *self._loggers.values()]


@dataclass(slots=True)
class Totals:
    """What was sent."""

    sessions: int = 0
    calls: int = 0
    errors: int = 0


def demo(url: str, sessions: int, seed: int | None, *, token: str = "", now_ns: int | None = None) -> str:
    """Sends `sessions` sessions of the last seven days to the collector at `url`; returns a sentence about them.

    Raises OSError if no collector answers there, or if it does not accept everything.
    """
    try:
        httpx.get(f"{url}/healthz", timeout=10).raise_for_status()
    except httpx.HTTPError as error:
        raise ConnectionError(
            f"no collector answers at {without_user(url)} ({error}); start one with misstep up"
        ) from None
    now_ns = now_ns or time.time_ns()
    seed = now_ns // SECOND % 1_000_000 if seed is None else seed
    random = Random(seed)
    exporters = Exporters(url, bearer(token), random)
    counted = Totals()
    with progress("demo", sessions) as advance:
        for _ in range(sessions):
            moment, start_ns = _began(random, now_ns)
            agent = random.choices(AGENTS, [each.share for each in AGENTS])[0].at(moment)
            _Session(agent, exporters.tracers(agent.service, agent.version), random, start_ns, counted).play()
            counted.sessions += 1
            exporters.flush()
            advance()
        roo_code(exporters, random, now_ns, counted)
    exporters.close()
    sent = f"{plural(counted.sessions, 'session')}, {plural(counted.calls, 'tool call')}"
    return f"{sent}, {counted.errors:,} of them failed; the same again with --seed {seed}"


def _began(random: Random, now_ns: int) -> tuple[float, int]:
    """When a session began, as a share of the last day, below 0 for earlier ones, and in nanoseconds."""
    if random.random() < EARLIER:
        return -1.0, now_ns - DAY - int(random.random() ** 3 * EARLIER_DAYS * DAY)  # most of them the day before
    moment = random.random() ** 0.7  # busier towards now
    return moment, now_ns - DAY + int(moment * (DAY - 1800 * SECOND))


class _Session:
    """One conversation: a root span, and under it turns of one model request and a few tool calls.

    Secrets are left to the collector, to show that it finds them.
    """

    def __init__(self, agent: Agent, provider: TracerProvider, random: Random, start_ns: int, counted: Totals) -> None:
        self.agent = agent
        self.random = random
        self.clock_ns = start_ns
        self.counted = counted
        self.id = f"conv-{random.getrandbits(48):012x}"
        self.tracer = provider.get_tracer("shop.agents", "1.0")
        self.recorder = Recorder(provider, clock=lambda: self.clock_ns, mask=lambda value: value)

    def play(self) -> None:
        with session(self.id, agent=self.agent.name, provider=self.agent.provider):
            root = self._start(f"invoke_agent {self.agent.name}", SpanKind.INTERNAL, "invoke_agent")
            with use_span(root):
                self._turns(root)
            root.end(self.clock_ns)

    def _turns(self, root: Span) -> None:
        for _ in range(self.random.randint(3, 9)):
            if not self._ask_model():
                root.set_status(Status(StatusCode.ERROR, "the model did not answer"))
                break
            for _ in range(self.random.randint(0, 3)):
                self._use(self.random.choice(self.agent.tools))
            self._wait(1, 40)

    def _ask_model(self) -> bool:
        """One model request with its retries; False if it never succeeds."""
        failing = self.random.random() < self.agent.model_rate
        failure = _choose(self.random, self.agent.model_failures)
        for attempt in range(1, MOST_ATTEMPTS):
            with (
                suppress(AgentError),
                self.recorder.model_request(self.agent.model, provider=self.agent.provider) as request,
            ):
                self._wait(1, 8)
                if failing:
                    raise self._error(failure, {}, status_code=429 if failure.type is errors.RateLimitError else 502)
                request.used(
                    input_tokens=self.random.randint(2_000, 60_000), output_tokens=self.random.randint(50, 1_500)
                )
            if not failing:
                return True
            self._wait(2**attempt, 2**attempt + 2)
            failing = self.random.random() < failure.lasts
        return False

    def _use(self, tool: Tool) -> None:
        """One call, repeated until it succeeds or the model gives up."""
        arguments = tool.arguments(self.random)
        failing = self.random.random() < tool.rate
        failure = _choose(self.random, tool.failures)
        for _ in range(MOST_ATTEMPTS):
            self._call(tool, arguments, failure if failing else None)
            if not failing or (failure.denied and self.random.random() < 0.5):
                return
            failing = self.random.random() < failure.lasts
            if self.random.random() >= failure.same:
                arguments = tool.arguments(self.random)
            self._wait(1, 12)
            if failing and self.random.random() < 0.1:
                return

    def _call(self, tool: Tool, arguments: dict[str, Any], failure: Failure | None) -> None:
        call_id = f"call_{self.random.getrandbits(64):016x}"
        took_ns = int(tool.milliseconds * self.random.lognormvariate(0, 0.5) * 1e6)
        with suppress(AgentError), self.recorder.tool_call(tool.name, arguments, call_id=call_id):
            error = self._error(failure, arguments) if failure else None
            if tool.mcp_server:
                self._mcp(tool, took_ns, error)
            else:
                self.clock_ns += took_ns
            if error:
                raise error
        self.counted.calls += 1
        self.counted.errors += bool(failure and not failure.denied)

    def _mcp(self, tool: Tool, took_ns: int, error: AgentError | None) -> None:
        """The MCP client's own span of the same call."""
        span = self._start(f"tools/call {tool.name}", SpanKind.CLIENT, "execute_tool")
        span.set_attribute("mcp.method.name", "tools/call")
        span.set_attribute("gen_ai.tool.name", tool.name)
        span.set_attribute("server.address", tool.mcp_server)
        self.clock_ns += took_ns
        if error:
            span.set_attribute("error.type", error.error_class)
            span.set_status(Status(StatusCode.ERROR, error.message))
        span.end(self.clock_ns)

    def _start(self, name: str, kind: SpanKind, operation: str) -> Span:
        attributes = {
            "gen_ai.operation.name": operation,
            "gen_ai.conversation.id": self.id,
            "gen_ai.agent.name": self.agent.name,
        }
        return self.tracer.start_span(name, None, kind, attributes, start_time=self.clock_ns)

    def _error(self, failure: Failure, arguments: dict[str, Any], **details: Any) -> AgentError:
        message = failure.message.format_map({"secret": github_token(self.random), **arguments})
        return failure.type.saying(message, **details)

    def _wait(self, shortest_s: float, longest_s: float) -> None:
        self.clock_ns += int(self.random.uniform(shortest_s, longest_s) * SECOND)


def roo_code(exporters: Exporters, random: Random, now_ns: int, counted: Totals) -> None:
    """One task of Roo Code, which logs failures only: three missing parameters in a row, then a missing file."""
    logger = exporters.loggers("roo-code", "3.29.0").get_logger("roo-code")
    task = f"task-{random.getrandbits(32):08x}"
    entries = [
        ("warn", "tool_validation", "apply_diff", "MissingParameterError", "Missing required parameter: diff"),
        ("warn", "tool_validation", "apply_diff", "MissingParameterError", "Missing required parameter: diff"),
        ("warn", "tool_validation", "apply_diff", "MissingParameterError", "Missing required parameter: path"),
        ("error", "file_operation", "read_file", "FileNotFoundToolError", "File not found: src/cart.ts"),
    ]
    for number, (level, category, tool, kind, message) in enumerate(entries):
        time_ns = now_ns - (len(entries) - number) * 45 * SECOND
        entry: dict[str, Any] = {
            "level": level, "category": category, "tool": tool, "error_type": kind, "message": message, "task_id": task,
            "params": json.dumps({"path": "/home/ann/shop/src/cart.ts", "api_key": github_token(random)}),
            "timestamp": time_ns // 1_000_000,
        }  # fmt: skip
        severity = SeverityNumber.WARN if level == "warn" else SeverityNumber.ERROR
        logger.emit(timestamp=time_ns, severity_number=severity, body=message, attributes=entry)
        counted.calls += 1
        counted.errors += 1
    exporters.flush()


def _choose(random: Random, failures: Sequence[Failure]) -> Failure:
    return random.choices(failures, [failure.weight for failure in failures])[0]


def _resource(service: str, version: str) -> Resource:
    return Resource(
        {
            "service.name": service,
            "service.version": version,
            "deployment.environment.name": "demo",
            "host.name": "demo",
        }
    )
