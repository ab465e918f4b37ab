"""Outcomes from all the evidence, and details from error texts."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.recognise.outputs import breaks_schema, read_output, text_of, verdict_of
from collector.recognise.readers import glob
from collector.recognise.readings import Rules
from collector.recognise.reasons import cause_in, decisive, is_generic, refusal_in, retry_after_in, status_in
from collector.recognise.settle import Raised, Said, settle

PLAIN = Rules()
ABSENT: list[Any] = [False, 0, "false", "0", "none", "None", None]
SHELL = Rules(
    exit_header=(re.compile(r"^Process exited with code (-?\d+)", re.M),), preamble=(re.compile(r"\A.*\nOutput:\n"),)
)
OF_TIME = [
    (
        "Threading.Tasks.TaskCanceledException",
        "The request was canceled due to the configured HttpClient.Timeout of 100 seconds elapsing.",
    ),
    ("OperationCanceledException", "The operation was canceled due to timeout"),
    (
        "AggregateException",
        "Retry failed after 4 tries. (The operation was cancelled because it exceeded the configured timeout.)",
    ),
]

REFUSALS = [
    "denied", "rejected", "execution_denied", "user_rejected", "rejected_by_user", "permission_hook_denied",
    "tool_rejected", "tool_rejected_by_user", "permission_denied_by_user", "guardrail_blocked", "consent_denied",
    "user_denied_permission",
]  # fmt: skip
NO_REFUSALS = [
    "permission_denied", "access_denied", "forbidden", "http_403_forbidden", "patch_rejected", "connection_rejected",
    "content_blocked", "os_error_permission_denied",
]  # fmt: skip
PRINTED = ["Aborted by user.", 'assert "Request interrupted by user" in out', "Error: tool call rejected by user"]

EVIDENCE: list[tuple[dict[str, list[Any]], Said, str]] = [
    # without evidence it is a success, as with evidence of success
    ({}, Said(), "ok"),
    ({}, Said(status=1), "ok"),
    ({"flags": [True]}, Said(), "ok"),
    ({"flags": ["true"]}, Said(), "ok"),
    ({"flags": [1]}, Said(), "ok"),
    ({"says": ["success"]}, Said(), "ok"),
    ({"failed": [False]}, Said(), "ok"),
    ({"exits": [0]}, Said(), "ok"),
    ({"says": ["unset"]}, Said(), "ok"),
    # what has not ended, unless something else tells how it did
    ({"says": ["running"]}, Said(), "unknown"),
    ({}, Said(fixed="unknown"), "unknown"),
    ({}, Said(fixed="unknown", status=1), "ok"),
    ({"outputs": ["done"]}, Said(fixed="unknown"), "unknown"),
    ({"says": ["pending"], "flags": [True]}, Said(), "ok"),
    ({"says": ["in progress"], "errors": ["Timeout"]}, Said(), "error"),
    ({"decisions": ["accept"]}, Said(), "ok"),
    # flags of every type
    ({"flags": [False]}, Said(), "error"),
    ({"flags": ["false"]}, Said(), "error"),
    ({"flags": [0]}, Said(), "error"),
    ({"flags": ["maybe"]}, Said(), "ok"),
    ({"failed": ["True"]}, Said(), "error"),
    # a single piece of evidence of failure is enough
    ({"flags": ["true"], "exits": ["127"]}, Said(status=1), "error"),
    ({"flags": [True], "outputs": ['{"exit_code": 2}']}, Said(), "error"),
    ({"errors": ["tool_error"]}, Said(), "error"),
    ({"errors": [""]}, Said(), "ok"),
    ({"errors": ["null"]}, Said(), "ok"),
    ({}, Said(status=2), "error"),
    ({}, Said(raised=[Raised("ValueError", "no")]), "error"),
    # an exception that was handled: the span says OK itself
    ({}, Said(status=1, raised=[Raised("ValueError", "no")]), "ok"),
    # a field for an error that has none
    *[({"errors": [value], "flags": [True]}, Said(), "ok") for value in ABSENT],
    ({"errors": ["nothing found"], "flags": [True]}, Said(), "error"),
    # denials and cancellations
    ({"decisions": ["reject"], "flags": [False]}, Said(), "denied"),
    ({"decisions": ["denied_by_user"]}, Said(), "denied"),
    ({"decisions": ["abort"]}, Said(), "cancelled"),
    ({"says": ["cancelled"], "flags": [False]}, Said(), "cancelled"),
    ({"says": ["execution-denied"]}, Said(), "denied"),
    ({"flags": [False]}, Said(message="exec command rejected by user"), "denied"),
    ({"flags": [False]}, Said(message="The user doesn't want to proceed with this tool use."), "denied"),
    ({"flags": [False]}, Said(message="aborted by user after 3s"), "cancelled"),
    ({"flags": [False]}, Said(message="[Operation Cancelled] Reason: x"), "cancelled"),
    ({}, Said(status=2, raised=[Raised("asyncio.exceptions.CancelledError")]), "cancelled"),
    ({}, Said(status=2, raised=[Raised("AbortError", "This operation was aborted")]), "cancelled"),
    ({}, Said(status=2, raised=[Raised("GeneratorExit")]), "cancelled"),
    ({}, Said(status=2, reported="kotlinx.coroutines.JobCancellationException"), "cancelled"),
    ({}, Said(status=2, reported="Canceled"), "cancelled"),
    ({}, Said(status=2, raised=[Raised("Error", "AbortError")]), "cancelled"),
    ({}, Said(status=2, raised=[Raised("ModelAbortError", "stopped")]), "cancelled"),
    ({}, Said(status=2, reported="*url.Error", message='Post "https://api.test/v1": context canceled'), "cancelled"),
    (
        {},
        Said(status=2, reported="System.OperationCanceledException", message="The operation was canceled."),
        "cancelled",
    ),
    # a client that waited too long cancels too
    *[({}, Said(status=2, reported=f"System.{name}", message=text), "error") for name, text in OF_TIME],
    ({}, Said(status=2, reported="plan_mode_blocked"), "denied"),
    *[({}, Said(status=2, reported=name), "denied") for name in REFUSALS],
    # of files, servers and models the same words are a plain error
    *[({}, Said(status=2, reported=name), "error") for name in NO_REFUSALS],
    ({}, Said(status=2, raised=[Raised("PermissionError", "[Errno 13] Permission denied: '/etc/shadow'")]), "error"),
    # a command that ran may print anything
    ({"outputs": ['{"exit_code": 1, "stderr": "merge aborted by user"}']}, Said(), "error"),
    *[
        ({"flags": [False]}, Said(message=f"{ran} failed with exit code 1: {text}"), "error")
        for ran in ("Command", "Error: Command", "Tool error: Command")
        for text in PRINTED
    ],
    ({}, Said(status=2, status_message="Command failed: aborted by user"), "cancelled"),
    # what the row itself sets is not refined
    ({}, Said(fixed="error", message="cancelled"), "error"),
    ({}, Said(fixed="cancelled"), "cancelled"),
]


@pytest.mark.parametrize(("signs", "said", "outcome"), EVIDENCE)
def test_outcome(signs: dict[str, list[Any]], said: Said, outcome: str) -> None:
    assert settle(signs, PLAIN, said).outcome == outcome


THING = "<object object at 0x7fec21cf0160>"
REPRS = [
    (Said(status=2, raised=[Raised("asyncio.exceptions.CancelledError", THING)]), "cancelled", ""),
    (Said(status=2, status_message=f"CancelledError({THING})"), "error", "CancelledError()"),
    (Said(status=2, message=THING, status_message="no such order"), "error", "no such order"),
    (Said(status=2, raised=[Raised("ValueError", "<function main.<locals>.f at 0x7F12AB34CD>")]), "error", ""),
    (Said(status=2, message=f"<bound method A.b of <x.A {THING[8:]}>"), "error", ""),
    (Said(status=2, message=f"{THING} is not JSON"), "error", f"{THING} is not JSON"),
    (Said(status=2, message="<td>no</td> <b at 0x7fec21cf0160>"), "error", "<td>no</td> <b at 0x7fec21cf0160>"),
]


@pytest.mark.parametrize(("said", "outcome", "message"), REPRS)
def test_a_repr_of_python_is_no_message(said: Said, outcome: str, message: str) -> None:
    settled = settle({}, PLAIN, said)
    assert (settled.outcome, settled.text, settled.message) == (outcome, message, message)


@pytest.mark.parametrize(
    "said",
    [
        Said(reported="GraphInterrupt", status=2),
        Said(status=2, raised=[Raised("langgraph.errors.GraphInterrupt", "(Interrupt(value='Approve?', id='a'),)")]),
        Said(status=1, raised=[Raised("GraphInterrupt", "(Interrupt(value='Approve?', id='a'),)")]),
        Said(status=2, raised=[Raised("Exception", "GraphInterrupt((Interrupt(value='Approve?'),))Traceback")]),
        Said(status=2, raised=[Raised("pydantic_ai.exceptions.ApprovalRequired")]),
        Said(status=2, raised=[Raised("pydantic_ai.exceptions.CallDeferred")]),
        Said(status=2, reported="ParentCommand", status_message="Command(graph='__parent__', goto='bob')"),
        Said(status=2, raised=[Raised("strands.interrupt.InterruptException")]),
        Said(status=2, raised=[Raised("agno.exceptions.StopAgentRun", "done")]),
        Said(status=2, reported="UserInputRequiredException"),
    ],
)
def test_a_call_that_waits_for_a_person_has_no_outcome_yet(said: Said) -> None:
    assert settle({}, PLAIN, said).outcome == ""


@pytest.mark.parametrize("name", ["MyApprovalRequired2", "KeyboardInterruptException", "agno.exceptions.RetryAgentRun"])
def test_other_exceptions_end_a_call(name: str) -> None:
    said = Said(status=2, raised=[Raised(name, "a tool that raises GraphInterrupt() failed")])
    assert settle({}, PLAIN, said).outcome == "error"


def test_strength_orders_outcomes() -> None:
    pieces: list[dict[str, list[Any]]] = [{}, {"flags": [True]}, {"flags": [False]}]
    pieces += [{"says": ["cancelled"]}, {"says": ["denied"]}]
    strengths = [settle(signs, PLAIN, Said()).strength for signs in pieces]
    assert strengths == [10, 20, 40, 50, 60]


def test_span_status_and_exceptions_can_be_worthless() -> None:
    deaf = Rules(status=False, exceptions=False)
    assert settle({}, deaf, Said(status=2, raised=[Raised("X", "y")])).outcome == "ok"
    quoting = settle({}, Rules(exceptions=False), Said(status=2, raised=[Raised("E", "what the model said", "stack")]))
    assert (quoting.outcome, quoting.message, quoting.stack, quoting.reported) == ("error", "", "", None)


def test_source_says_which_classes_are_denials() -> None:
    rules = Rules(denied=glob(["Permission*Error"]))
    assert settle({}, rules, Said(status=2, reported="PermissionRejectedError")).outcome == "denied"


OUTPUTS = [
    ("plain text with Error: in it", "", None),
    ('{"is_error": true, "content": "boom"}', "error", None),
    ('{"isError": "true"}', "error", None),
    ({"ok": False}, "error", None),
    ({"success": "false"}, "error", None),
    ({"status": "error"}, "error", None),
    ({"status": "denied"}, "denied", None),
    ({"error": "no such order"}, "error", None),
    ({"error": {"message": "no"}}, "error", None),
    ({"error": None}, "", None),
    ({"error": ""}, "", None),
    ({"error": 0}, "", None),
    ({"error": "none"}, "", None),
    ({"error": "false"}, "", None),
    ({"errors": []}, "", None),
    ({"interrupted": True}, "cancelled", None),
    ({"interrupted": False, "stdout": "x"}, "", None),
    ({"timed_out": True}, "error", None),
    ({"exit_code": 0}, "", 0),
    ({"exitCode": 127}, "", 127),
    ({"returncode": "1"}, "", 1),
    ({"exit": True}, "", None),
    ('"{\\"exit_code\\": 2}"', "", 2),
    ('[{"text": "{\\"exit_code\\": 2}"}]', "", 2),
    ([{"type": "text", "text": "x"}, {"isError": True}], "error", None),
    ('[{"json": {"error": "no such order"}}]', "error", None),
    ([{"json": {"exit_code": 2}}], "", 2),
    ([{"json": {"found": 1}}, {"text": "x"}], "", None),
    ({"content": [{"type": "text", "text": "no"}], "isError": True}, "error", None),
    ("{'exit_code': 3}", "", 3),
    (
        {"jsonrpc": "2.0", "id": 3, "result": {"isError": True, "content": [{"type": "text", "text": "no"}]}},
        "error",
        None,
    ),
    ({"output": {"result": {"exit_code": 2, "stderr": "no"}}, "error": None}, "", 2),
    ({"result": {"isError": True}, "page": 2}, "", None),
    ("Process exited with code 2\nOutput:\nProcess exited with code 0", "", 2),
    # what is said of a thing is not said of the call
    ({"status": "cancelled", "order_id": 7}, "", None),
    ({"status": "rejected", "pr": 9}, "", None),
    ({"status": "failed", "build": 3, "url": "x"}, "", None),
    ({"output": {"status": "timeout", "host": "a"}}, "", None),
    ({"cancelled": True, "id": 3}, "", None),
    ({"success": True, "status": "cancelled"}, "", None),
    ({"denied": True, "visa": 3}, "", None),
    ({"exit": 3, "enter": 5}, "", None),
    ({"status": "cancelled", "type": "text", "message": "stopped"}, "cancelled", None),
    ({"status": "failed", "error_code": "E1", "duration_ms": 3}, "error", None),
    ({"status": "error", "order_id": 7}, "error", None),
    ({"status": "failed", "order_id": 7, "error": "no stock"}, "error", None),
    ({"status": "failure", "order_id": 7, "error_message": "no stock"}, "error", None),
    ({"status": "failed", "path": "/a", "message": "x"}, "error", None),
    ({"cancelled": True, "message": "x"}, "cancelled", None),
    ({"interrupted": True, "isImage": False, "noOutputExpected": False}, "cancelled", None),
    ({"exit": 3, "stdout": ""}, "", 3),
    ({"error": "No error"}, "", None),
    ({"error": "No errors."}, "", None),
    ({"error": "no errors were expected"}, "error", None),
    (None, "", None),
    ({}, "", None),
    ([], "", None),
    (3.5, "", None),
    (b"\xff", "", None),
]


@pytest.mark.parametrize(("value", "verdict", "exit_code"), OUTPUTS)
def test_output(value: Any, verdict: str, exit_code: int | None) -> None:
    read = read_output(value, SHELL)
    assert (read.verdict, read.exit_code) == (verdict, exit_code)


def test_a_message_of_langchain_is_its_content() -> None:
    blocks = [{"type": "text", "text": "no such shelf"}]
    message = {"lc": 1, "type": "constructor", "kwargs": {"content": blocks, "status": "error", "tool_call_id": "c1"}}
    assert text_of(message) == "no such shelf"


def test_exit_code_header_only_counts_where_a_source_writes_it() -> None:
    assert read_output("Process exited with code 2", PLAIN).exit_code is None


@pytest.mark.parametrize("printed", PRINTED)
def test_an_error_text_with_the_sources_exit_code_is_of_a_command_that_ran(printed: str) -> None:
    text = f"Process exited with code 2\n{printed}"
    settled = settle({"flags": [False]}, SHELL, Said(message=text))
    assert (settled.outcome, settled.exit_code, settled.message) == ("error", 2, text)
    assert settle({"flags": [False]}, PLAIN, Said(message=text)).outcome != "error"


def test_failed_command_says_why_without_its_whole_output() -> None:
    noise = "\n".join(f"collected item {number}" for number in range(200))
    settled = settle(
        {"outputs": [{"exit_code": 1, "stdout": f"{noise}\nFAILED test_a\n1 failed, 9 passed"}]}, PLAIN, Said()
    )
    assert settled.message == "exit code 1: FAILED test_a\n1 failed, 9 passed"
    assert settled.exit_code == 1
    assert settled.shape == ("exit_code", "exit:1")


def test_preamble_of_the_source_is_no_part_of_the_message() -> None:
    settled = settle({"flags": [False], "outputs": ["Wall time: 1 s\nOutput:\nticket T-4 not found"]}, SHELL, Said())
    assert settled.message == "ticket T-4 not found"


def test_generic_text_gives_way_to_what_says_more() -> None:
    said = Said(status=2, status_message="Tool execution failed")
    settled = settle({"outputs": ["ENOENT: no such file"]}, PLAIN, said)
    assert settled.text == "Tool execution failed\nENOENT: no such file"


PYTHON = """Traceback (most recent call last):
  File "a.py", line 1, in f
    raise DiffApplyError()
common.DiffApplyError: hunk #1 failed
second line of the message

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "b.py", line 1, in g
lib.ModelRetry: hunk #1 failed

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "c.py", line 1, in h
lib.ToolRetryError: hunk #1 failed
"""
CAUSES = [
    (PYTHON, "common.DiffApplyError"),
    ("ToolRetryError: x\n    at f (a.js:1)\n  [cause]: TypeError: no\n      at g", "TypeError"),
    ("java.lang.ToolRetryError: x\n\tat a.B\nCaused by: java.io.IOException: no\n\tat c.D", "java.io.IOException"),
    ("lib.ToolRetryError: alone", ""),
    ("", ""),
]


@pytest.mark.parametrize(("stack", "name"), CAUSES)
def test_true_class_stands_in_the_stack(stack: str, name: str) -> None:
    wrappers = glob(["*ToolRetryError", "*ModelRetry"])
    assert wrappers is not None
    assert cause_in(stack, wrappers) == name
    settled = settle({}, Rules(wrappers=wrappers), Said(status=2, raised=[Raised("lib.ToolRetryError", "x", stack)]))
    assert settled.reported == (name or "lib.ToolRetryError")


FRAMES = 'Traceback (most recent call last):\n\n\n  File "/a.py", line 1, in f\n    raise FileNotFoundError(path)\n\n\n'
TRACED = [
    # reported class, text, then class, message and stack of what is settled
    (
        "Exception",
        f"FileNotFoundError(2, 'No such file'){FRAMES}FileNotFoundError: [Errno 2] No such file: '/a'",
        "FileNotFoundError",
        "[Errno 2] No such file: '/a'",
        True,
    ),
    (
        "Exception",
        f"{FRAMES}lib.ValidationError: 1 error\na\n  Field required",
        "lib.ValidationError",
        "1 error\na\n  Field required",
        True,
    ),
    ("Exception", f"{FRAMES}lib.ToolError", "lib.ToolError", "lib.ToolError", True),
    (
        "Exception",
        "busy\nTraceback (most recent call last):\n  …",
        "Exception",
        "busy\nTraceback (most recent call last):\n  …",
        False,
    ),
    (None, f"{FRAMES}KeyError: 'x'", "KeyError", "'x'", True),
    (None, f"Tool failed:\n{FRAMES}KeyError: 'x'", None, "Tool failed:\nKeyError: 'x'", True),
    ("app.ConfigError", f"{FRAMES}KeyError: 'x'", "app.ConfigError", "KeyError: 'x'", True),
    (
        "app.ConfigError",
        f"no such key: KeyError: 'x'\n{FRAMES}KeyError: 'x'",
        "app.ConfigError",
        "no such key: KeyError: 'x'",
        True,
    ),
    (None, f"{FRAMES}TimeoutError\nDuring task 'tools', id '9'", "TimeoutError", "During task 'tools', id '9'", True),
    (
        None,
        "cannot parse 'Traceback (most recent call last):' of a log: no",
        None,
        "cannot parse 'Traceback (most recent call last):' of a log: no",
        False,
    ),
    ("Exception", "no traceback", "Exception", "no traceback", False),
]


@pytest.mark.parametrize(("reported", "text", "name", "message", "traced"), TRACED)
def test_a_traceback_in_the_text_is_the_stack(
    reported: str | None, text: str, name: str | None, message: str, traced: bool
) -> None:
    settled = settle({}, PLAIN, Said(reported, status=2, status_message=text))
    assert (settled.reported, settled.message, settled.text) == (name, message, message)
    assert settled.stack == ("Traceback" + text.partition("Traceback")[2] if traced else "")


def test_the_exception_that_a_wrapper_repeats_is_the_true_one() -> None:
    wrapped = Rules(wrappers=re.compile(r"lib\.ToolError"))
    inner, other = Raised("AbortError", "was aborted"), Raised("KeyError", "'cache'")
    outer = Raised("lib.ToolError", "Error executing tool f: was aborted")
    for raised, name in (([inner, outer], "AbortError"), ([other, outer], "lib.ToolError"), ([outer], "lib.ToolError")):
        assert settle({}, wrapped, Said(status=2, raised=raised)).reported == name


def test_a_traceback_that_a_command_printed_is_not_the_agents() -> None:
    text = f"{FRAMES}KeyError: 'x'"
    settled = settle({"exits": [1], "outputs": [text]}, PLAIN, Said(status=2, status_message=text))
    assert (settled.reported, settled.stack) == (None, "")


TEXTS = [
    ("status_code: 429, model_name: m", 429, None),
    ("Error code: 500 - {'error': …}", 500, None),
    ('{"error":{"code":429,"details":[{"retryDelay":"1s"}]}}', 429, 1000),
    ("see #error-code-429\n\n429 RESOURCE_EXHAUSTED. {'error': {'code': 429, 'message': 'slow down'}}", 429, None),
    ("503 Service Unavailable", 503, None),
    ("LLM error: API error 503: unavailable", 503, None),
    ('API Error: 529 {"type":"error"}', 529, None),
    ("Rate limit reached. Please try again in 20ms.", None, 20),
    ("Retry-After: 2", None, 2000),
    ("retry in 1.5 minutes", None, 90_000),
    ("Retry after 1 minute", None, 60_000),
    ("Try again in 1 hour.", None, 3_600_000),
    ("try again in 3 mins", None, 180_000),
    ("try again in 2 hours 13 minutes.", None, 7_980_000),
    ("try again in 3 days 4 hours", None, 273_600_000),
    ("try again in 1 hour, 2 minutes and 3 seconds", None, 3_723_000),
    ("Please try again in 7m12s.", None, 432_000),
    ("Please try again in 6m0s.", None, 360_000),
    ("Please try again in 1h12m30.5s", None, 4_350_500),
    ("Try again in 250 milliseconds", None, 250),
    ('{"retry_after_ms":1500}', None, 1500),
    ('{"retry_after": 1.5}', None, 1500),
    ("Please wait 20 seconds before trying again.", None, 20_000),
    ("Please retry in 3.5s. Error code: 429", 429, 3500),
    ("please wait for 20 people", None, None),
    ("port 4290 is taken, 500 files", None, None),
]


@pytest.mark.parametrize(("text", "status", "delay"), TEXTS)
def test_status_and_delay_in_texts(text: str, status: int | None, delay: int | None) -> None:
    assert (status_in(text), retry_after_in(text)) == (status, delay)


SCHEMA = json.dumps(
    {
        "properties": {"path": {"type": "string"}, "lines": {"type": "integer", "default": 3}},
        "required": ["path", "lines"],
    }
)


@pytest.mark.parametrize(
    ("params", "broken"),
    [
        ({"path": "/a"}, False),
        ({"path": "/a", "lines": 2, "more": 1}, False),
        ({}, True),
        ({"path": 3}, True),
        ({"path": "/a", "lines": "soon"}, True),
        ('{"path": "/a', True),
        (None, False),
    ],
)
def test_arguments_against_the_tools_schema(params: Any, broken: bool) -> None:
    assert breaks_schema([SCHEMA], params) is broken


def test_redacted_error_with_broken_arguments_is_a_validation_error() -> None:
    said = Said(status=2, status_message="Error running tool: details are redacted", params={})
    assert settle({"schemas": [SCHEMA]}, PLAIN, said).shape == ("validation",)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("patch rejected by user", "denied"),
        ("The user has declined to run this tool", "denied"),
        ("User chose not to run this tool", "denied"),
        ("The user did not approve the call", "denied"),
        ("Tool execution was not approved.", "denied"),
        ("Tool call rejected by human", "denied"),
        ("Human said no", "denied"),
        ("rejected by the server", ""),
        ("The user chose the wrong file", ""),
        ("Command blocked by PreToolUse hook", "denied"),
        ("Command was cancelled by user before it could complete", "cancelled"),
        ("Permission denied: /etc/shadow", ""),
        ("connection aborted", ""),
        ("x" * 2000 + " rejected by user", ""),
        ("`rm -r build` rejected by user", "denied"),
        ("edit_file was declined by the user", "denied"),
        ("Rejected by human reviewer: too risky", "denied"),
        ("Error: User rejected the request", "denied"),
        ("User denied the proposed file edit", "denied"),
        ("User did not allow access", "denied"),
        ("Execution denied", "denied"),
        ("Tool call rejected", "denied"),
        ("Not allowed in plan mode", "denied"),
        ('"write_to_file" is not allowed in architect mode', "denied"),
        ("Hook PreToolUse:Bash blocked this call: no rm", "denied"),
        ("`git push` rejected: policy forbids commands starting with `git push`", "denied"),
        ("Claude requested permissions to write to /srv/x.py, but you haven't granted it yet.", "denied"),
        ("This command is on the deny list: rm -rf /", "denied"),
        ("The user aborted a request.", "cancelled"),
        ("AbortError: This operation was aborted", "cancelled"),
        ("AbortError: signal is aborted without reason", "cancelled"),
        ("AbortError", "cancelled"),
        ("Model invocation was aborted.", "cancelled"),
        ("UNKNOWN: Request was aborted.", "cancelled"),
        ("MCP error -32001: AbortError: This operation was aborted", "cancelled"),
        ("MCP error -32001: Request timed out", ""),
        ("KeyboardInterrupt", "cancelled"),
        ("KeyboardInterrupt: stopped", "cancelled"),
        ("Tool execution aborted", "cancelled"),
        ("Tool call cancelled", "cancelled"),
        ("Error: Tool call invocation was rejected by user.", "denied"),
        ("The subagent was cancelled by the user", "cancelled"),
        ("Request cancelled.", "cancelled"),
        ("Friend request cancelled.", ""),
        ("[Request interrupted by user for tool use]", "cancelled"),
        # of other things than the call
        ("Order was cancelled by user ann and cannot be refunded", ""),
        ("Job 17 was aborted by user admin", ""),
        ("The user has cancelled the subscription", ""),
        ("The user has declined the invitation", ""),
        ("The user declined the friend request", ""),
        ("The user did not accept the terms of service", ""),
        ("Meeting request was rejected by the user", ""),
        ("The PR was rejected by a reviewer", ""),
        ("Claim 7 was denied by policy", ""),
        ("Refund rejected: policy forbids returns after 30 days", ""),
        ("Octal literals are not allowed in strict mode", ""),
        ("The sender is on the block list", ""),
        ("The webhook was blocked", ""),
        ("The operation was aborted due to timeout", ""),
        ("AbortError: The operation was aborted due to timeout", ""),
        ("Transaction aborted", ""),
        ("ABORTED: Exceeded maximum tool call iterations (2)", ""),
        ("AbortErrors: 3", ""),
    ],
)
def test_refusals_in_error_texts(text: str, refusal: str) -> None:
    assert refusal_in(text) == refusal


def test_words_that_say_nothing() -> None:
    words: list[Any] = ["accept", "modify", "auto_accept", "x" * 61, None, True, 3, []]
    assert [verdict_of(word) for word in words] == [""] * 8


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30) | st.binary(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["error", "status", "exit_code", "isError", "output", "content", "loc", "msg", "ok", "type"]
            )
            | st.text(max_size=5),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)
KINDS = st.sampled_from(["flags", "failed", "says", "decisions", "errors", "exits", "outputs", "schemas", "shape:x"])


@given(st.dictionaries(KINDS, st.lists(ANYTHING, max_size=3)), ANYTHING, st.text(max_size=40))
def test_nothing_that_telemetry_holds_raises(signs: dict[str, list[Any]], params: Any, text: str) -> None:
    settled = settle(signs, SHELL, Said(message=text, params=params, raised=[Raised(text, text, text)]))
    assert settled.outcome in ("ok", "error", "cancelled", "denied", "unknown")
    assert isinstance(text_of(params), str)
    assert isinstance(decisive(text), str)
    assert isinstance(is_generic(text), bool)
