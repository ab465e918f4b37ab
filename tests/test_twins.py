"""Reports of one error without a common id are one event; equal failures one after another are not."""

from __future__ import annotations

import copy
import itertools
import json
from typing import Any

import pytest

from collector.batch import Batch
from collector.correlate.correlate import Correlator
from collector.correlate.twins import NEAR_NS, REACH, parts_of
from collector.engine.duckdb.lookup import Lookup
from collector.engine.duckdb.store import Store
from collector.query.queries import redirected
from tests.doors import KODE_MONITOR, KODE_PROGRESS, MS, NOW, cline, logs, missing, spans, stored, taken, through


def told(at_ms: int, role: str = "call", message: str = "m", service: str = "s") -> Any:
    time_ns = NOW + at_ms * 10**6
    return {"time_ns": time_ns, "source": "x", "service": service, "message": message, "_twin": [role, "message"]}


# Reports (milliseconds, role, message), and which of them are one event.
DRAWN = [
    ("two roles", [(0, "call", "m"), (1, "reason", "m")], [{0, 1}]),
    ("the edge of the window", [(0, "call", "m"), (2000, "reason", "m")], [{0, 1}]),
    ("beyond it", [(0, "call", "m"), (2001, "reason", "m")], [{0}, {1}]),
    ("one role", [(0, "call", "m"), (0, "call", "m")], [{0}, {1}]),
    ("another message", [(0, "call", "m"), (0, "reason", "n")], [{0}, {1}]),
    ("three roles", [(0, "call", "m"), (5, "reason", "m"), (900, "result", "m")], [{0, 1, 2}]),
    ("the nearest", [(0, "call", "m"), (1000, "call", "m"), (900, "reason", "m")], [{0}, {1, 2}]),
    ("the rest too", [(0, "call", "m"), (1000, "call", "m"), (900, "reason", "m"), (910, "reason", "m")],
     [{0, 2}, {1, 3}]),
    ("a lost twin moves none", [(0, "reason", "m"), (1900, "call", "m"), (1901, "reason", "m"), (3800, "call", "m"),
                                (3801, "reason", "m")], [{0}, {1, 2}, {3, 4}]),
    ("calls at one time", [(0, "call", "m"), (0, "call", "m"), (1, "reason", "m"), (1, "reason", "m")],
     [{0, 2}, {1, 3}]),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "expected"), [case[1:] for case in DRAWN], ids=[case[0] for case in DRAWN])
def test_which_reports_are_one_event(lines: list[tuple[int, str, str]], expected: list[set[int]]) -> None:
    units = {number: [told(*line)] for number, line in enumerate(lines)}
    for order in itertools.permutations(units):
        assert sorted(parts_of({number: units[number] for number in order}), key=min) == expected


BEGINNINGS = [
    ("each turn its own", [(0, 0, "asked"), (90, 50, "begun"), (100, 0, "asked"), (190, 50, "begun")],
     [{0, 1}, {2, 3}]),
    ("calls of one turn, one after another", [(0, 0, "asked"), (0, 0, "asked"), (300_000, 299_999, "begun"),
                                              (420_000, 120_000, "begun")], [{0, 2}, {1, 3}]),
    ("not the end, but the beginning", [(0, 0, "asked"), (80_000, 79_900, "begun"), (80_001, 0, "asked")],
     [{0, 1}, {2}]),
    ("one that was never asked for", [(0, 0, "begun"), (10, 0, "begun"), (9, 0, "asked")], [{0}, {1, 2}]),
    ("too long before", [(0, 0, "asked"), (600_001, 0, "begun")], [{0}, {1}]),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "expected"), [case[1:] for case in BEGINNINGS], ids=[case[0] for case in BEGINNINGS])
def test_a_call_is_the_one_asked_for_when_it_began(lines: list[tuple[int, int, str]], expected: list[set[int]]) -> None:
    units = {
        number: [told(at_ms, role) | {"duration_ms": float(took_ms)}]
        for number, (at_ms, took_ms, role) in enumerate(lines)
    }
    for order in itertools.permutations(units):
        assert sorted(parts_of({number: units[number] for number in order}), key=min) == expected


def test_what_says_the_same_fits_better_than_what_is_nearer() -> None:
    lines = [(0, "client", "error"), (5, "client", "ok"), (6, "framework", "error"), (7, "framework", "ok")]
    units = {number: [told(at_ms, role) | {"outcome": said}] for number, (at_ms, role, said) in enumerate(lines)}
    assert sorted(parts_of(units), key=min) == [{0, 2}, {1, 3}]
    assert parts_of({0: units[0], 3: units[3]}) == [{0, 3}]


def test_a_report_of_two_roles_has_a_twin_for_each() -> None:
    client = told(1) | {"trace_id": "t", "_twin": [["begun", "trace_id"], ["client", "message"]]}
    asked = told(0, message="another") | {"trace_id": "t", "_twin": ["asked", "trace_id"]}
    framework = told(2, "framework") | {"trace_id": "u"}
    assert parts_of({0: [asked], 1: [client], 2: [framework]}) == [{0, 1, 2}]
    assert parts_of({0: [asked], 2: [framework]}) == [{0}, {2}]


@pytest.mark.parametrize("client", [{"parentSpanId": "f"}, {"traceId": "b", "attributes": {"session.id": "s"}}])
def test_a_cut_stream_that_its_client_takes_for_whole_is_one_failure(client: dict[str, Any]) -> None:
    model = {"openinference.span.kind": "LLM"}
    told_by = {
        "langchain": {"spanId": "2", "parentSpanId": "1", "status": 2, "status_message": "peer closed connection",
                      "attributes": model | {"session.id": "s"}},
        "anthropic": {"spanId": "3", "status": 1} | client
        | {"attributes": model | {"llm.token_count.completion": 7} | client.get("attributes", {})},
    }  # fmt: skip
    bodies = [spans(one, service="a", scope=f"openinference.instrumentation.{name}") for name, one in told_by.items()]
    for order in (bodies, bodies[::-1]):
        (event,) = stored([taken(body, "traces") for body in order])
        assert (event["outcome"], event["error_class"], event["session"]) == ("error", "StreamProviderError", "s")


def asked_again(scope: str, number: int, at_ms: int, **attributes: Any) -> Batch:
    """A request, by OpenInference, whose last message says that there is no such tool; each in a trace of its own."""
    messages = {
        "0.message.role": "assistant", "0.message.tool_calls.0.tool_call.id": f"c{number}",
        "0.message.tool_calls.0.tool_call.function.name": "nope",
        "0.message.tool_calls.0.tool_call.function.arguments": json.dumps({"x": number}),
        "1.message.role": "tool", "1.message.tool_call_id": f"c{number}",
        "1.message.content": "Error: nope is not a valid tool, try one of [good].",
    }  # fmt: skip
    told = {f"llm.input_messages.{name}": value for name, value in messages.items()}
    start = NOW - 10**10 + at_ms * 10**6
    times = {"startTimeUnixNano": str(start), "endTimeUnixNano": str(start + 5 * 10**6)}
    ids = {"traceId": f"{at_ms + 1:x}", "spanId": f"{at_ms + 1:x}"}
    model = {"openinference.span.kind": "LLM", "llm.token_count.completion": 100 + number}
    span = times | ids | {"status": 1, "attributes": model | told | attributes}
    return taken(spans(span, service="a", scope=f"openinference.instrumentation.{scope}"), "traces")


@pytest.mark.parametrize("client", ["openai", "anthropic"])
@pytest.mark.parametrize("metadata", ['{"thread_id": "s"}', "{}"])
def test_a_call_that_never_ran_is_told_once_by_langchain_and_its_client(client: str, metadata: str) -> None:
    batches = []
    for number, at_ms in ((1, 0), (2, 40)):
        batches.append(asked_again("langchain", number, at_ms, metadata=metadata))
        batches.append(asked_again(client, number, at_ms + 3))
    sessions = ["s", "s"] if "s" in metadata else [f"{at_ms + 1:032x}" for at_ms in (0, 40)]
    for groups in ([batches], [batches[::-1]], [[one] for one in batches], [[one] for one in batches[::-1]]):
        calls = [row for row in stored(*groups) if row["operation"] == "tool"]
        assert [row["error_class"] for row in calls] == ["InvalidToolError", "InvalidToolError"]
        assert [(row["call_id"], row["session"]) for row in calls] == [*zip(("c1", "c2"), sessions, strict=True)]


@pytest.mark.parametrize(("status", "outcome", "seconds"), [(1, "ok", 40), (2, "error", 40), (2, "error", 1)])
def test_a_stream_that_langchain_reads_past_anthropic_s_client_is_one_request(
    status: int, outcome: str, seconds: int
) -> None:
    """The client's span ends when the stream begins, without a status."""
    start = NOW - 10**11
    model = {"openinference.span.kind": "LLM", "llm.provider": "anthropic"}
    begun = {"startTimeUnixNano": str(start + 10**7), "endTimeUnixNano": str(start + 10**8)}
    whole = {"startTimeUnixNano": str(start), "endTimeUnixNano": str(start + seconds * 10**9)}
    framework = {
        "traceId": "b",
        "spanId": "2",
        "status": status,
        "attributes": model | {"llm.token_count.completion": 7},
    }
    client = {"spanId": "3", "attributes": model | {"llm.invocation_parameters": '{"stream": true}'}}
    bodies = [
        spans(framework | whole, service="a", scope="openinference.instrumentation.langchain"),
        spans(client | begun, service="a", scope="openinference.instrumentation.anthropic"),
    ]
    for order in (bodies, bodies[::-1]):
        (event,) = stored(*([taken(body, "traces")] for body in order))
        assert (event["outcome"], event["output_tokens"], event["trace_id"][-1]) == (outcome, 7, "b")


def test_services_stay_apart_and_a_crowd_is_bounded() -> None:
    assert len(parts_of({1: [told(0)], 2: [told(0, "reason", service="t")]})) == 2
    crowd = {number: [told(0)] for number in range(REACH + 1)}
    assert len(parts_of({**crowd, -1: [told(-1, "reason")]})) == REACH + 1
    assert NEAR_NS == 2 * 10**9


def pair(gap_ms: int, service: str = "a") -> list[Batch]:
    later = KODE_PROGRESS | {"bookmark": {"seq": 13, "timestamp": MS + gap_ms}}
    return [through("events", KODE_MONITOR, service), through("events", later, service)]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize(("gap_ms", "count"), [(0, 1), (1, 1), (1999, 1), (-1999, 1), (2001, 2), (9000, 2)])
def test_kode_s_two_events_of_one_error_are_one(order: tuple[int, int], gap_ms: int, count: int) -> None:
    batches = [pair(gap_ms)[one] for one in order]
    together, apart = stored(batches), stored(batches[:1], batches[1:])
    assert len(together) == len(apart) == count
    if count == 1:
        wanted = {
            "tool": "fs_read",
            "call_id": "call-1",
            "reported_class": "runtime",
            "retryable_declared": True,
            "retryable": True,
            "severity": "warn",
            "error_class": "FileNotFoundError",
        }
        assert missing(together[0], wanted) == {} == missing(apart[0], wanted)


def test_kode_s_equal_failures_one_after_another_stay_apart() -> None:
    def both(at_ms: int, number: int) -> list[dict[str, Any]]:
        call = KODE_PROGRESS["call"] | {"id": f"call-{number}"}  # type: ignore[operator]
        return [
            KODE_MONITOR | {"timestamp": at_ms},
            KODE_PROGRESS | {"call": call, "bookmark": {"seq": number, "timestamp": at_ms + 1}},
        ]

    items = [item for number in range(3) for item in both(MS + number * 500, number)]
    whole = taken(json.dumps(items).encode(), "events")
    rows = stored([whole])
    assert [row["call_id"] for row in rows] == ["call-0", "call-1", "call-2"]
    backwards = stored(*([through("events", item, "")] for item in reversed(items)))
    assert [row["call_id"] for row in backwards] == ["call-0", "call-1", "call-2"]
    monitors = stored([taken(json.dumps([KODE_MONITOR] * 101).encode(), "events")])
    assert len(monitors) == 101


def test_kode_s_events_of_two_services_stay_apart() -> None:
    assert len(stored([pair(0, "a")[0], pair(0, "b")[1]])) == 2


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_cline_s_failed_edit_and_its_reason_are_one_event(order: tuple[int, int]) -> None:
    at = [{"timeUnixNano": str(NOW - 10**9 + 10**6 * number)} for number in range(2)]
    records = [
        cline("task.tool_used", tool="write_to_file", success=False) | at[0],
        cline("task.diff_edit_failed", errorType="the search block is not in the file") | at[1],
    ]
    batches = [taken(logs(records[number], service="cline")) for number in order]
    rows = stored(batches[:1], batches[1:])
    assert [(row["outcome"], row["tool"], row["reported_class"]) for row in rows] == [
        ("error", "write_to_file", "task.diff_edit_failed")
    ]
    assert rows[0]["mistake"] is True


def test_two_failed_edits_with_one_reason_stay_two() -> None:
    records = [cline("task.tool_used", tool="write_to_file", success=False) for _ in range(2)]
    records.append(cline("task.diff_edit_failed", errorType="no match"))
    assert len(stored([taken(logs(*records, service="cline"))])) == 2


def codex(at_ms: int, error: str, kind: str = "") -> dict[str, Any]:
    """Codex's report of a stream that fails."""
    attributes = {"event.name": "codex.sse_event", "conversation.id": "s", "error.message": error}
    kinds = {"event.kind": kind} if kind else {}
    return {"timeUnixNano": str(NOW - 10**10 + at_ms * 10**6), "attributes": attributes | kinds}


CUT = "stream disconnected before completion: error decoding response body"


@pytest.mark.parametrize(
    ("told", "times"),
    [
        ([codex(0, "Transport error: error decoding response body"), codex(1, CUT, "response.completed")], 1),
        (
            [
                codex(0, "expected value at line 1 column 1", "response.output_text.delta"),
                codex(3, "Transport error: error decoding response body"), codex(3, CUT, "response.completed"),
            ],
            1,
        ),
        ([codex(0, "idle timeout waiting for SSE")], 1),
        ([codex(0, CUT, "response.completed"), codex(250, CUT, "response.completed")], 2),
        ([codex(at, CUT, kind) for at in (0, 240, 680) for kind in ("", "response.completed")], 3),
    ],
    ids=["cut", "malformed", "idle", "told at the end alone", "tried again"],
)  # fmt: skip
def test_a_stream_of_codex_fails_once_however_often_it_is_told(told: list[dict[str, Any]], times: int) -> None:
    batches = [taken(logs(record, service="codex_exec")) for record in told]
    for rows in (stored(batches), stored(*([batch] for batch in batches)), stored(*([one] for one in batches[::-1]))):
        assert [(row["operation"], row["outcome"], row["domain"]) for row in rows] == [
            ("model", "error", "streaming")
        ] * times


def opencode(end_ms: int, *doors: str) -> dict[str, list[Batch]]:
    """A provider's fault as OpenCode reports it: by a span, and by a line of its log half a millisecond later."""
    end = NOW - 10**10 + end_ms * 10**6
    attributes = {"ai.model.id": "m", "session.id": "s"}
    span = {"name": "ai.streamText.doStream", "status": 2, "status_message": "Unauthorized", "spanId": f"{end_ms:x}"}
    times = {"startTimeUnixNano": str(end - 10**9), "endTimeUnixNano": str(end)}
    line = ["stream error", json.dumps({"modelID": "m", "session.id": "s", "error": {"message": "Unauthorized"}})]
    told = {
        "span": taken(spans(span | times | {"attributes": attributes}, service="opencode"), "traces"),
        "log": taken(logs({"timeUnixNano": str(end + 500_000), "body": line}, service="opencode")),
    }
    return {door: [told[door]] for door in doors}


@pytest.mark.parametrize("doors", [("span", "log"), ("log", "span"), ("log",), ("span",)])
def test_a_fault_of_opencode_s_provider_is_one_event(doors: tuple[str, ...]) -> None:
    """It may be reported by only one of them, and occur again half a second later."""
    told = [opencode(at, *doors) for at in (0, 500, 1000)]
    for groups in ([one[door] for one in told for door in doors], [one[door] for door in doors for one in told]):
        rows = stored(*groups)
        assert [(row["operation"], row["error_class"], row["session"]) for row in rows] == [
            ("model", "AuthenticationError", "s")
        ] * 3


def called(number: int, attributes: dict[str, Any]) -> Batch:
    """The span of a call; all are equal except for their ids."""
    same = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.call.arguments": '{"a": 1}',
    }
    ends = {"startTimeUnixNano": str(NOW - 10**9), "endTimeUnixNano": str(NOW - 10**8)}
    span = {"name": "execute_tool add", "spanId": f"c{number}", "attributes": same | attributes}
    return taken(spans(span | ends), "traces")


def answered(number: int, *call_ids: str) -> Batch:
    """A later request to the model, which reports these calls."""
    calls = [{"type": "tool_call", "id": one, "name": "add", "arguments": {"a": 1}} for one in call_ids]
    results = [
        {"type": "tool_call_response", "id": one, "result": {"error": f"lost {one}"}, "status": "error"}
        for one in call_ids
    ]
    messages = json.dumps([{"role": "assistant", "parts": calls}, {"role": "user", "parts": results}])
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": messages}
    return taken(spans({"name": "chat m", "spanId": f"d{number}", "attributes": attributes}), "traces")


KNOWN = ("c1", "lost c1", "c1")


@pytest.mark.parametrize(
    ("told", "expected"),
    [([["c1"]], [KNOWN, (None, None, "c2")]), ([["c1"], ["c1", "c2"]], [KNOWN, ("c2", "lost c2", "c2")])],
    ids=["the other's is not told", "both are told"],
)
def test_a_result_of_a_call_that_is_known_by_its_id_looks_for_no_other(
    told: list[list[str]], expected: list[tuple[Any, ...]]
) -> None:
    """Two equal calls at the same time, one span of which has no id, in whatever order they arrive."""
    batches = [called(1, {"gen_ai.tool.call.id": "c1"}), called(2, {})]
    batches += [answered(number, *call_ids) for number, call_ids in enumerate(told)]
    for order in itertools.permutations(batches):
        for rows in (stored(*([one] for one in order)), stored(order[:2], order[2:]), stored(order)):
            calls = [row for row in rows if row["operation"] == "tool"]
            found = [(row["call_id"], row["message"], row["span_id"][-2:]) for row in calls]
            assert sorted(found, key=lambda one: one[2]) == expected


def test_an_event_that_became_part_of_another_leads_to_it() -> None:
    store = Store.open("duckdb://:memory:")
    correlator = Correlator(Lookup(store), fresh=True)
    for batch in pair(0):
        changes = correlator.plan([batch])
        store.write(changes)
        correlator.learn(changes)
    [event_id] = [row["event_id"] for row in store.rows("select event_id from events")]
    units = {row["unit"]: row["event_id"] for row in store.rows("select unit, event_id from twins")}
    assert set(units.values()) == {event_id}
    assert {redirected(store, unit) for unit in units} == {None, event_id}
    store.prune(NOW + 2 * 86_400 * 10**9, 10**18)
    assert store.rows("select * from twins") == []
    store.close()


def test_the_log_record_of_a_failed_request_is_its_span() -> None:
    """OpenTelemetry's log event `gen_ai.client.operation.exception`, written inside the span of the request."""
    chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "error.type": "RateLimitError"}
    span = taken(spans({"name": "chat m", "attributes": chat, "status": 2, "status_message": "slow"}), "traces")
    said = {"exception.type": "openai.RateLimitError", "exception.message": "slow down"}
    inside = {"traceId": "a".rjust(32, "0"), "spanId": "1".rjust(16, "0")}
    record = taken(logs({"eventName": "gen_ai.client.operation.exception", "attributes": said, **inside}))
    for groups in ([span, record],), ([span], [record]), ([record], [span]):
        [event] = stored(*groups)
        assert (event["operation"], event["outcome"], event["message"]) == ("model", "error", "slow")


def chat(told: list[tuple[str, str, dict[str, Any], Any]], at_s: float, attributes: dict[str, Any]) -> dict[str, Any]:
    """The span of a request that tells results: call id, tool, arguments, result."""
    calls = [{"type": "tool_call", "id": one[0], "name": one[1], "arguments": one[2]} for one in told]
    results = [{"type": "tool_call_response", "id": one[0], "response": one[3]} for one in told]
    messages = json.dumps([{"role": "assistant", "parts": calls}, {"role": "tool", "parts": results}])
    asks = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.input.messages": messages}
    return {"name": "chat m", "spanId": f"d{at_s:.0f}", "attributes": asks | attributes, **during(at_s, 1)}


def during(at_s: float, took_s: float) -> dict[str, str]:
    start = NOW - 900 * 10**9 + round(at_s * 10**9)
    return {"startTimeUnixNano": str(start), "endTimeUnixNano": str(start + round(took_s * 10**9))}


def of_tools(batches: list[Batch]) -> list[tuple[Any, ...]]:
    """Tool, outcome and call id of the tool events, the same in each order."""
    found = set()
    for order in itertools.permutations(batches):
        for rows in (stored(*([copy.deepcopy(one)] for one in order)), stored(copy.deepcopy(order))):
            calls = [row for row in rows if row["operation"] == "tool"]
            found.add(tuple(sorted((row["tool"], row["outcome"], row["call_id"]) for row in calls)))
    [events] = found
    return list(events)


@pytest.mark.parametrize(("exported", "took_s"), [(True, 99), (False, 4)], ids=["with arguments", "without"])
def test_calls_of_one_turn_are_told_when_the_last_of_them_has_ended(exported: bool, took_s: int) -> None:
    """The first ended long before the request that tells its result."""
    named = {"gen_ai.operation.name": "execute_tool"}
    calls = []
    for number, tool in enumerate("ab"):
        arguments = {"gen_ai.tool.call.arguments": json.dumps({"x": number})} if exported else {}
        attributes = named | {"gen_ai.tool.name": tool} | arguments
        span = {"name": f"execute_tool {tool}", "spanId": f"c{number}", "attributes": attributes}
        calls.append(taken(spans(span | during(1 + (took_s + 1) * number, took_s)), "traces"))
    told = [("c1", "a", {"x": 0}, "fine"), ("c2", "b", {"x": 1}, {"error": "no such order"})]
    calls.append(taken(spans(chat(told, 2 + 2 * took_s + 1, {})), "traces"))
    assert of_tools(calls) == [("a", "ok", "c1"), ("b", "error", "c2")]


def test_what_was_told_is_of_no_call_that_ended_later() -> None:
    """The first of two equal calls never reached its tool, so that it has no span."""
    called = {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "a",
        "gen_ai.tool.call.arguments": '{"x": 1}',
    }  # fmt: skip
    refused = ("c1", "a", {"x": 1}, "Error: Unknown tool: a")
    batches = [
        taken(spans(chat([refused], 1, {})), "traces"),
        taken(spans({"name": "execute_tool a", "spanId": "c", "attributes": called, **during(5, 1)}), "traces"),
        taken(spans(chat([("c2", "a", {"x": 1}, "fine")], 9, {})), "traces"),
    ]
    assert of_tools(batches) == [("a", "error", "c1"), ("a", "ok", "c2")]


X = json.dumps({"x": 1})
LANGFUSE = {"tools": [], "messages": [
    {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "a", "arguments": X}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "Error: Unknown tool: a"},
]}  # fmt: skip
WITHOUT_IDS = [
    ("OpenLLMetry", "opentelemetry.instrumentation.openai.v1", {}, "traceloop.tracer",
     {"traceloop.span.kind": "tool", "traceloop.entity.name": "a", "traceloop.entity.input": '{"kwargs": {"x": 1}}'}),
    ("OpenLLMetry's workflow", "opentelemetry.instrumentation.openai.v1", {"traceloop.workflow.name": "w"},
     "traceloop.tracer",
     {"traceloop.span.kind": "tool", "traceloop.entity.name": "a", "traceloop.entity.input": '{"kwargs": {"x": 1}}'}),
    ("LangSmith", "langsmith",
     {"langsmith.span.kind": "llm", "gen_ai.prompt": json.dumps(LANGFUSE)}, "langsmith",
     {"langsmith.span.kind": "tool", "gen_ai.operation.name": "execute_tool", "gen_ai.prompt": X}),
    ("Langfuse", "langfuse-sdk",
     {"langfuse.observation.type": "generation", "langfuse.observation.input": json.dumps(LANGFUSE)}, "langfuse-sdk",
     {"langfuse.observation.type": "tool", "langfuse.observation.input": '{"args": [], "kwargs": {"x": 1}}'}),
]  # fmt: skip


@pytest.mark.parametrize("case", WITHOUT_IDS, ids=[case[0] for case in WITHOUT_IDS])
def test_a_tool_s_span_without_an_id_is_the_call_that_the_next_request_tells(case: tuple[Any, ...]) -> None:
    """Also where two tables know them, and where only refused calls make events of what is told."""
    _, client, asks, scope, attributes = case
    tool = {"name": "a", "spanId": "c", "status": 2, "status_message": "Unknown tool: a", "attributes": attributes}
    request = chat([("c1", "a", {"x": 1}, "Error: Unknown tool: a")], 9, asks)
    batches = [
        taken(spans(tool | during(1, 1), scope=scope), "traces"), taken(spans(request, scope=client), "traces"),
    ]  # fmt: skip
    assert of_tools(batches) == [("a", "error", "c1")]


def test_parallel_calls_without_arguments_are_told_what_they_say_themselves() -> None:
    """The first ended before the second, and failed, as its result says."""
    batches = [
        call_of("a", 1, 1, status=2, status_message="no such order"),
        call_of("a", 1, 1.5, spanId="c2"),
        taken(
            spans(chat([("c1", "a", {"x": 0}, {"error": "no such order"}), ("c2", "a", {"x": 1}, "fine")], 2.6, {})),
            "traces",
        ),
    ]
    assert [outcome for _, outcome, _ in of_tools(batches)] == ["error", "ok"]


def test_a_result_is_of_an_earlier_call_rather_than_of_its_repetition() -> None:
    """A parallel call delays the request that tells it, and the repetition begins soon after."""
    asked = {"gen_ai.tool.call.arguments": json.dumps({"x": 1})}
    told = [("c1", "a", {"x": 1}, {"error": "no such order"}), ("c9", "b", {"y": 1}, "fine")]
    batches = [
        call_of("a", 0, 1, asked),
        call_of("b", 0, 6, {"gen_ai.tool.call.arguments": json.dumps({"y": 1})}, spanId="c2"),
        taken(spans(chat(told, 6.1, {})), "traces"),
        call_of("a", 7, 0.1, asked, spanId="c3"),
    ]
    rows = [row for row in stored(batches) if row["tool"] == "a"]
    assert [(row["outcome"], row["span_id"][-2:]) for row in sorted(rows, key=lambda row: row["time_ns"])] == [
        ("error", "c1"), ("ok", "c3"),
    ]  # fmt: skip


def call_of(tool: str, at_s: float, took_s: float, more: dict[str, Any] | None = None, **fields: Any) -> Batch:
    """The span of a call without an id."""
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool, **(more or {})}
    span = {"name": f"execute_tool {tool}", "spanId": "c1", "attributes": attributes, **during(at_s, took_s)}
    return taken(spans(span | fields), "traces")
