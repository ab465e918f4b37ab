"""Records to reports: trimmed recordings of real agents against the truth, and what any telemetry may contain."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.correlate.fold import fold
from collector.correlate.gather import keys_of
from collector.correlate.twins import parts_of
from collector.decode.record import Record, Scope, SpanEvent
from collector.recognise.readers import as_params
from collector.recognise.recognise import Recognised, recognise
from collector.recognise.source_tables import load_sources
from collector.recognise.sources import Sources
from tests.doors import NOW, any_value, logs, only, pairs, stored, taken

TABLES = load_sources()
RECORDINGS = Path(__file__).parent / "data" / "sources"

# The calls of each recording: call id (or tool and number if there is none) → outcome. Everything else is noise.
TRUTH: dict[str, dict[str, str]] = {
    "codex": {"call_t01": "error", "call_t02": "error", "call_t03": "ok", "call_t08": "error"},
    "qwen-code": {"call_d01": "ok", "call_d02": "denied", "call_d03": "denied"},
    "opencode": {
        "call_t01": "error",
        "call_t02": "ok",
        "call_t07": "error",
        "call_t08": "error",
        "call_t09": "error",
        "call_t14": "error",
    },
    "fastmcp": {"read_file 1": "ok", "read_file 2": "error"},
    "pydantic-ai": {
        "call_s2_01": "ok",
        "call_s2_02": "error",
        "call_s2_03": "error",
        "call_s2_04": "error",
        "call_s2_07": "error",
        "call_s2_09": "error",
    },
    "vercel-ai": {
        "call_s2_01": "ok",
        "call_s2_02": "error",
        "call_s2_03": "error",
        "call_s2_04": "error",
        "call_s2_05": "error",
        "call_s2_06": "error",
        "call_s2_07": "error",
        "call_s2_08": "ok",
        "call_s2_09": "error",
        "call_s2_10": "ok",
        "call_s2_11": "error",
    },
    "openllmetry": {
        "call_s2_01": "ok",
        "call_s2_02": "error",
        "call_s2_04": "error",
        "call_s2_05": "error",
        "call_s2_06": "error",
    },
    "strands": {
        "call_s2_01": "ok",
        "call_s2_02": "error",
        "call_s2_03": "error",
        "call_s2_04": "error",
        "call_s2_05": "error",
        "call_s2_06": "error",
        "call_s2_07": "error",
        "call_s2_08": "ok",
        "call_s2_09": "error",
        "call_s2_10": "ok",
        "call_s2_11": "error",
    },
    "openai-agents": {"call_s2_01": "ok", "call_s2_02": "error", "call_s2_03": "error", "search_repo 1": "error"},
}


def recorded(source: str) -> list[Scope]:
    """The records of a recording, each with its own scope."""
    scopes = []
    for line in json.loads((RECORDINGS / f"{source}.json").read_text())["records"]:
        resource, scope, signal = line.pop("resource"), line.pop("scope"), line.pop("signal")
        events = [SpanEvent(one["name"], 0, one["attributes"]) for one in line.pop("events", ())]
        record = Record(signal, line.pop("name", ""), line.pop("attributes"), events=events, **line)
        scopes.append(Scope(resource, scope, "", [record]))
    return scopes


def events_of(requests: Iterable[list[Scope]], tables: Sources = TABLES) -> list[Any]:
    """The tool events that the reports of these requests fold into, as the correlator joins them."""
    groups: dict[int, list[Any]] = {}
    for position, request in enumerate(requests):
        for report in recognise(request, tables).reports:
            keys = keys_of(report) or [-position]
            joined: list[Any] = [{**report, "received_ns": 0, "params_hash": str(report.get("params"))}]
            for group in {id(groups[key]): groups[key] for key in keys if key in groups}.values():
                joined += group
            for key in {key for one in joined for key in keys_of(one)} | set(keys):
                groups[key] = joined
    units = dict(enumerate({id(group): group for group in groups.values()}.values()))
    folded = [fold([report for unit in part for report in units[unit]]) for part in parts_of(units)]
    return [event for event in folded if event.get("outcome") and event["operation"] == "tool"]


def outcomes(events: Iterable[dict[str, Any]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for event in sorted(events, key=lambda event: event["time_ns"]):
        name = event.get("call_id")
        if not name:
            name = next(name for number in range(1, 99) if (name := f"{event['tool']} {number}") not in found)
        assert name not in found, f"{name} twice"
        found[name] = event["outcome"]
    return found


@pytest.mark.parametrize("source", TRUTH)
def test_recording_tells_the_truth(source: str) -> None:
    assert outcomes(events_of([recorded(source)])) == TRUTH[source]


@pytest.mark.parametrize("source", TRUTH)
@pytest.mark.parametrize("seed", range(3))
def test_order_batches_and_repetition_change_nothing(source: str, seed: int) -> None:
    dice = random.Random(seed)
    scopes = recorded(source)
    scopes += dice.sample(scopes, len(scopes) // 2)
    dice.shuffle(scopes)
    cut = dice.randrange(len(scopes))
    assert outcomes(events_of([scopes[:cut], scopes[cut:]])) == TRUTH[source]


def test_every_recording_is_tested() -> None:
    without = {path.stem for path in RECORDINGS.glob("*.json") if "truth" not in json.loads(path.read_text())}
    assert without == TRUTH.keys()  # the others have it with them: test_recordings.py


def of(record: Record, *, service: str = "s", scope: str = "my.agent", **resource: Any) -> Recognised:
    return recognise([Scope({"service.name": service, **resource}, scope, "", [record])], TABLES)


def tool_span(**attributes: Any) -> Record:
    names = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "ls", **attributes}
    return Record("span", "execute_tool ls", names, trace_id="0a", span_id="0b", start_ns=NOW - 25_000_000, time_ns=NOW)


def test_report_of_a_span() -> None:
    record = tool_span(**{"gen_ai.tool.call.id": "c1", "team": "core", "user.email": "a@b.example", "note": "x" * 300})
    found = of(record, **{"service.version": "1", "service.instance.id": "i", "deployment.environment.name": "prod"})
    assert found.reports == [
        {
            "source": "gen-ai",
            "source_signal": "span",
            "service": "s",
            "service_version": "1",
            "service_instance": "i",
            "environment": "prod",
            "operation": "tool",
            "outcome": "ok",
            "tool": "ls",
            "call_id": "c1",
            "trace_id": "0a",
            "span_id": "0b",
            "time_ns": NOW,
            "duration_ms": 25.0,
            "attributes": {"team": "core"},
            "_rank": 30,
            "_strength": 10,
        }
    ]


def test_class_and_stack_below_a_message_are_told_from_it() -> None:
    text = "Card was declined\n\nPaymentDeclinedError: Card was declined\n    at charge (file:///a.mjs:16:30)"
    record = tool_span()
    record.status, record.events = 2, [SpanEvent("exception", 0, {"exception.message": text})]
    [report] = of(record).reports
    assert (report["message"], report["reported_class"]) == ("Card was declined", "PaymentDeclinedError")
    assert report["stack"].startswith("PaymentDeclinedError: Card was declined\n    at charge")


TRACERS = [
    "ai", "my-app", "lmnr.tracer", "langwatch", "langfuse-sdk", "genkit-tracer", "mcp", "langsmith",
    "openlit.x", "traceloop.tracer", "strands-x", "com.anthropic.sdk.typescript",
]  # fmt: skip


@pytest.mark.parametrize("scope", TRACERS)
def test_spans_of_the_ai_sdk_are_read_whatever_tracer_it_was_given(scope: str) -> None:
    own = {"ai.toolCall.name": "ls", "ai.toolCall.id": "c1", "lmnr.association.properties.session_id": "s"}
    call = Record("span", "ai.toolCall", {"ai.operationId": "ai.toolCall", **own}, trace_id="0a", status=2)
    [report] = of(call, scope=scope).reports
    assert (report["source"], report["tool"], report["outcome"]) == ("vercel-ai", "ls", "error")
    request = {"ai.operationId": "ai.generateText.doGenerate", "ai.model.id": "m"}
    assert of(Record("span", "chat m", request), scope=scope).reports[0]["operation"] == "model"
    assert not of(Record("span", "chat m", {**request, "ai.operationId": "ai.generateText"}), scope=scope).reports


@pytest.mark.parametrize("scope", ["@mastra/core", "@voltagent/core"])
def test_frameworks_that_tell_the_ai_sdks_calls_themselves_are_not_doubled(scope: str) -> None:
    call = {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "ls", "ai.toolCall.id": "c1"}
    assert not of(Record("span", "ai.toolCall", call, trace_id="0a"), scope=scope).reports


def test_a_product_reads_spans_of_the_ai_sdk_by_its_own_table() -> None:
    call = Record("span", "ai.toolCall", {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "ls"})
    assert [one["source"] for one in of(call, service="opencode", scope="ai").reports] == ["opencode"]


SAID = ("my.agent.prompt", "system_prompt", "llm.prompts", "tool/args", "x:input.value", "Output.text", "content")


@pytest.mark.parametrize("name", SAID)
def test_what_was_said_is_not_kept_under_names_that_no_table_knows(name: str) -> None:
    assert "attributes" not in of(tool_span(**{name: "what is the password of the safe?"})).reports[0]


@pytest.mark.parametrize("name", ["prompt.version", "input_tokens", "output_format", "outputs.count", "promptness"])
def test_names_that_only_speak_of_it_are_kept(name: str) -> None:
    assert of(tool_span(**{name: "v2"})).reports[0]["attributes"] == {name: "v2"}


def test_log_record_lies_in_a_span_and_is_not_it() -> None:
    record = Record(
        "log", "", {"event.name": "codex.tool_result", "call_id": "c"}, trace_id="0a", span_id="0b", time_ns=5
    )
    report = of(record, scope="codex_otel.log_only").reports[0]
    assert (report["trace_id"], report["parent_span_id"]) == ("0a", "0b")
    assert "span_id" not in report


TIMES = [
    ({}, 7, 9, 7),
    ({"event.timestamp": "2026-11-21T20:16:12.631Z"}, 0, 9, 1_795_292_172_631_000_000),
    ({"event.timestamp": "2026-11-21T20:16:12.631"}, 0, 9, 1_795_292_172_631_000_000),
    ({"event.timestamp": 1_795_292_172_631}, 0, 9, 1_795_292_172_631_000_000),
    ({"event.timestamp": "yesterday"}, 0, 9, 9),
    ({}, 0, 9, 9),
]


@pytest.mark.parametrize(
    ("time_ns", "observed_ns", "wanted"),
    [
        (NOW - 9, NOW - 5, NOW - 9),
        (5, NOW - 5, NOW - 5),
        (NOW + 2 * 10**13, NOW - 5, NOW - 5),
        (5, 6, NOW),
        (5, 0, NOW),
    ],
)
def test_a_time_that_cannot_be_is_that_of_the_observer_or_of_the_arrival(
    time_ns: int, observed_ns: int, wanted: int
) -> None:
    attributes = {"event.name": "gemini_cli.tool_call", "function_name": "read", "success": True}
    told = {"timeUnixNano": str(time_ns), "observedTimeUnixNano": str(observed_ns), "attributes": attributes}
    assert only(taken(logs(told, service="gemini-cli")))["time_ns"] == wanted


@pytest.mark.parametrize(("attributes", "time_ns", "observed_ns", "expected"), TIMES)
def test_zero_time_falls_back(attributes: dict[str, Any], time_ns: int, observed_ns: int, expected: int) -> None:
    names = {"event.name": "codex.tool_result", "call_id": "c", **attributes}
    record = Record("log", "", names, time_ns=time_ns, observed_ns=observed_ns)
    assert of(record, scope="codex_otel.log_only").reports[0]["time_ns"] == expected


ABSENT: list[Any] = [None, "", "null", "undefined", [], {}]


@pytest.mark.parametrize("value", ABSENT)
def test_empty_values_say_nothing(value: Any) -> None:
    report = of(
        tool_span(**{"error.type": value, "gen_ai.conversation.id": value, "gen_ai.tool.call.id": value})
    ).reports[0]
    assert report["outcome"] == "ok"
    assert not {"session", "call_id", "reported_class"} & report.keys()


EVENT_NAMES = [
    Record("log", "", {"event.name": "gemini_cli.loop_detected"}),
    Record("log", "", {"event.name": "loop_detected"}),
    Record("log", "loop_detected", {}),
    Record("log", "", {}, body="loop_detected: chanting"),
    Record("log", "event otel/src/events.rs:703", {"event.name": "loop_detected"}),
]


@pytest.mark.parametrize("record", EVENT_NAMES)
def test_event_name_stands_in_different_places(record: Record) -> None:
    report = of(record, service="gemini-cli", scope="gemini-cli").reports[0]
    assert (report["operation"], report["reported_class"]) == ("agent", "loop_detected")


def test_log_that_was_sent_as_a_span() -> None:
    names = {"log.bridge": True, "event.name": "qwen-code.tool_call", "call_id": "c", "success": False, "error": "no"}
    record = Record("span", "Tool call: edit.", names, trace_id="0a", span_id="0b", time_ns=5)
    report = of(record, service="qwen-code", scope="qwen-code").reports[0]
    assert (report["outcome"], report["call_id"], report["source_signal"]) == ("error", "c", "log")
    assert "span_id" not in report


@pytest.mark.parametrize(
    ("tool", "output", "kind"),
    [
        ("run_command", "a.py", "command"),
        ("Bash", {"exit_code": 2}, "command"),
        ("bash_tool", None, "command"),
        ("python", {"exit_code": 0}, "command"),
        ("python", {"exit_code": 1}, "command"),
        ("execute_python", None, "command"),
        ("code_interpreter", None, "command"),
        ("code", None, None),
        ("browser_click", None, "browser"),
        ("command_history", None, None),
        ("shelf", "x", None),
    ],
)
def test_kind_of_a_tool_is_the_same_for_calls_that_fail_and_that_do_not(
    tool: str, output: Any, kind: str | None
) -> None:
    (report,) = of(tool_span(**{"gen_ai.tool.name": tool, "gen_ai.tool.call.result": output})).reports
    assert report.get("tool_kind") == kind


def test_session_of_the_resource_and_of_the_record() -> None:
    names = {"event.name": "gemini_cli.tool_call", "function_name": "ls", "success": True}
    told = [
        of(Record("log", "", {**names, **own}, time_ns=5), scope="gemini-cli", **{"session.id": "r"}).reports[0]
        for own in ({}, {"session.id": "a"})
    ]
    assert [(one["session"], one["session_source"]) for one in told] == [("r", "resource"), ("a", "record")]


def test_parent_span_brings_the_session() -> None:
    """That which began first, if several do."""
    began = {"inner": NOW, "outer": NOW - 1, "unknown": 0, "wrong": 1, "later": NOW + 1, "never": 2**64}
    names = {"gen_ai.operation.name": "invoke_agent"}
    for told in (list(began), list(reversed(began))):
        records = [Record("span", "", {**names, "session.id": one}, trace_id="0a", start_ns=began[one]) for one in told]
        found = recognise([Scope({}, "my.agent", "", records)], TABLES)
        assert found.links == {"0a": (NOW - 1, "outer")}
        assert not found.reports


def test_failed_model_request() -> None:
    record = Record(
        "span",
        "chat m",
        {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": "12"},
        status=2,
        events=[
            SpanEvent("exception", 0, {"exception.type": "RateLimitError", "exception.message": "status_code: 429"})
        ],
    )
    report = of(record).reports[0]
    expected = {"operation": "model", "outcome": "error", "status_code": 429, "model": "m", "input_tokens": 12}
    assert {name: report.get(name) for name in expected} == expected


def mcp(kind: int, span: str, parent: str, name: str = "tools/call read", **fields: Any) -> Scope:
    names = {"mcp.method.name": "tools/call", "gen_ai.tool.name": "read", **fields.pop("attributes", {})}
    record = Record(
        "span", name, names, trace_id="0a", span_id=span, parent_span_id=parent, kind=kind, time_ns=5, **fields
    )
    return Scope({"service.name": "server" if kind == 2 else "agent"}, "fastmcp", "", [record])


def test_client_transport_and_server_span_are_one_call() -> None:
    spans = [
        mcp(3, "01", "00"),
        mcp(3, "02", "01", "MCP send tools/call read"),
        mcp(2, "03", "02", status=2, status_message="boom", attributes={"fastmcp.server.name": "files"}),
    ]
    for order in (spans, spans[::-1], [spans[1], spans[2], spans[0]]):
        (event,) = events_of([[one] for one in order])
        assert (event["service"], event["outcome"], event["mcp_server"]) == ("agent", "error", "files")


def test_calls_below_one_span_stay_apart() -> None:
    spans = [mcp(3, "01", "00"), mcp(3, "02", "00"), mcp(3, "03", "00")]
    assert len(events_of([spans])) == 3


def shell_log(number: int) -> Scope:
    names = {
        "event.name": "gemini_cli.tool_call",
        "function_name": "run_shell_command",
        "function_args": json.dumps({"command": f"run {number}"}),
        "success": True,
        "session.id": "s",
    }
    record = Record("log", "", names, trace_id="0a", span_id="0c", time_ns=1_000_000 + number)
    return Scope({"service.name": "gemini-cli"}, "gemini-cli", "", [record])


def test_record_that_comes_again_in_another_batch_is_the_same_event() -> None:
    assert len(events_of([[shell_log(1), shell_log(2)], [shell_log(2)], [shell_log(3)]])) == 3


def test_drops_are_counted_by_reason() -> None:
    records = [Record("span", "GET /", {}), Record("span", "execute_tool (merged tools)", {"gen_ai.tool.name": "x"})]
    found = recognise([Scope({}, "x", "", records)], TABLES)
    assert found.dropped == {"no_event": 1, "duplicate_twin": 1}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.binary(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
WRITTEN = (VALUES | st.dictionaries(st.integers() | st.booleans() | st.text(max_size=6), VALUES, max_size=3)).map(repr)
KNOWN = sorted(
    {key for source in TABLES.sources for row in source.rows for key in row.reading().uses}
    | {"event.name", "log.bridge"}
)
FLATTENED = st.builds(
    "{}.{}.message.{}".format,
    st.sampled_from(["llm.input_messages", "llm.output_messages", "gen_ai.prompt", "gen_ai.completion"]),
    st.sampled_from(["0", "1", "01", "²", "٣", "-1", "9" * 5_000]),
    st.sampled_from(
        ["role", "content", "tool_call_id", "tool_calls.0.tool_call.id", "tool_calls.².id", "contents.٣.x"]
    ),
)
NAMES = [
    ("codex_exec", "codex_otel.log_only", "codex.tool_result"),
    ("gemini-cli", "gemini-cli", "tool_call"),
    ("qwen-code", "qwen-code", "qwen-code.tool"),
    ("opencode", "opencode", "ai.toolCall"),
    ("x", "openinference.instrumentation.openai_agents", "response"),
    ("x", "openinference.instrumentation.langchain", "ChatOpenAI"),
    ("x", "opentelemetry.instrumentation.langchain", "ChatOpenAI.chat"),
    ("x", "x", "execute_tool x"),
    ("x", "x", "chat"),
]


@given(
    st.sampled_from(NAMES),
    st.sampled_from(["log", "span", "event"]),
    st.dictionaries(st.sampled_from(KNOWN) | FLATTENED, VALUES | WRITTEN, max_size=12),
    VALUES | WRITTEN,
)
def test_no_attribute_raises(place: tuple[str, str, str], signal: str, attributes: dict[str, Any], body: Any) -> None:
    service, scope, name = place
    events = (
        [SpanEvent("exception", 0, attributes), SpanEvent("gen_ai.tool.message", 0, attributes)]
        if signal == "span"
        else []
    )
    record = Record(
        signal, name, attributes, body=body if signal == "log" else None, events=events, trace_id="0a", status=2
    )
    found = recognise([Scope({"service.name": service, **attributes}, scope, "", [record])], TABLES)
    assert all(report["operation"] in ("tool", "model", "agent") for report in found.reports)


@pytest.mark.parametrize(
    ("sent", "params"),
    [
        ('{"args": [], "kwargs": {"path": "/a"}}', {"path": "/a"}),
        ('{"args": [], "sanitize_inputs_outputs": false, "kwargs": {}}', {}),
        ('{"args": ["/a"], "kwargs": {"limit": 2}}', {"args": ["/a"], "limit": 2}),
        ('{"kwargs": {"path": "/a"}}', {"path": "/a"}),
        ('{"kwargs": {"path": "/a"}, "path": "/b"}', {"kwargs": {"path": "/a"}, "path": "/b"}),
        ('{"args": "-l", "kwargs": {}}', {"args": "-l", "kwargs": {}}),
    ],
)
def test_arguments_come_out_of_what_python_wraps_them_in(sent: str, params: object) -> None:
    assert as_params(sent) == params


def told_without_an_id(resource: dict[str, Any], body: Any = None) -> bytes:
    """A log of a failed model request whose time is of whole seconds, as file tailers write it."""
    log = {
        "timeUnixNano": str(NOW // 10**9 * 10**9),
        "attributes": pairs({"event.name": "api_error", "error": "429 rate limited", "model": "m"}),
        "body": any_value(body),
    }
    scope = {"name": "com.anthropic.claude_code.events"}
    group = {"resource": {"attributes": pairs(resource)}, "scopeLogs": [{"scope": scope, "logRecords": [log]}]}
    return json.dumps({"resourceLogs": [group]}).encode()


@pytest.mark.parametrize("name", ["service.name", "service.instance.id", "session.id"])
def test_equal_records_of_different_senders_are_different_calls(name: str) -> None:
    senders = [{"service.name": "claude-code"} | {name: f"{number}"} for number in range(3)]
    assert len(stored(*([taken(told_without_an_id(one))] for one in senders))) == 3
    marked = [one | {"k8s.node.name": "n"} for one in senders]  # a collector on the way adds such
    assert len(stored(*([taken(told_without_an_id(one))] for one in [*senders, *marked]))) == 3


def test_records_that_differ_in_their_body_alone_are_different_calls() -> None:
    service = {"service.name": "roo-code"}
    texts = ["No sufficiently similar match found", "Search and replace content are identical"]
    bodies = [told_without_an_id(service, text) for text in [*texts, texts[0]]]
    assert len(stored(*([taken(body)] for body in bodies))) == 2
