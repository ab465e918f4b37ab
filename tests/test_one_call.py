"""Spans of frameworks, clients and MCP that are one call or one model request are one event, in whatever order."""

from __future__ import annotations

import copy
import itertools
import json
from typing import Any

import pytest

from collector.batch import Batch
from collector.columns import Row
from tests.doors import NOW, logs, spans, stored, taken

AGENT = {"gen_ai.conversation.id": "S"}


def at(start_s: float, took_s: float = 0.1) -> dict[str, str]:
    """When a span began and ended, in seconds before the last minute's end."""
    start = NOW - 60 * 10**9 + round(start_s * 10**9)
    return {"startTimeUnixNano": str(start), "endTimeUnixNano": str(start + round(took_s * 10**9))}


def one(name: str, scope: str, attributes: dict[str, Any], service: str = "app", **fields: Any) -> Batch:
    """A request of one span."""
    return taken(spans({"name": name, "attributes": attributes, **fields}, service=service, scope=scope), "traces")


def in_any_order(batches: list[Batch]) -> list[Row]:
    """The events of these requests, which must be the same for each of some orders and cuts."""
    whole = stored(copy.deepcopy(batches))
    hidden = {"event_id", "received_ns", "report_rank", "outcome_strength"}
    facts = [{name: value for name, value in row.items() if name not in hidden} for row in whole]
    orders = list(itertools.permutations(batches))
    for order in orders[:: max(1, len(orders) // 6)]:
        rows = stored(*([copy.deepcopy(each)] for each in order))  # sessions are written into reports
        found = [{name: value for name, value in row.items() if name not in hidden} for row in rows]
        assert sorted(found, key=str) == sorted(facts, key=str)
    return whole


def ran(number: int, arguments: dict[str, Any], call_id: str, **fields: Any) -> Batch:
    """The span of a call of `weather`."""
    attributes = {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather", "gen_ai.tool.call.id": call_id,
        "gen_ai.tool.call.arguments": json.dumps(arguments), **AGENT,
    }  # fmt: skip
    return one("execute_tool weather", "", attributes, **{"traceId": f"{number:x}", "spanId": f"a{number}"} | fields)


REUSED = ["weather", "functions.weather"]


@pytest.mark.parametrize("call_id", REUSED)
def test_an_id_that_is_only_the_tool_s_name_is_of_no_call(call_id: str) -> None:
    failed = {"status": 2, "status_message": "no such city"}
    calls = [ran(1, {"city": "Pari"}, call_id, **failed), ran(2, {"city": "Pariss"}, call_id, **failed)]
    calls.append(ran(3, {"city": "Paris"}, call_id))
    rows = sorted(in_any_order(calls), key=lambda row: row["span_id"])
    assert [(row["outcome"], json.loads(row["params"])["city"], row["call_id"]) for row in rows] == [
        ("error", "Pari", None), ("error", "Pariss", None), ("ok", "Paris", None),
    ]  # fmt: skip


def test_other_ids_are_of_a_call() -> None:
    for call_id in ("weather_1762345678901_0", "call_weather", "weathervane", "weather_0", "functions.weather:0"):
        calls = [ran(1, {"city": "x"}, call_id), ran(2, {"city": "x"}, call_id)]
        assert [row["call_id"] for row in in_any_order(calls)] == [call_id]


@pytest.mark.parametrize("call_id", REUSED)
def test_a_result_told_under_such_an_id_is_of_the_call_before_it(call_id: str) -> None:
    """The first call fails, the second does not: each is one event with what the next requests tell."""
    batches, messages = [], []
    for number, city in enumerate(("Pari", "Paris")):
        batches.append(ran(10, {"city": city}, call_id, spanId=f"a{number}", **at(10 * number + 1)))
        called = {"type": "tool_call", "id": call_id, "name": "weather", "arguments": {"city": city}}
        told = {
            "type": "tool_call_response",
            "id": call_id,
            "response": {"error": "no such city"} if city == "Pari" else "sun",
        }
        messages += [{"role": "assistant", "parts": [called]}, {"role": "tool", "parts": [told]}]
        chat = {"gen_ai.operation.name": "chat", **AGENT, "gen_ai.input.messages": json.dumps(messages)}
        batches.append(one("chat m", "", chat, spanId=f"d{number}", **at(10 * number + 5)))
    rows = [row for row in in_any_order(batches) if row["operation"] == "tool"]
    assert [(row["outcome"], json.loads(row["params"])["city"]) for row in rows] == [("error", "Pari"), ("ok", "Paris")]


def test_llama_index_with_ollama_names_each_call_after_its_tool() -> None:
    scope, batches = "openinference.instrumentation.llama_index", []
    for number, city in enumerate(("a", "b")):
        ids = f"tool_name='weather', tool_kwargs={{'city': '{city}'}}, tool_id='weather'"
        kind = {"openinference.span.kind": "CHAIN", "session.id": "S"}
        asked = json.dumps({"ev": f"ToolCall({ids})"})
        output = "ToolOutput(blocks=[TextBlock(block_type='text', text='sun')], tool_name='weather', is_error=False)"
        told = json.dumps({"ev": f"ToolCallResult({ids}, tool_output={output}, return_direct=False)"})
        batches += [
            one("Agent.call_tool", scope, {**kind, "input.value": asked}, spanId=f"b{number}", **at(10 * number)),
            one("FunctionTool.acall", scope,
                {"openinference.span.kind": "TOOL", "tool.name": "weather", "session.id": "S",
                 "input.value": json.dumps({"kwargs": {"city": city}})},
                spanId=f"c{number}", parentSpanId=f"b{number}", **at(10 * number)),
            one("Agent.aggregate_tool_results", scope, {**kind, "input.value": told},
                spanId=f"d{number}", **at(10 * number + 1)),
        ]  # fmt: skip
    rows = in_any_order(batches)
    assert [(row["outcome"], json.loads(row["params"])) for row in rows] == [
        ("ok", {"city": "a"}),
        ("ok", {"city": "b"}),
    ]


def mcp(tool: str, inner: str, client: str) -> list[Batch]:
    """A framework's span of a call, that of MCP's client below it, and the server's below that."""
    called = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool, "gen_ai.tool.call.id": "c1", **AGENT}
    told = {"mcp.method.name": "tools/call", "gen_ai.tool.name": inner}
    return [
        one(f"execute_tool {tool}", "pydantic-ai", called, spanId="1", status=2, status_message="no"),
        one(f"MCP send tools/call {inner}", client, told, spanId="2", parentSpanId="1", kind=3),
        one(f"tools/call {inner}", client, {**told, "error.type": "tool_error"}, "server",
            spanId="3", parentSpanId="2", kind=2),
    ]  # fmt: skip


@pytest.mark.parametrize("client", ["mcp-python-sdk", "other"])
@pytest.mark.parametrize(
    ("tool", "inner", "count"),
    [
        ("get_forecast", "get_forecast", 1),
        ("weather_get_forecast", "get_forecast", 1),
        ("weather_forecast", "get_forecast", 2),  # a tool that calls another
        ("research", "search", 2),
    ],
)
def test_a_tool_of_an_mcp_server_may_have_a_prefix(tool: str, inner: str, count: int, client: str) -> None:
    rows = in_any_order(mcp(tool, inner, client))
    assert len(rows) == count
    assert (rows[0]["service"], rows[0]["call_id"], rows[0]["mcp_server"]) == ("app", "c1", "server") or count == 2


CHAT = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "m"}
FRAMEWORKS = [
    "pydantic-ai", "strands.telemetry.tracer", "agent_framework", "gcp.vertex.agent",
    "semantic_kernel.connectors.ai.chat_completion_client_base",
]  # fmt: skip
CLIENTS = [
    ("opentelemetry.instrumentation.openai_v2", CHAT),
    ("opentelemetry.instrumentation.openai.v1", CHAT | {"llm.request.type": "chat"}),
    ("openinference.instrumentation.openai", {"openinference.span.kind": "LLM", "llm.model_name": "m"}),
    ("logfire.openai", CHAT | {"request_data": '{"model": "m"}'}),
]
FAILED: dict[str, Any] = {"status": 2, "status_message": "Error code: 429 - slow down"}


@pytest.mark.parametrize(("client", "attributes"), CLIENTS, ids=[case[0] for case in CLIENTS])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_request_is_one_where_framework_and_client_are_instrumented(
    framework: str, client: str, attributes: dict[str, Any]
) -> None:
    answered = CHAT | {"gen_ai.response.model": "m", "gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 1}
    outer = one("chat m", framework, answered, spanId="1", **at(0, 1))
    [row] = in_any_order([outer, one("chat m", client, attributes, spanId="2", parentSpanId="1", **at(0.1, 0.8))])
    assert (row["operation"], row["outcome"], row["input_tokens"], row["span_id"][-1]) == ("model", "ok", 5, "1")
    failed = one("chat m", client, attributes, spanId="2", parentSpanId="1", **FAILED, **at(0.1, 0.2))
    again = one("chat m", client, attributes, spanId="3", parentSpanId="1", **at(0.4, 0.2))
    assert [row["outcome"] for row in in_any_order([outer, failed, again])] == ["ok"]
    outer = one("chat m", framework, CHAT, spanId="1", **FAILED, **at(0, 1))
    assert [row["outcome"] for row in in_any_order([outer, failed])] == ["error"]


def test_requests_beside_each_other_stay_two() -> None:
    beside = [one("chat m", "x", CHAT, spanId=name, parentSpanId="f", **at(0, 1)) for name in ("1", "2")]
    assert len(in_any_order([*beside, one("invoke_agent a", "x", AGENT, spanId="f")])) == 2


STEP = {"mastra.span.type": "model_step", "modelId": "m"}
INFERENCE = {"mastra.span.type": "model_inference", "gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}


@pytest.mark.parametrize("reason", ["error", "content_filter"])
@pytest.mark.parametrize("status", [0, 1])
def test_the_span_below_a_step_of_mastra_knows_its_outcome(reason: str, status: int) -> None:
    failed = {**INFERENCE, "gen_ai.response.finish_reasons": json.dumps([reason])}
    scope = "@mastra/otel-exporter"
    rows = in_any_order(
        [
            one("step: 0", scope, STEP, spanId="1", status=status, **at(1)),
            one("chat m", scope, failed, spanId="2", parentSpanId="1", status=1, **at(1)),
        ]
    )
    assert [(row["operation"], row["outcome"]) for row in rows] == [("model", "error")]


def test_a_call_of_an_unknown_tool_is_told_by_the_step_of_mastra_beside_its_request() -> None:
    calls = [
        {"toolCallId": "c1", "toolName": "add", "args": {"a": 1}},
        {"toolCallId": "c2", "toolName": "nope", "args": {"k": 1}, "observability": {"traceparent": "00-0a-0c-01"}},
    ]
    step = {
        "mastra.span.type": "model_step",
        "mastra.model_step.is_continued": True,
        "mastra.model_step.output": json.dumps({"toolCalls": calls}, separators=(",", ":")),
    }
    added = {"mastra.span.type": "tool_call", "gen_ai.tool.name": "add", "gen_ai.tool.call.id": "c1"}
    scope = "@mastra/otel-exporter"
    rows = in_any_order(
        [
            one("agent_step clerk", scope, step, spanId="1", status=1, **at(2)),
            one("chat m", scope, INFERENCE, spanId="2", parentSpanId="1", status=1, **at(1)),
            one("execute_tool add", scope, added, spanId="3", parentSpanId="1", status=1, **at(2)),
        ]
    )
    assert sorted((row["operation"], row["outcome"], row["call_id"], row["error_class"]) for row in rows) == [
        ("model", "ok", None, None),
        ("tool", "error", "c2", "InvalidToolError"),
        ("tool", "ok", "c1", None),
    ]


@pytest.mark.parametrize(
    ("tries", "outcome"),
    [(["error"], "error"), (["ok", "error"], "error"), (["error", "ok"], "ok"), (["filter"], "error")],
)
def test_of_what_a_client_tried_the_last_decides(tries: list[str], outcome: str) -> None:
    chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    batches = [one("chat m", "agent_framework", {**chat, "gen_ai.provider.name": "openai"}, spanId="1", **at(9, 8))]
    for number, tried in enumerate(tries):
        reasons = {"gen_ai.response.finish_reasons": ["content_filter"]} if tried == "filter" else {}
        failed: dict[str, Any] = {"status": 2, "status_message": "429 slow down"} if tried == "error" else {}
        client = "opentelemetry.instrumentation.openai_v2"
        ids = {"spanId": f"c{number}", "parentSpanId": "1"}
        batches.append(one("chat m", client, {**chat, **reasons}, **ids, **failed, **at(2 + number)))
    rows = in_any_order(batches)
    assert [(row["operation"], row["outcome"]) for row in rows] == [("model", outcome)]


@pytest.mark.parametrize("call_id", ["weather_1", "functions.weather:0"])
def test_an_id_with_a_number_finds_its_call_whatever_the_arguments_are_told_to_be(call_id: str) -> None:
    """A framework fills in what the model left out."""
    called = {"type": "tool_call", "id": call_id, "name": "weather", "arguments": {"city": "x"}}
    told = {"type": "tool_call_response", "id": call_id, "response": {"error": "no such city"}}
    messages = [{"role": "assistant", "parts": [called]}, {"role": "tool", "parts": [told]}]
    chat = {"gen_ai.operation.name": "chat", **AGENT, "gen_ai.input.messages": json.dumps(messages)}
    batches = [ran(1, {"city": "x", "days": 3}, call_id, **at(1)), one("chat m", "", chat, spanId="d1", **at(5))]
    rows = [row for row in in_any_order(batches) if row["operation"] == "tool"]
    assert [(row["outcome"], row["call_id"]) for row in rows] == [("error", call_id)]


def test_results_told_under_the_tool_s_name_in_two_traces_are_two_calls() -> None:
    batches = []
    for trace, said in (("1", "sun"), ("2", "unknown tool weather")):
        called = {"type": "tool_call", "id": "weather", "name": "weather", "arguments": {"trace": trace}}
        told = {"type": "tool_call_response", "id": "weather", "response": said}
        messages = [{"role": "assistant", "parts": [called]}, {"role": "tool", "parts": [told]}]
        chat = {"gen_ai.operation.name": "chat", **AGENT, "gen_ai.input.messages": json.dumps(messages)}
        batches.append(one("chat m", "", chat, traceId=trace, spanId="d1", **at(int(trace))))
    rows = [row for row in in_any_order(batches) if row["operation"] == "tool"]
    assert [row["outcome"] for row in sorted(rows, key=lambda row: row["time_ns"])] == ["ok", "error"]


def test_requests_of_two_instrumentations_beside_each_other_are_two() -> None:
    inference = {"openinference.span.kind": "LLM", "llm.model_name": "m", "session.id": "S"}
    chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m2"}
    failed: dict[str, Any] = {"status": 2, "status_message": "429 slow down"}
    rows = in_any_order(
        [
            one("Anthropic.stream_chat", "openinference.instrumentation.llama_index", inference,
                spanId="2", parentSpanId="1", **at(1)),
            one("anthropic.chat", "opentelemetry.instrumentation.anthropic", chat,
                spanId="3", parentSpanId="1", **failed, **at(2)),
        ]
    )  # fmt: skip
    assert sorted((row["model"], row["outcome"]) for row in rows) == [("m", "ok"), ("m2", "error")]


@pytest.mark.parametrize("language", ["python", "typescript"])
def test_a_request_is_one_where_the_client_of_anthropic_makes_spans_too(language: str) -> None:
    inference = {"openinference.span.kind": "LLM", "llm.model_name": "m"}
    scope = "@arizeai/openinference-instrumentation-anthropic"
    outer = one("Anthropic Messages", scope, inference, spanId="1", status=1, **at(0, 1))
    below: dict[str, Any] = {"spanId": "2", "parentSpanId": "1", "status": 1, **at(0.1, 0.8)}
    inner = one("anthropic.messages.create", f"com.anthropic.sdk.{language}", CHAT, **below)
    assert [row["outcome"] for row in in_any_order([outer, inner])] == ["ok"]


def told(number: int, call_id: str, *results: Any, start_s: float, trace: str = "1") -> Batch:
    """A request to the model whose messages end with the last of these results, each of a call of this id."""
    messages = []
    for response in results:
        called = {"type": "tool_call", "id": call_id, "name": "weather", "arguments": {"city": "x"}}
        messages.append({"role": "assistant", "parts": [called]})
        messages.append(
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": call_id, "response": response}]}
        )
    chat = {"gen_ai.operation.name": "chat", **AGENT, "gen_ai.input.messages": json.dumps(messages)}
    return one("chat m", "", chat, traceId=trace, spanId=f"d{number}", **at(start_s))


def attempt(number: int, start_s: float, took_s: float = 1, trace: int = 1, **fields: Any) -> Batch:
    return ran(trace, {"city": "x"}, "call_0", **{"spanId": f"a{number}"} | at(start_s, took_s) | fields)


FAILED = {"status": 2, "status_message": "no such city"}
NO_CITY, SUN = {"error": "no such city"}, "sun"
ATTEMPTS = [
    ("run again by the framework", [attempt(1, 0, **FAILED), attempt(2, 2), told(1, "call_0", SUN, start_s=4)],
     ["error", "ok"]),
    ("failed without a status", [attempt(1, 0, status=1), attempt(2, 2), told(1, "call_0", NO_CITY, start_s=4)],
     ["ok", "error"]),
    ("numbered anew in each run, told in both",
     [attempt(1, 0), told(1, "call_0", NO_CITY, start_s=2), attempt(2, 4, trace=2),
      told(2, "call_0", NO_CITY, SUN, start_s=6, trace="2"), told(3, "call_0", SUN, SUN, start_s=8, trace="2")],
     ["error", "ok"]),
    ("three, one of them parallel to itself", [attempt(1, 0, **FAILED), attempt(2, 2), attempt(3, 2.5), attempt(4, 5)],
     ["error", "ok", "ok"]),
    ("one span around both", [attempt(1, 1, **FAILED), attempt(2, 3), attempt(3, 0, 5)], ["error"]),
    ("one asks for leave, another service runs it",
     [attempt(1, 0), one("execute_tool weather", "", {
         "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather", "gen_ai.tool.call.id": "call_0",
         **AGENT}, service="worker", traceId="1", spanId="b1", **at(2), **FAILED)], ["error"]),
]  # fmt: skip


@pytest.mark.parametrize(("batches", "outcomes"), [case[1:] for case in ATTEMPTS], ids=[case[0] for case in ATTEMPTS])
def test_each_attempt_under_one_id_is_an_event(batches: list[Batch], outcomes: list[str]) -> None:
    rows = [row for row in in_any_order(batches) if row["operation"] == "tool"]
    assert [row["outcome"] for row in sorted(rows, key=lambda row: row["time_ns"])] == outcomes
    assert {row["call_id"] for row in rows} == {"call_0"}
    assert [row["message"] for row in rows if row["outcome"] == "error"] == ["no such city"]


def test_attempts_that_an_agent_numbers_are_events_of_their_own() -> None:
    """Also where their times are the same, and one is told again."""
    called = {"session": "S", "tool": "fetch", "call_id": "c1", "time": "2026-11-24T12:00:00Z"}
    late = {"outcome": "error", "error_class": "ToolTimeoutError", "message": "timed out"}
    told = [{"attempt": 1, **late}, {"attempt": 2, **late}, {"attempt": 3, "outcome": "ok"}, {"attempt": 2, **late}]
    rows = in_any_order([taken(json.dumps({**called, **one}).encode(), "events") for one in told])
    assert sorted((row["attempt"], row["outcome"]) for row in rows) == [(1, "error"), (2, "error"), (3, "ok")]


def below(number: int, parent: int, start_s: float, took_s: float, **fields: Any) -> Batch:
    """A span of `read` below another one; `arguments`, `call_id`, `tool` and `error` where they are told."""
    named = {"arguments": "gen_ai.tool.call.arguments", "call_id": "gen_ai.tool.call.id", "error": "error.type"}
    told = {key: fields.pop(name) for name, key in named.items() if name in fields}
    tool, scope = fields.pop("tool", "read"), fields.pop("scope", "app")
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool} | told | fields.pop("more", AGENT)
    where: dict[str, Any] = {"traceId": "1", "spanId": f"{number:x}", **at(start_s, took_s)}
    if parent:
        where["parentSpanId"] = f"{parent:x}"
    if "error.type" in told:
        where |= {"status": 2, "status_message": "no such file: x"}
    return one(f"execute_tool {tool}", scope, attributes, **where | fields)


NESTED: list[tuple[list[Batch], list[str]]] = [
    # a framework's span around that of its toolset, which has no id, fails with it or alone, or only names the call
    ([below(1, 0, 0, 2, call_id="c1", error="io"), below(2, 1, 0.2, 1.5, error="io")], ["error"]),
    ([below(1, 0, 0, 2, call_id="c1"), below(2, 1, 0.2, 1.5, error="io")], ["error"]),
    ([below(1, 0, 0, 2), below(2, 1, 0.2, 1.5, call_id="c1")], ["ok"]),
    ([below(1, 0, 0, 2, arguments='{"a": 1}'), below(2, 1, 0.2, 1.5, arguments='{ "a":1}', scope="sdk")], ["ok"]),
    ([below(1, 0, 0, 2, arguments='{"a": 1}', tool="files/read"), below(2, 1, 0.2, 1.5)], ["ok"]),
    ([below(1, 0, 0, 3), below(2, 1, 0.2, 2), below(3, 2, 0.3, 1, error="io")], ["error"]),
    # the same tool inside of itself, of other arguments, another id, or beside it
    ([below(1, 0, 0, 2, arguments='{"a": 1}'), below(2, 1, 0.2, 1.5, arguments='{"a": 2}')], ["ok", "ok"]),
    ([below(1, 0, 0, 2, call_id="c1"), below(2, 1, 0.2, 1.5, call_id="c2")], ["ok", "ok"]),
    ([below(1, 9, 0, 1, error="io"), below(2, 9, 1.2, 1, error="io")], ["error", "error"]),
    ([below(1, 0, 0, 2), below(2, 1, 0.2, 1.5, tool="write")], ["ok", "ok"]),
    # tried again inside of a wrapper, which says how it ended
    ([below(1, 0, 0, 3), below(2, 1, 0.1, 1, error="io"), below(3, 1, 1.2, 1)], ["error", "ok"]),
    ([below(1, 0, 0, 3, call_id="c1", error="io"), below(2, 1, 0.1, 1, error="io"), below(3, 1, 1.2, 1, error="io")],
     ["error", "error"]),
]  # fmt: skip


@pytest.mark.parametrize(("batches", "outcomes"), NESTED)
def test_spans_of_one_call_below_each_other_are_one_event(batches: list[Batch], outcomes: list[str]) -> None:
    assert sorted(row["outcome"] for row in in_any_order(batches)) == outcomes


def test_the_outer_span_says_whose_call_it_is() -> None:
    outer = below(1, 0, 0, 2, call_id="c1", error="io")
    inner = below(2, 1, 0.2, 1.5, error="io", more={"gen_ai.agent.name": "toolset"}, service="server")
    [found] = in_any_order([outer, inner])
    assert (found["call_id"], found["service"], found["session"], found["span_id"]) == ("c1", "app", "S", f"{1:016x}")


def test_results_of_equal_calls_that_later_requests_tell_again_stay_with_theirs() -> None:
    """Spans without ids: the second request tells the first result once more, as near to the second call as its own."""
    ids = ["call_9f8e7d6c5b4a", "call_1a2b3c4d5e6f"]

    def ran_bare(number: int, start_s: float, **fields: Any) -> Batch:
        attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather",
                      "gen_ai.tool.call.arguments": '{"city": "x"}', **AGENT}  # fmt: skip
        where = {"traceId": "1", "spanId": f"e{number}", **at(start_s, 0.01)}
        return one("execute_tool weather", "", attributes, **where | fields)

    def asked_again(number: int, start_s: float) -> Batch:
        messages: list[Any] = []
        for call_id, response in zip(ids[:number], ["503 unavailable", "sun"], strict=False):
            called = {"type": "tool_call", "id": call_id, "name": "weather", "arguments": {"city": "x"}}
            result = {"type": "tool_call_response", "id": call_id, "response": response}
            messages += [{"role": "assistant", "parts": [called]}, {"role": "tool", "parts": [result]}]
        chat = {"gen_ai.operation.name": "chat", **AGENT, "gen_ai.input.messages": json.dumps(messages)}
        return one("chat m", "", chat, traceId="1", spanId=f"f{number}", **at(start_s))

    failed = ran_bare(1, 0, status=2, status_message="503 unavailable")
    rows = in_any_order([failed, asked_again(1, 0.05), ran_bare(2, 0.2), asked_again(2, 0.215)])
    calls = sorted((row["time_ns"], row["outcome"], row["call_id"]) for row in rows if row["operation"] == "tool")
    assert [call[1:] for call in calls] == [("error", ids[0]), ("ok", ids[1])]


@pytest.mark.parametrize(("path", "moment", "events"), [("/a", 1, 1), ("/b", 1, 2), ("/a", 700, 2)])
def test_a_log_record_beside_a_span_without_an_id_is_of_the_same_call(path: str, moment: int, events: int) -> None:
    """A plug-in that tells each call twice gives both the same trace, tool and arguments."""
    told = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "read", "error.type": "FileNotFoundError"}
    span = {"name": "execute_tool read", "attributes": told | {"gen_ai.tool.call.arguments": '{"path": "/a"}'}}
    log = {
        "timeUnixNano": str(NOW + moment * 10**9),
        "traceId": "a".rjust(32, "0"),
        "spanId": "c".rjust(16, "0"),
        "attributes": told | {"gen_ai.tool.call.arguments": f'{{"path": "{path}"}}'},
    }
    batches = taken(spans(span), "traces"), taken(logs(log))
    assert len(stored(batches[:1], batches[1:])) == events
    assert len(stored(batches[1:], batches[:1])) == events
