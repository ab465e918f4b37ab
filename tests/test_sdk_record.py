"""Calls that the SDK records, as the collector understands them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import httpx
import misstep_sdk as misstep
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from misstep_sdk import Recorder, Tools, errors, streams
from misstep_sdk.streams import model_stream, model_stream_async
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.attributes import error_attributes, exception_attributes, http_attributes
from opentelemetry.trace import SpanKind, StatusCode

from collector.columns import Row
from tests.doors import NOW, pipeline, stored
from tests.search import searching

SECRET = "gh" + "p_" + "a1B2" * 9


class Recorded:
    """A recorder whose spans are read back as the collector's events."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider(resource=Resource({"service.name": "my-agent"}), shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self._ns = NOW - 10**12
        self.recorder = Recorder(provider, clock=self._clock)
        self.tool = Tools(self.recorder)

    def _clock(self) -> int:
        self._ns += 10**6
        return self._ns

    def events(self) -> list[Row]:
        body = encode_spans(self.exporter.get_finished_spans()).SerializeToString()
        return stored([pipeline().process(body, "application/x-protobuf", "traces", NOW)])

    def only(self) -> Row:
        (event,) = self.events()
        return event


def refused_by_a_server() -> httpx.HTTPStatusError:
    return httpx.HTTPStatusError("403", request=httpx.Request("GET", "http://h"), response=httpx.Response(403))


class Misread(errors.ToolError):
    """An author's own, whose parent is no mistake."""

    facts = errors.ToolError.facts._replace(mistake=True)


# What tools raise: by class, by library, and texts in which the collector sees more than the library does.
FAILURES: tuple[BaseException, ...] = (
    errors.NoChangeError("same"), errors.CommandFailedError(1, "no"), errors.McpToolError("no"), Misread("odd"),
    errors.ToolPermissionError("no"), errors.UserInterruptError("stop"), errors.TimeoutError("slow"),
    FileNotFoundError(2, "No such file or directory", "a"), ValueError("no such file or directory: 'a.py'"),
    RuntimeError("Permission denied"), RuntimeError("anything"), KeyError("path"),
    TypeError("f() missing 1 required positional argument: 'a'"), UnicodeError("invalid start byte"),
    OSError(36, "File name too long"), asyncio.CancelledError(),
    ConnectionResetError("reset"), json.JSONDecodeError("Expecting value", "", 0), refused_by_a_server(),
)  # fmt: skip


@searching(0.3)  # each example has some thirty calls
@example(calls=[("s1", each, "a") for each in (*FAILURES, None, *FAILURES)])
@given(
    calls=st.lists(
        st.tuples(st.sampled_from(["s1", "s2"]), st.sampled_from([None, *FAILURES]), st.sampled_from(["a", "b", None])),
        min_size=1, max_size=30,
    )
)  # fmt: skip
def test_the_collector_counts_what_the_tracker_counts(
    calls: list[tuple[str, BaseException | None, str | None]],
) -> None:
    """Random sessions through the library and the wire: mistakes in a row after each call, whatever was raised."""
    recorded, tracker = Recorded(), misstep.MistakeTracker()
    for name, exception, target in calls:
        with (
            suppress(BaseException),
            misstep.session(name, tracker=tracker),
            recorded.recorder.tool_call("edit", {}, target=target),
        ):
            if exception:
                raise exception
    running: dict[str, int] = {}
    for event in sorted(recorded.events(), key=lambda event: event["time_ns"]):
        name = event["session"]
        if event["outcome"] == "ok":
            running[name] = 0
        elif event["mistake"]:
            running[name] = running.get(name, 0) + 1
        assert event["reported_streak"] == running.get(name, 0), event
    for name in {name for name, _, _ in calls}:
        assert tracker.count(name) == running.get(name, 0)


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


def test_a_call_is_an_event_with_everything_that_is_known_of_it(recorded: Recorded) -> None:
    with (
        misstep.session("task-1", agent="coder", subagent="helper", model="gpt-5", provider="openai"),
        recorded.recorder.tool_call(
            "read_file", {"path": "a.py", "api_key": SECRET}, call_id="call_1", target="a.py", mcp_server="files"
        ) as call,
    ):
        call.returned("text")
    event = recorded.only()
    wanted = {
        "source": "misstep-sdk", "service": "my-agent", "outcome": "ok", "operation": "tool", "tool": "read_file",
        "session": "task-1", "agent": "coder", "subagent": "helper", "model": "gpt-5", "provider": "openai",
        "call_id": "call_1",
        "target": "a.py", "mcp_server": "files", "sequence": 0, "duration_ms": 1.0,
    }  # fmt: skip
    assert {name: event[name] for name in wanted} == wanted
    assert json.loads(event["params"])["path"] == "a.py"
    assert SECRET not in str(recorded.exporter.get_finished_spans()[0].attributes)


def test_an_exception_goes_on_and_is_told(recorded: Recorded) -> None:
    @recorded.tool(target="path")
    def read_file(path: str) -> str:
        return open(path).read()

    with pytest.raises(FileNotFoundError), misstep.session("task-1"):
        read_file("/nowhere/a.py")
    event = recorded.only()
    wanted = {
        "outcome": "error", "error_class": "FileNotFoundError", "classified_by": "reported", "target": "/nowhere/a.py",
        "mistake": True, "retryable_declared": True, "recovery": "fix_and_retry",
    }  # fmt: skip
    assert {name: event[name] for name in wanted} == wanted
    assert "No such file or directory" in event["message"]
    assert "read_file" in event["stack"]
    assert event["suggestion"].startswith("List or search the directory first")


@pytest.mark.parametrize(
    ("exception", "outcome", "kind"),
    [
        (errors.ToolPermissionError("the user said no"), "denied", "ToolPermissionError"),
        (errors.UserInterruptError("stop"), "cancelled", "UserInterruptError"),
        (asyncio.CancelledError(), "cancelled", None),
        (KeyboardInterrupt(), "cancelled", None),
        (errors.RateLimitError(6, status_code=429), "error", "RateLimitError"),
        (errors.DiffApplyFailedError("no match"), "error", "DiffApplyFailedError"),
        (RuntimeError("anything"), "error", "ToolExecutionError"),
        (refused_by_a_server(), "error", "ToolPermissionError"),
    ],
)
def test_an_exception_has_its_outcome(
    recorded: Recorded, exception: BaseException, outcome: str, kind: str | None
) -> None:
    with pytest.raises(type(exception)), recorded.recorder.tool_call("push", {}):
        raise exception
    event = recorded.only()
    assert event["outcome"] == outcome
    assert kind in (None, event["error_class"])
    if isinstance(exception, errors.RateLimitError):
        assert (event["retry_after_ms"], event["status_code"]) == (6000, 429)


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        ({"ok": False, "error": "File not found: a"}, "error"),
        ({"isError": True, "content": [{"type": "text", "text": "no"}]}, "error"),
        (SimpleNamespace(isError=True, content="no"), "error"),
        ({"status": "error", "message": "no"}, "error"),
        ({"ok": True}, "ok"),
        ({"status": "open"}, "ok"),
        ("Error: a text that only quotes", "ok"),
        (None, "ok"),
        ([], "ok"),
    ],
)
def test_a_result_may_say_that_the_call_failed(recorded: Recorded, result: Any, outcome: str) -> None:
    @recorded.tool
    def use() -> Any:
        return result

    assert use() is result
    assert recorded.only()["outcome"] == outcome


def test_every_kind_of_function_is_recorded(recorded: Recorded) -> None:
    @recorded.tool
    async def one(a: int) -> int:
        return a

    @recorded.tool
    def two(a: int) -> Iterator[int]:
        yield a
        raise errors.ToolTimeoutError("slow")

    @recorded.tool(name="three_renamed")
    async def three(a: int) -> AsyncIterator[int]:
        yield a

    @recorded.tool
    def four(a: int) -> Iterator[int]:
        yield from range(a)

    class Kit:
        @recorded.tool(target="a")
        def five(self, a: int) -> int:
            return a

    async def main() -> list[int]:
        return [await one(1)] + [each async for each in three(3)]

    assert asyncio.run(main()) == [1, 3]
    with pytest.raises(errors.ToolTimeoutError):
        list(two(2))
    stopped = four(9)
    next(stopped)
    stopped.close()  # type: ignore[attr-defined]
    assert Kit().five(a=5) == 5
    found = {event["tool"]: (event["outcome"], json.loads(event["params"])) for event in recorded.events()}
    assert found == {
        "one": ("ok", {"a": 1}), "two": ("error", {"a": 2}), "three_renamed": ("ok", {"a": 3}),
        "four": ("cancelled", {"a": 9}), "five": ("ok", {"a": 5}),
    }  # fmt: skip
    assert one.__name__ == "one"


def test_a_target_that_is_no_parameter_is_refused_at_once(recorded: Recorded) -> None:
    with pytest.raises(TypeError, match="read has no parameter 'file' to be its target; it has path"):

        @recorded.tool(target="file")
        def read(path: str) -> None: ...


def test_attempts_of_a_repeated_call_are_events_in_order(recorded: Recorded) -> None:
    tried = []

    @misstep.retry()
    @recorded.tool
    def fetch(url: str) -> str:
        tried.append(url)
        if len(tried) < 3:
            raise errors.ServerError("502", retry_after=0)
        return "page"

    with misstep.session("task-1"):
        assert fetch("https://example.org") == "page"
    assert [(event["attempt"], event["outcome"], event["sequence"]) for event in recorded.events()] == [
        (1, "error", 0), (2, "error", 1), (3, "ok", 2),
    ]  # fmt: skip


def test_mistakes_in_a_row_are_told(recorded: Recorded) -> None:
    reached: list[misstep.Limit] = []
    tracker = misstep.MistakeTracker(on_limit=reached.append)
    with misstep.session("task-1", tracker=tracker):
        for outcome in (False, False, True, False, False, False):
            try:
                with recorded.recorder.tool_call("edit", {}):
                    if not outcome:
                        raise errors.ContentNotFoundError("no match")
            except errors.ContentNotFoundError:
                pass
    assert [event["reported_streak"] for event in recorded.events()] == [1, 2, 0, 1, 2, 3]
    assert reached == [misstep.Limit("task-1", 3)]


# ---- models ----


def openai(*reasons: str | None, usage: bool = False) -> list[Any]:
    chunks = [SimpleNamespace(choices=[SimpleNamespace(finish_reason=reason)]) for reason in reasons]
    if usage:
        chunks.append(SimpleNamespace(choices=[], usage=SimpleNamespace(prompt_tokens=9, completion_tokens=2)))
    return chunks


def anthropic(reason: str | None) -> list[Any]:
    begun = {"type": "message_start", "message": {"usage": {"input_tokens": 9}, "stop_reason": None}}
    said = [{"type": "content_block_delta", "delta": {"text": "a"}}]
    ended = (
        [{"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 2}}] if reason else []
    )
    return [begun, *said, *ended]


@pytest.mark.parametrize(
    ("chunks", "outcome", "kind"),
    [
        (openai(None, "stop", usage=True), "ok", None),
        (openai(None, "length"), "error", "OutputLimitError"),
        (openai(None, "content_filter"), "error", "RefusedError"),
        (openai(None, None), "error", "StreamProviderError"),
        (anthropic("end_turn"), "ok", None),
        (anthropic("max_tokens"), "error", "OutputLimitError"),
        (anthropic(None), "error", "StreamProviderError"),
        ([{"response": {"status": "in_progress"}}, {"response": {"status": "completed"}}], "ok", None),
        ([{"response": {"status": "in_progress"}}], "error", "StreamProviderError"),
        ([{"candidates": [{"finish_reason": SimpleNamespace(name="SAFETY")}]}], "error", "RefusedError"),
        (["plain", "texts"], "ok", None),
        ([], "error", "InvalidStreamError"),
    ],
)
def test_a_stream_ended_as_its_last_chunk_says(
    recorded: Recorded, chunks: list[Any], outcome: str, kind: str | None
) -> None:
    assert list(model_stream(recorded.recorder, chunks, "some-model", provider="openai")) == chunks
    event = recorded.only()
    assert (event["operation"], event["outcome"], event["error_class"], event["model"]) == (
        "model", outcome, kind, "some-model",
    )  # fmt: skip


def test_tokens_of_a_stream_are_told(recorded: Recorded) -> None:
    list(model_stream(recorded.recorder, anthropic("end_turn"), "m"))
    list(model_stream(recorded.recorder, openai("stop", usage=True), "m"))
    assert [(event["input_tokens"], event["output_tokens"]) for event in recorded.events()] == [(9, 2), (9, 2)]


@pytest.mark.parametrize(
    ("exception", "outcome", "kind"),
    [
        (ConnectionResetError("reset"), "error", "StreamProviderError"),
        (TimeoutError("slow"), "error", "StreamProviderError"),
        (json.JSONDecodeError("bad", "{", 1), "error", "ChunkParseError"),
        (errors.ChunkHandlerError("mine"), "error", "ChunkHandlerError"),
        (KeyboardInterrupt(), "cancelled", "StreamAbortedError"),
    ],
)
def test_a_stream_that_breaks_is_told(recorded: Recorded, exception: BaseException, outcome: str, kind: str) -> None:
    def chunks() -> Iterator[Any]:
        yield from openai(None)
        raise exception

    with pytest.raises(type(exception)):
        list(model_stream(recorded.recorder, chunks(), "m"))
    event = recorded.only()
    assert (event["outcome"], event["error_class"]) == (outcome, kind)


def test_a_stream_that_nobody_reads_to_its_end_was_stopped(recorded: Recorded) -> None:
    async def chunks() -> AsyncIterator[Any]:
        for each in openai(None, None, "stop"):
            yield each

    async def main() -> None:
        reading = model_stream_async(recorded.recorder, chunks(), "m")
        await anext(reading)
        await reading.aclose()  # type: ignore[attr-defined]

    asyncio.run(main())
    assert recorded.only()["outcome"] == "cancelled"


def test_a_request_without_a_stream_is_told(recorded: Recorded) -> None:
    with recorded.recorder.model_request("gpt-5", provider="openai") as request:
        request.used(input_tokens=5, output_tokens=1, cost_usd=0.25)
        request.finished("stop")
    with pytest.raises(TimeoutError), recorded.recorder.model_request("gpt-5"):
        raise TimeoutError("slow")
    good, bad = recorded.events()
    assert (good["outcome"], good["cost_usd"], good["input_tokens"]) == ("ok", 0.25, 5)
    assert (bad["outcome"], bad["error_class"]) == ("error", "TimeoutError")


# ---- never in the way ----


class Broken:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("telemetry is broken")


KNOWN = {
    value
    for module in (gen_ai_attributes, error_attributes, exception_attributes, http_attributes)
    for name, value in vars(module).items()
    if name.isupper() and isinstance(value, str)
}
OPERATIONS = {each.value for each in gen_ai_attributes.GenAiOperationNameValues}
# What the conventions require of spans, which of these they are named after, and their kind.
WANTED = {
    "execute_tool": ({"gen_ai.operation.name", "gen_ai.tool.name"}, "gen_ai.tool.name", SpanKind.INTERNAL),
    "chat": ({"gen_ai.operation.name", "gen_ai.provider.name"}, "gen_ai.request.model", SpanKind.CLIENT),
}


def test_spans_are_those_of_the_conventions(recorded: Recorded) -> None:
    """Every attribute is one of the conventions' or of `misstep.`; names, kinds, errors and what is required fit."""
    recorder = recorded.recorder
    with misstep.session("task-1", agent="coder", subagent="helper", tracker=misstep.MistakeTracker()):
        with recorder.tool_call("read", {"path": "a"}, call_id="c", target="a", mcp_server="files"):
            pass
        with suppress(errors.RateLimitError), recorder.tool_call("ask", {}):
            raise errors.RateLimitError(3, status_code=429)
        with recorder.model_request("gpt-5") as request:
            request.used(input_tokens=5, output_tokens=1, cost_usd=0.25)
            request.finished("stop")
        list(model_stream(recorder, [], "gpt-5", provider="openai"))
    spans = recorded.exporter.get_finished_spans()
    assert len(spans) == 4
    for span in spans:
        told = dict(span.attributes or {})
        for name in [*told, *(name for event in span.events for name in event.attributes or {})]:
            assert name in KNOWN or name.startswith("misstep."), name
        operation = str(told["gen_ai.operation.name"])
        required, named_after, kind = WANTED[operation]
        assert operation in OPERATIONS
        assert required <= told.keys()
        assert (span.name, span.kind) == (f"{operation} {told[named_after]}", kind)
        assert ("error.type" in told) is (span.status.status_code is StatusCode.ERROR)
    assert [span.attributes["gen_ai.request.stream"] for span in spans[3:] if span.attributes] == [True]


def test_a_call_never_fails_because_of_telemetry(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded.recorder, "tracer", Broken())
    tracker = misstep.MistakeTracker(on_limit=lambda limit: 1 / 0, session_limit=1)

    class Unprintable:
        def __str__(self) -> str:
            raise ValueError("no text")

    @recorded.tool(target="a")
    def use(a: Any) -> Any:
        return a

    with misstep.session("s", tracker=tracker):
        assert isinstance(use(Unprintable()), Unprintable)
    monkeypatch.setattr(recorded.recorder, "clock", lambda: 1 / 0)
    assert use(1) == 1
    assert list(streams.model_stream(recorded.recorder, [Broken()], "m"))


def test_without_a_provider_nothing_happens() -> None:
    @misstep.tool
    def use(a: int) -> int:
        return a

    with misstep.session("s"), misstep.model_request("m") as request:
        request.used(input_tokens=1)
        assert use(3) == 3


def test_recording_costs_little_more_than_a_bare_span() -> None:
    """At most 20 µs of CPU: the smallest of several rounds, because other processes only ever add."""
    provider = TracerProvider(shutdown_on_exit=False)
    bare, recorder = provider.get_tracer("bare"), Recorder(provider)
    arguments = {"path": "src/app.py", "old": "a = 1", "new": "a = 2"}

    def plain() -> None:
        with bare.start_as_current_span("execute_tool edit"):
            pass

    def recorded() -> None:
        with recorder.tool_call("edit", arguments, call_id="call_1", target="src/app.py") as call:
            call.returned("done")

    with misstep.session("task-1", agent="coder"):
        rounds = [(_cpu_us(plain), _cpu_us(recorded)) for _ in range(7)]
    assert min(each[1] for each in rounds) - min(each[0] for each in rounds) < 20


def _cpu_us(function: Any, times: int = 400) -> float:
    began = time.process_time_ns()
    for _ in range(times):
        function()
    return (time.process_time_ns() - began) / times / 1000
