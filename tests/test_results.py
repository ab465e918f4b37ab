"""Tool results found in the messages of later model requests, in every dialect."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.decode.record import Record, Scope, SpanEvent
from collector.recognise import messages
from collector.recognise.messages import unflattened
from collector.recognise.readings import Rules
from collector.recognise.recognise import Recognised, recognise
from collector.recognise.results import calls_in, tool_results
from collector.recognise.source_tables import load_sources

TABLES = load_sources()
PLAIN = Rules()
GEMINI = Rules(exit_header=(re.compile(r"^Exit Code: (-?\d+)", re.M),))
ARGS = {"path": "/a"}


def ai_sdk(output: dict[str, Any]) -> list[dict[str, Any]]:
    """Messages of the AI SDK about the call c1, which returned `output`."""
    call = {"type": "tool-call", "toolCallId": "c1", "toolName": "read", "input": ARGS}
    result = {"type": "tool-result", "toolCallId": "c1", "toolName": "read", "output": output}
    return [{"role": "assistant", "content": [call]}, {"role": "tool", "content": [result]}]


# Each dialect reports one call c1 of `read` with ARGS that failed with "boom".
DIALECTS: dict[str, Any] = {
    "OTel parts": [
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "read", "arguments": ARGS}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": {"error": "boom"}}]},
    ],
    "AI SDK": ai_sdk({"type": "error-text", "value": "boom"}),
    "Genkit": [
        {"role": "model", "content": [{"toolRequest": {"name": "read", "ref": "c1", "input": ARGS}}]},
        {"role": "tool", "content": [{"toolResponse": {"name": "read", "ref": "c1", "output": {"error": "boom"}}}]},
    ],
    "Haystack": [
        {"role": "assistant", "content": [{"tool_call": {"tool_name": "read", "arguments": ARGS, "id": "c1"}}]},
        {
            "role": "tool",
            "content": [
                {
                    "tool_call_result": {
                        "result": "boom",
                        "origin": {"tool_name": "read", "arguments": ARGS, "id": "c1"},
                        "error": True,
                    }
                }
            ],
        },
    ],
    "AutoGen": [
        {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "read", "arguments": ARGS}}]},
        {"role": "function", "function": ['{"name": "read", "content": "boom", "call_id": "c1", "is_error": true}']},
    ],
    "VoltAgent": ai_sdk({"type": "json", "value": {"type": "error-text", "value": "boom"}}),
    "LiteLLM": [
        {
            "role": "assistant",
            "parts": [],
            "tool_calls": [{"id": "c1", "function": {"name": "read", "arguments": ARGS}}],
        },
        {"role": "tool", "tool_call_id": "c1", "parts": [{"type": "text", "content": '{"error": "boom"}'}]},
    ],
    "Google's client, whose results have ids of their own": [
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "read", "arguments": ARGS}]},
        {"role": "user", "parts": [{"type": "tool_call_response", "id": "read_0", "response": {"error": "boom"}}]},
    ],
    "Anthropic": [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "read", "input": ARGS}]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "boom", "is_error": True}],
        },
    ],
    "OpenAI chat": [
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "read", "arguments": json.dumps(ARGS)}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": '{"error": "boom"}'},
    ],
    "OpenAI responses": [
        {"type": "function_call", "call_id": "c1", "name": "read", "arguments": json.dumps(ARGS)},
        {"type": "function_call_output", "call_id": "c1", "output": '{"error": "boom"}'},
    ],
    "Gemini": [
        {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "read", "args": ARGS}}]},
        {
            "role": "user",
            "parts": [{"functionResponse": {"id": "read__c1", "name": "read", "response": {"error": "boom"}}}],
        },
    ],
    "Strands": [
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c1", "name": "read", "input": ARGS}}]},
        {
            "role": "user",
            "content": [{"toolResult": {"toolUseId": "c1", "status": "error", "content": [{"text": "boom"}]}}],
        },
    ],
    "LangChain": [
        {"lc": 1, "type": "constructor", "kwargs": {"tool_calls": [{"id": "c1", "name": "read", "args": ARGS}]}},
        {
            "lc": 1,
            "type": "constructor",
            "kwargs": {"type": "tool", "tool_call_id": "c1", "name": "read", "content": "boom", "status": "error"},
        },
    ],
    "flattened": unflattened(
        {
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.1.message.tool_calls.0.tool_call.id": "c1",
            "llm.input_messages.1.message.tool_calls.0.tool_call.function.name": "read",
            "llm.input_messages.1.message.tool_calls.0.tool_call.function.arguments": json.dumps(ARGS),
            "llm.input_messages.10.message.role": "tool",
            "llm.input_messages.10.message.tool_call_id": "c1",
            "llm.input_messages.10.message.content": '{"error": "boom"}',
        },
        "llm.input_messages",
    ),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("sent_as", ["text", "value"])
def test_dialect(dialect: str, sent_as: str) -> None:
    messages = DIALECTS[dialect]
    told = tool_results(json.dumps(messages) if sent_as == "text" else messages, PLAIN)
    assert [(one.call_id, one.tool, one.params, one.outcome, one.text) for one in told] == [
        ("c1", "read", ARGS, "error", "boom")
    ]
    assert calls_in(messages) == [("c1", "read", ARGS)]


def test_of_calls_with_one_id_a_result_is_of_the_one_before_it() -> None:
    messages = [
        message
        for args in (ARGS, {"path": "y"})
        for message in (
            {"role": "assistant", "parts": [{"type": "tool_call", "id": "call_0", "name": "read", "arguments": args}]},
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_0", "response": "boom"}]},
        )
    ]
    assert [one.params for one in tool_results(messages, PLAIN)] == [ARGS, {"path": "y"}]


def result(value: Any, **marks: Any) -> list[dict[str, Any]]:
    return [{"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": value, **marks}]}]


RESULTS: list[tuple[Any, str, bool]] = [
    ("all fine", "ok", False),
    ("Error: in a text that was read", "error", False),  # weak, see the next test
    ({"output": "fine"}, "ok", False),
    ("ERROR 2026-01-01 app: Traceback in a log that was read", "ok", False),
    ("[Errno 13] Permission denied: '/etc/app.conf'", "error", False),
    ("Client error '404 Not Found' for url 'https://api.test/x'", "error", False),
    ("read() missing 1 required positional argument: 'path'", "error", False),
    ("Errno values are listed in errno.h", "ok", False),
    ("Unknown tool name: 'x'. Available tools: read", "error", True),
    ("Model tried to call unavailable tool 'x'. Available tools: read.", "error", True),
    ("Error: x is not a valid tool, try one of [read].", "error", True),
    ("Invalid input for tool run: JSON parsing failed: Text: {", "error", True),
    ("MCP error -32602: Tool read not found", "error", True),
    ("Could not find tool 'x'", "error", True),
    ("Error: The requested tool does not exist or is not available.", "error", True),
    ("The tool call arguments are malformed. Arguments must be in JSON format.", "error", True),
    ("Received invalid arguments for function add: Function Call arguments are not valid JSON", "error", True),
    ("The tool call with name `x` is not part of the provided tools, please try again", "error", True),
    (
        "Error invoking tool 'read' with kwargs {} with error: Received tool input did not match expected schema",
        "error",
        True,
    ),
    ("Error: could not parse arguments as JSON: Unexpected end of JSON input", "error", True),
    ("Error: the config has invalid json in line 3", "error", False),  # so a tool that ran said
    ("2 validation errors: [...]\n\nFix the errors and try again.", "error", False),
    ("Invalid arguments: city must be a string", "error", False),
    ("Your request was cancelled by the user.", "cancelled", False),
    ("Tool call run with id c1 could not be executed - arguments were malformed or truncated.", "error", True),
    (
        "Error invoking tool 'run' with kwargs {} with error:\n command: Field required\n Please fix the error",
        "error",
        False,
    ),
    ([{"type": "missing", "loc": ["command"], "msg": "Field required", "input": {}}], "error", False),
    ({"error": "[Operation Cancelled] User cancelled tool execution."}, "cancelled", False),
    ({"error": "exec command rejected by user"}, "denied", True),
    ({"denied": True, "reason": "not on my machine"}, "denied", True),
    ({"output": "bash: x: command not found\nExit Code: 127"}, "error", False),
    ({"output": "1\nExit Code: 0"}, "ok", False),
]


@pytest.mark.parametrize(("value", "outcome", "refused"), RESULTS)
def test_result(value: Any, outcome: str, refused: bool) -> None:
    told = tool_results(result(value), GEMINI)
    assert [(one.outcome, one.refused) for one in told] == [(outcome, refused)]


def test_what_an_agent_appends_for_the_model_is_no_part_of_the_error() -> None:
    """Its numbers would make another group of each error."""
    text = (
        "File does not exist.\n\n<system-reminder>\n<total_tokens>1234 tokens left</total_tokens>\n</system-reminder>"
    )
    [one] = tool_results([{"role": "tool", "tool_call_id": "c1", "content": text, "is_error": True}], PLAIN)
    assert (one.outcome, one.text) == ("error", "File does not exist.")


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("Tool call run with id c1 could not be executed - arguments were malformed or truncated.", "run"),
        ("Unknown tool: search_repo", "search_repo"),
        ("Unknown tool name: 'search'. Available tools: read", "search"),
        ("Error: search is not a valid tool, try one of [read].", "search"),
        ('Tool "files.read" not found', "files.read"),
        ("Unknown tool: files.read", "files.read"),
        ("Unknown tool: files.read. Available tools: read", "files.read"),
        ("<tool_use_error>Error: No such tool available: SearchRepo</tool_use_error>", "SearchRepo"),
        (
            "<tool_use_error>Error: No such tool available: Glob. Glob is not available</tool_use_error>",
            "Glob",
        ),
        (
            "<tool_use_error>InputValidationError: Read failed due to the following issue:\nThe required parameter",
            "Read",
        ),
        ("this tool does not exist", ""),
    ],
)
def test_a_refusal_names_its_tool(text: str, tool: str) -> None:
    assert [one.tool for one in tool_results(result(text), PLAIN)] == [tool]


FAILED = [
    "Error: no such file",
    "Error. Try again.",
    "Failed.",
    "Error executing tool read: no such file",
    "Error processing request: the server is down",
    "Error code: 404 - not found",
    "ERROR 1045 (28000): Access denied",
    "error[E0432]: unresolved import `x`",
    "ERROR - no such table",
    "Error in line 3",
    "Exception in thread main",
    "Exception occurred while reading",
    "Failure: disk is full",
    "Failure to connect",
    "Failed to open /a",
    "Failed connecting to the database",
    "FAILED (errors=1)",
    "failed",
    "ValueError: no",
    "Input validation error: 'city' is a required property",
    "Command failed with exit code 1",
    "Exit code 127\n/bin/sh: foo: command not found",
    "exit code: 1\nstderr: boom",
    "bash: line 1: foo: command not found",
    "/bin/sh: 1: foo: not found",
    "fatal: not a git repository",
    "Tool execution failed: boom",
    "Request failed with status code 404",
    "HTTP 500: Internal Server Error",
    "Operation timed out",
    "Timed out after 30s",
    "Timeout: no response after 30 seconds",
    "ENOENT: no such file or directory, open '/a'",
    "File not found: /a",
    "Permission denied",
    "Unable to read file: it is locked",
    "Unterminated string starting at: line 1 column 10 (char 9)",
    "Expecting ',' delimiter: line 2 column 3 (char 40)",
    "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
    "Invalid \\escape: line 1 column 4 (char 3)",
    "Cannot open /a: No such file or directory",
    "<error>boom</error>",
]
TELLING_OF_ERRORS = [
    "Error rate for last week: 0.2 %",
    "Error rate was 2 % last week, down from 3 %.",
    "Error handling in Go is explicit.",
    "# Error handling\n\nRaise ValueError for bad input.",
    "Error messages are in errors.json",
    "Error codes: 1 usage, 2 not found",
    "ERROR 2026-01-01 app started",
    "Failed logins: 3 in the last hour, all from one address.",
    "Failed jobs: none",
    "Failure modes: the disk is full, the network is down",
    "Exception handling in Python is done with try and except.",
    "error.log\napp.log\naccess.log",
    "exception.md",
    "failed.txt",
    "Error.prototype.toString = function () {}",
    "Errors are values.",
    "Exceptional weather today",
    # code, logs, pages and mails that a tool found
    'def parse(s):\n    """Raises ValueError on invalid JSON."""\n    return json.loads(s)\n',
    "# CHANGELOG\n\n- fix: unknown tool names are reported\n- missing required parameter shows a hint\n",
    "- fix: unknown tool names are reported",
    "src/a.py:12: raise ToolError('no such tool')\nsrc/b.py:3: # unsupported call\n",
    "1. How to fix 'Field required' validation error for Model in pydantic - StackOverflow",
    "Your request was cancelled by the user John on Friday.",
    "Minutes of the meeting\n\nThe user declined to run this tool.",
    "timeout: 30\nretries: 2\n",
    "exit code 0",
    "Permission denied errors and how to solve them",
    "Access denied by policy appears when a user lacks permission.",
    "404 Not Found\n\nThe HTTP 404 status code means ...",
    "file: not found in the index are 3 of 9",
    "Cannot be combined with other offers.",
    "Expecting value: a novel by A. Writer",
    "Extra data: line 3 column 1 (char 40)\nFound in 2 of 9 files, which were mended.",
    "config.json: Expecting value: line 1 column 1 (char 0)",
    "Unterminated string starting at: line 1 of the poem",
]


@pytest.mark.parametrize("text", FAILED)
def test_a_text_that_begins_as_an_error_is_one(text: str) -> None:
    assert [one.outcome for one in tool_results(result(text), PLAIN)] == ["error"]


@pytest.mark.parametrize("text", TELLING_OF_ERRORS)
def test_a_text_about_errors_is_a_result(text: str) -> None:
    assert [one.outcome for one in tool_results(result(text), PLAIN)] == ["ok"]


def test_withheld_content_tells_nothing() -> None:
    assert tool_results([{"role": "tool", "tool_call_id": "c1"}], PLAIN) == []
    assert [one.outcome for one in tool_results(result("", status="error"), PLAIN)] == ["error"]


def test_words_alone_never_beat_what_the_call_itself_reports() -> None:
    strengths = {
        value if isinstance(value, str) else "": tool_results(result(value), PLAIN)[0].strength
        for value, _, _ in RESULTS[:3]
    }
    assert max(strengths.values()) < 10
    assert tool_results(result("boom", status="error"), PLAIN)[0].strength == 40


def test_only_the_last_exchange_is_fresh() -> None:
    messages = [*DIALECTS["OTel parts"], *json.loads(json.dumps(DIALECTS["OTel parts"]).replace("c1", "c2"))]
    assert [(one.call_id, one.fresh) for one in tool_results(messages, PLAIN)] == [("c1", False), ("c2", True)]


@pytest.mark.parametrize("before", ["[", '{"model": "m", "messages": [', '{"messages":['])
@pytest.mark.parametrize("end", ['{"role": "assistant", "content": [{"te[TRUNCATED]', '{"ro…', "[TRUNCATED", ""])
def test_of_messages_that_were_cut_the_whole_ones_are_read(before: str, end: str) -> None:
    whole = ", ".join(map(json.dumps, DIALECTS["OTel parts"]))
    found = tool_results(f"{before}{whole}, {end}", PLAIN)
    assert [(one.call_id, one.tool, one.outcome) for one in found] == [("c1", "read", "error")]


def test_text_without_results_is_not_parsed() -> None:
    assert tool_results('[{"role": "user", "parts": [' + "x" * 100, PLAIN) == []


def told_by(record: Record, scope: str = "my.agent") -> Recognised:
    return recognise([Scope({"service.name": "s"}, scope, "", [record])], TABLES)


def chat(**fields: Any) -> Record:
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.conversation.id": "s1", **fields.pop("attributes", {})}
    return Record("span", "chat m", attributes, trace_id="0a", span_id="0b", start_ns=100, time_ns=200, **fields)


def test_call_without_a_span_becomes_a_report() -> None:
    messages = [
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "search", "arguments": '{"q": 1}'}]},
        {
            "role": "user",
            "parts": [{"type": "tool_call_response", "id": "c1", "result": "Unknown tool name: 'search'"}],
        },
    ]
    found = told_by(chat(attributes={"gen_ai.input.messages": json.dumps(messages)}))
    model, tool = found.reports
    assert model["operation"] == "model"
    assert {
        name: tool[name]
        for name in ("operation", "outcome", "tool", "call_id", "session", "trace_id", "params", "time_ns")
    } == {
        "operation": "tool",
        "outcome": "error",
        "tool": "search",
        "call_id": "c1",
        "session": "s1",
        "trace_id": "0a",
        "params": {"q": 1},
        "time_ns": 100,
    }
    assert "span_id" not in tool  # that is the model's
    assert "_lends" not in tool


def test_span_events_of_the_old_conventions() -> None:
    events = [
        SpanEvent(
            "gen_ai.assistant.message",
            0,
            {"tool_calls": '[{"id": "c1", "function": {"name": "ls", "arguments": "{}"}}]'},
        ),
        SpanEvent("gen_ai.tool.message", 0, {"id": "c1", "content": '{"error": "boom"}'}),
    ]
    tool = told_by(chat(events=events)).reports[1]
    assert (tool["call_id"], tool["outcome"], tool["message"]) == ("c1", "error", "boom")


def test_span_events_with_all_messages_in_one() -> None:
    """As Langtrace sends them: the model's own messages without its calls, which are in the answer before."""
    calls = [
        {"id": call_id, "type": "function", "function": {"name": "ls", "arguments": json.dumps({"in": call_id})}}
        for call_id in ("c1", "c2")
    ]
    results = [
        {"role": "tool", "tool_call_id": "c1", "content": '{"error": "boom"}'},
        {"role": "tool", "tool_call_id": "c2", "content": "fine"},
    ]
    messages = [{"role": "user", "content": "go"}, [{"id": "", "type": ""}] * 2, *results]
    answer = [{"role": "assistant", "content": calls}]

    def found(name: str, said: Any) -> list[Any]:
        event = SpanEvent(f"gen_ai.content.{name}", 0, {f"gen_ai.{name}": json.dumps(said)})
        record = Record("span", "chat m", {"gen_ai.operation.name": "chat"}, trace_id="0a", events=[event])
        return [one for one in told_by(record).reports if one["operation"] == "tool"]

    asked, told = found("completion", answer), found("prompt", messages)
    assert [(one["call_id"], one["tool"], one["params"]) for one in asked] == [
        ("c1", "ls", {"in": "c1"}),
        ("c2", "ls", {"in": "c2"}),
    ]
    assert [(one["call_id"], one["outcome"], "_lends" in one) for one in told] == [
        ("c1", "error", False),
        ("c2", "ok", False),
    ]


def test_log_record_of_the_old_conventions() -> None:
    record = Record(
        "log", "gen_ai.tool.message", {}, body={"id": "c1", "content": '{"error": "boom"}'}, trace_id="0a", time_ns=5
    )
    tool = told_by(record).reports[0]
    assert (tool["call_id"], tool["outcome"], tool["trace_id"]) == ("c1", "error", "0a")


def test_gemini_tells_the_exit_code_only_to_the_model() -> None:
    history = [
        {
            "role": "model",
            "parts": [{"functionCall": {"id": "c1", "name": "run_shell_command", "args": {"command": "x"}}}],
        },
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "id": "run_shell_command__c1",
                        "name": "run_shell_command",
                        "response": {
                            "output": "Output: bash: x: command not found\nExit Code: 127\nProcess Group PGID: 7"
                        },
                    }
                }
            ],
        },
    ]
    attributes = {"event.name": "gemini_cli.api_request", "session.id": "s1", "request_text": json.dumps(history)}
    found = told_by(Record("log", "", attributes, time_ns=5), "gemini-cli")
    (tool,) = found.reports
    assert (tool["call_id"], tool["outcome"], tool["_strength"], tool["_lends"]) == ("c1", "error", 40, True)
    assert tool["_shape"] == ("exit_code", "exit:127")


def test_repeated_history_counts_once_and_what_is_stored_needs_no_second_report() -> None:
    record = chat(attributes={"gen_ai.input.messages": json.dumps(DIALECTS["OTel parts"])})
    later = chat(attributes={"gen_ai.input.messages": json.dumps(DIALECTS["OTel parts"])})
    later.start_ns = 900
    first = recognise([Scope({}, "x", "", [later, record])], TABLES)
    tools = [report for report in first.reports if report["operation"] == "tool"]
    assert [tool["time_ns"] for tool in tools] == [100]
    again = recognise([Scope({}, "x", "", [later])], TABLES, first.told_ns.get)
    assert [report["operation"] for report in again.reports] == ["model"]
    alone = recognise([Scope({}, "x", "", [later])], TABLES)
    earlier = recognise([Scope({}, "x", "", [record])], TABLES, alone.told_ns.get)
    assert [report["time_ns"] for report in earlier.reports if report["operation"] == "tool"] == [100]


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
NAMES = st.sampled_from(
    [
        "role",
        "type",
        "parts",
        "content",
        "tool_calls",
        "function",
        "id",
        "tool_call_id",
        "name",
        "functionResponse",
        "toolUse",
        "tool_call_response",
        "tool",
        "response",
        "result",
        "output",
        "kwargs",
        "lc",
        "status",
        "value",
    ]
)
MESSAGES = st.recursive(
    LEAVES | NAMES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=6), max_leaves=25
)


@given(MESSAGES)
def test_no_message_raises(messages: Any) -> None:
    assert isinstance(tool_results(messages, GEMINI), list)
    assert isinstance(calls_in(messages), list)
    assert isinstance(tool_results(json.dumps(messages), GEMINI), list)


def numbered(*results: str) -> list[dict[str, Any]]:
    """A conversation in which the ids of calls and results start again in each message."""
    messages: list[dict[str, Any]] = []
    for said in results:
        call = {"type": "tool_call", "id": "read_0", "name": "read", "arguments": {"said": said}}
        messages.append({"role": "assistant", "parts": [call]})
        result = {"type": "tool_call_response", "id": "read_0", "response": {"error": said}}
        messages.append({"role": "user", "parts": [result]})
    return messages


def test_ids_that_count_anew_in_each_message_become_ids_of_one_call() -> None:
    first, second = (tool_results(numbered(*said), PLAIN) for said in (["a", "b"], ["a", "b", "c"]))
    assert [(one.call_id, one.params, one.text) for one in second] == [
        (call_id, {"said": said}, said) for call_id, said in (("read_0", "a"), ("read_0.2", "b"), ("read_0.3", "c"))
    ]
    assert [one.call_id for one in first] == [one.call_id for one in second[:2]]


def test_of_results_without_the_model_s_own_messages_the_last_is_news() -> None:
    results = [{"role": "tool", "tool_call_id": f"c{place}", "content": "x"} for place in range(3)]
    question = {"role": "user", "content": "go on"}
    assert [one.fresh for one in tool_results([question, *results], PLAIN)] == [False, False, True]
    assert [one.fresh for one in tool_results([question, *results[:1]], PLAIN)] == [True]
    assert [one.fresh for one in tool_results(results, PLAIN)] == [True, True, True]  # results of three calls at once


def test_all_results_of_the_first_exchange_are_news() -> None:
    calls = [{"type": "tool_call", "id": f"c{place}", "name": "read", "arguments": ARGS} for place in range(3)]
    results = [
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": f"c{place}", "response": "x"}]}
        for place in range(3)
    ]
    said = [{"role": "user", "content": "go on"}, {"role": "assistant", "parts": calls}, *results]
    assert [(one.call_id, one.fresh) for one in tool_results(said, PLAIN)] == [
        (f"c{place}", True) for place in range(3)
    ]


def strangers(calls: int, results: int) -> list[dict[str, Any]]:
    """Messages in which results have other ids than calls."""
    asked = [{"type": "tool_call", "id": f"fc_{one}", "name": "read", "arguments": {"n": one}} for one in range(calls)]
    told = [{"type": "tool_call_response", "id": f"call_{one}", "response": "x"} for one in range(results)]
    return [{"role": "assistant", "parts": asked}, {"role": "tool", "parts": told}]


def test_results_with_other_ids_than_their_calls_follow_their_order() -> None:
    found = [(one.call_id, one.tool, one.params) for one in tool_results(strangers(2, 2), PLAIN)]
    assert found == [("call_0", "read", {"n": 0}), ("call_1", "read", {"n": 1})]
    assert [one.tool for one in tool_results(strangers(2, 1), PLAIN)] == [""]  # which of the two is unknown


@pytest.mark.parametrize("kind", [[], {}, ["json"], {"error-text": 1}, 7], ids=str)
def test_an_output_of_a_strange_type_is_a_result_all_the_same(kind: object) -> None:
    output = {"type": kind, "error": "boom"}
    [told] = tool_results(ai_sdk(output), PLAIN)
    assert (told.call_id, told.outcome, told.text) == ("c1", "error", "boom")


def test_a_message_that_is_told_again_is_walked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"role": "assistant", "tool_calls": [{"id": "call_77aa", "function": {"name": "ls", "arguments": "{}"}}]}
    told = {"role": "tool", "tool_call_id": "call_77aa", "content": "Error: no such folder /srv/once"}
    first = tool_results(json.dumps([asked, told]), Rules())
    walked: list[object] = []

    def walk(value: dict[str, Any], _: int) -> list[Any]:
        walked.append(value)
        return []

    monkeypatch.setattr(messages, "_message", walk)
    new = {"role": "user", "content": "Once more."}
    again = tool_results(json.dumps([asked, told, new]), Rules())
    assert walked == [new]
    assert [(one.call_id, one.tool, one.outcome, one.text) for one in again] == [
        (one.call_id, one.tool, one.outcome, one.text) for one in first
    ]
