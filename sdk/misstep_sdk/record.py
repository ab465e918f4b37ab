"""Records tool calls and model requests as OpenTelemetry spans of the GenAI conventions. What is recorded never fails
because of it.

What the conventions have no name for is told as `misstep.*`: schemas/sources/misstep-sdk.toml reads it.
"""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable, Mapping
from importlib.metadata import version
from types import TracebackType
from typing import TYPE_CHECKING, Any

from opentelemetry import context, trace
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, TracerProvider

from misstep_sdk import errors
from misstep_sdk.convert import as_agent_error, was_cancelled
from misstep_sdk.errors import AgentError
from misstep_sdk.masking import LONGEST, masked
from misstep_sdk.mistakes import Outcome
from misstep_sdk.sessions import Session, attempt, current

if TYPE_CHECKING:
    from typing_extensions import Self

SCOPE = "misstep_sdk"
FRAMES = 16  # of a stack
UNTOLD = "_OTHER"  # a provider of which nobody told the name: the conventions require one

log = logging.getLogger("misstep_sdk")


class Recorder:
    """Makes spans with a provider, else with the program's global one.

    `clock` gives nanoseconds where time is a parameter. `mask` takes secrets out of arguments and texts and returns
    what JSON can hold.
    """

    def __init__(
        self,
        provider: TracerProvider | None = None,
        *,
        clock: Callable[[], int] | None = None,
        mask: Callable[[Any], Any] = masked,
    ) -> None:
        self.tracer: Tracer = trace.get_tracer(SCOPE, version("misstep-sdk"), provider)
        self.clock = clock
        self.mask = mask

    def tool_call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        call_id: str | None = None,
        target: str | None = None,
        mcp_server: str | None = None,
    ) -> ToolCall:
        """A context manager around one call, sync or async; `target` is what it acts on: a path, a command."""
        return ToolCall(self, name, arguments or {}, call_id, target, mcp_server)

    def model_request(
        self, model: str, *, provider: str | None = None, operation: str = "chat", stream: bool = False
    ) -> ModelRequest:
        """A context manager around one request to a model, sync or async; `provider` is else the session's."""
        return ModelRequest(self, model, provider, operation, stream=stream)


class Recorded:
    """One span from beginning to end. Use it with `with`, `async with`, or `begin` and `end`."""

    kind = SpanKind.INTERNAL
    of_model = False

    def __init__(self, recorder: Recorder, name: str) -> None:
        self._recorder = recorder
        self._name = name
        self._session: Session | None = None
        self._span: Span = trace.INVALID_SPAN
        self._token: Any = None
        self._failure: AgentError | None = None

    def begin(self, *, inside: bool = True) -> None:
        """The span starts; with `inside` it is the parent of spans that start before its end."""
        try:
            self._session = current()
            clock = self._recorder.clock
            self._span = self._recorder.tracer.start_span(
                self._name, kind=self.kind, attributes=self._attributes(), start_time=clock() if clock else None
            )
            if inside:
                self._token = context.attach(trace.set_span_in_context(self._span))
        except Exception:
            log.debug("a span could not begin", exc_info=True)

    def end(self, exception: BaseException | None = None) -> None:
        """The span ends, with what the exception or the result says."""
        try:
            if self._token is not None:
                context.detach(self._token)
            error = as_agent_error(exception, model=self.of_model) if exception is not None else self._failure
            outcome = _outcome(exception, error)
            self._tell(outcome, error, exception)
            clock = self._recorder.clock
            self._span.end(clock() if clock else None)
        except Exception:
            log.debug("a span could not end", exc_info=True)

    def drop(self) -> None:
        """Nothing is recorded: the call only waits, as for a person's approval."""
        if self._token is not None:
            context.detach(self._token)

    def failed(self, error: AgentError) -> None:
        """The call failed without an exception, as its result says."""
        self._failure = error

    def _attributes(self) -> dict[str, Any]:
        session = self._session
        if session is None:
            return {}
        told = {
            "gen_ai.conversation.id": session.id,
            "gen_ai.agent.name": session.agent,
            "gen_ai.request.model": session.model,
            "gen_ai.provider.name": session.provider,
            "misstep.subagent": session.subagent,
            "misstep.sequence": next(session.numbers),
        }
        return {name: value for name, value in told.items() if value is not None}

    def _tell(self, outcome: Outcome, error: AgentError | None, exception: BaseException | None) -> None:
        if outcome != "ok":
            self._span.set_attribute("misstep.outcome", outcome)
        if error is not None:
            self._tell_error(outcome, error, exception)

    def _tell_error(self, outcome: Outcome, error: AgentError, exception: BaseException | None) -> None:
        mask = self._recorder.mask
        message = str(mask(error.message))
        told: dict[str, Any] = {"error.type": error.error_class, "misstep.retryable": error.retryable}
        if error.suggestion:
            told["misstep.suggestion"] = error.suggestion
        if error.retry_after is not None:
            told["misstep.retry_after_ms"] = int(error.retry_after * 1000)
        if error.status_code is not None:
            told["http.response.status_code"] = error.status_code
        self._span.set_attributes(told)
        if outcome == "error":
            self._span.set_attribute("misstep.mistake", error.facts.mistake)  # as the tracker counts it
            self._span.set_status(StatusCode.ERROR, message)
        event: dict[str, Any] = {"exception.type": type(exception or error).__name__, "exception.message": message}
        if exception is not None and exception.__traceback__:
            frames = traceback.format_exception(type(exception), exception, exception.__traceback__, limit=-FRAMES)
            event["exception.stacktrace"] = str(mask("".join(frames)))
        clock = self._recorder.clock
        self._span.add_event("exception", event, clock() if clock else None)

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, frames: TracebackType | None
    ) -> None:
        self.end(exception)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, frames: TracebackType | None
    ) -> None:
        self.end(exception)


class ToolCall(Recorded):
    """One call of a tool; what it raises goes on as it is."""

    def __init__(
        self,
        recorder: Recorder,
        tool: str,
        arguments: Mapping[str, Any],
        call_id: str | None,
        target: str | None,
        mcp_server: str | None,
    ) -> None:
        super().__init__(recorder, f"execute_tool {tool}")
        self.tool = tool
        self.arguments = arguments
        self.call_id = call_id
        self.target = target
        self.mcp_server = mcp_server

    def returned(self, result: Any) -> Any:
        """Looks whether the result says that the call failed (`ok: false`, `isError`), and returns it."""
        try:
            if said := failure_said(result):
                self.failed(errors.ToolExecutionError(said, tool=self.tool, target=self.target))
        except Exception:
            log.debug("a result could not be looked at", exc_info=True)
        return result

    def _attributes(self) -> dict[str, Any]:
        told = super()._attributes()
        told["gen_ai.operation.name"] = "execute_tool"
        told["gen_ai.tool.name"] = self.tool
        told["gen_ai.tool.type"] = "extension" if self.mcp_server else "function"
        told["gen_ai.tool.call.arguments"] = json.dumps(self._recorder.mask(self.arguments))[:LONGEST]
        if self.call_id:
            told["gen_ai.tool.call.id"] = self.call_id
        if self.target:
            told["misstep.target"] = self._recorder.mask(self.target)
        if self.mcp_server:
            told["misstep.mcp_server"] = self.mcp_server
        if number := attempt():
            told["misstep.attempt"] = number
        return told

    def _tell(self, outcome: Outcome, error: AgentError | None, exception: BaseException | None) -> None:
        super()._tell(outcome, error, exception)
        session = self._session
        if session is None or session.tracker is None:
            return
        mistake = error is not None and error.facts.mistake
        try:
            session.tracker.record(
                session.id, outcome, tool=self.tool, mistake=mistake, target=self.target, subagent=session.subagent
            )
        except Exception:  # of `on_limit`
            log.exception("mistakes of session %s could not be counted or told", session.id)
        self._span.set_attribute("misstep.streak", session.tracker.count(session.id, session.subagent))


class ModelRequest(Recorded):
    """One request to a model."""

    kind = SpanKind.CLIENT
    of_model = True

    def __init__(
        self, recorder: Recorder, model: str, provider: str | None, operation: str, *, stream: bool = False
    ) -> None:
        super().__init__(recorder, f"{operation} {model}")
        self.model = model
        self.provider = provider
        self.operation = operation
        self.stream = stream

    def used(
        self, *, input_tokens: int | None = None, output_tokens: int | None = None, cost_usd: float | None = None
    ) -> None:
        """What the request cost, where the provider tells."""
        told = {
            "gen_ai.usage.input_tokens": input_tokens,
            "gen_ai.usage.output_tokens": output_tokens,
            "misstep.cost_usd": cost_usd,
        }
        self._span.set_attributes({name: value for name, value in told.items() if value is not None})

    def finished(self, reason: str) -> None:
        """Why the answer ended, in the provider's word."""
        self._span.set_attribute("gen_ai.response.finish_reasons", (reason,))

    def _attributes(self) -> dict[str, Any]:
        told = super()._attributes()
        told["gen_ai.operation.name"] = self.operation
        told["gen_ai.request.model"] = self.model
        if self.provider:
            told["gen_ai.provider.name"] = self.provider
        told.setdefault("gen_ai.provider.name", UNTOLD)
        if self.stream:
            told["gen_ai.request.stream"] = True
        return told


def failure_said(result: Any) -> str | None:
    """What a result says of a failure: `{"ok": false, "error": …}`, MCP's `isError`, `{"status": "error"}`; None if it
    says none.
    """
    said: Callable[[str], Any] = result.get if isinstance(result, Mapping) else lambda name: getattr(result, name, None)
    failed = said("ok") is False or said("isError") is True or said("is_error") is True or said("status") == "error"
    if not failed:
        return None
    text = said("error") or said("message") or said("content") or "the tool says that it failed"
    return text if isinstance(text, str) else str(masked(text))[:LONGEST]


def _outcome(exception: BaseException | None, error: AgentError | None) -> Outcome:
    said = exception if exception is not None else error
    if said is not None and was_cancelled(said):
        return "cancelled"
    if isinstance(said, errors.ToolPermissionError):  # by whoever raised it; what a server refuses is an error
        return "denied"
    return "error" if error is not None else "ok"
