"""Classification: the order of evidence, ambiguous cases, documented examples, and what agents really sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.classify.classify import HEAD, TAIL, Evidence, load_taxonomy

TAXONOMY = load_taxonomy()
# Texts as agents and providers send them: recorded, or from their documentation and issue threads.
DATA = Path(__file__).parent / "data"
TEXTS = [json.loads(line) for line in (DATA / "error-texts.jsonl").read_text().splitlines()]
# Failures as programs print them, written without looking at the table, with the class that an engineer gives them and
# others that are acceptable too (`also`).
FAILURES = [json.loads(line) for line in (DATA / "failures.jsonl").read_text().splitlines()]

# Errors in the words of many tools, servers and providers, with every class that a careful person accepts.
WORDED = [json.loads(line) for line in (DATA / "worded-errors.jsonl").read_text().splitlines()]

# Errors of public software, labelled before they were classified. Rules were written from those that were `seen`.
UNSEEN = [json.loads(line) for line in (DATA / "unseen-errors.jsonl").read_text().splitlines()]


def classify(
    reported: str | None = None,
    text: str | None = None,
    *,
    source: str = "gen-ai",
    operation: str = "tool",
    shape: tuple[str, ...] = (),
    status: int | None = None,
    kind: str | None = None,
) -> tuple[str, str]:
    return TAXONOMY.classify(Evidence(source, operation, kind, reported, shape, status, text))


REPORTED_NAMES = [
    # unchanged, by alias, with paths and suffixes of every language
    ("FileNotFoundError", "FileNotFoundError", "reported"),
    ("builtins.FileNotFoundError", "FileNotFoundError", "alias"),
    ("FileNotFoundToolError", "FileNotFoundError", "alias"),
    ("java.io.FileNotFoundException", "FileNotFoundError", "alias"),
    ("Error:ENOENT", "FileNotFoundError", "alias"),
    ("ENOENT", "FileNotFoundError", "alias"),
    ("*fs.PathError", "FileNotFoundError", "alias"),
    ("file_not_found", "FileNotFoundError", "alias"),
    ("ToolError::FileNotFound", "FileNotFoundError", "alias"),
    ('loopr::errors::ToolError::FileNotFound { path: "x" }', "FileNotFoundError", "alias"),
    ("RooIgnoreViolationError", "IgnoreViolationError", "alias"),
    ("PermissionDeniedToolError", "PermissionDeniedError", "alias"),
    ("tool_validation", "InvalidParameterError", "alias"),
    ("MissingParameterError", "MissingParameterError", "reported"),
    ("ToolNotFoundError", "InvalidToolError", "alias"),
    ("AI_NoSuchToolError", "InvalidToolError", "alias"),
    ("tool_not_registered", "InvalidToolError", "alias"),
    ("edit_no_occurrence_found", "ContentNotFoundError", "alias"),
    ("edit_expected_occurrence_mismatch", "DuplicateMatchError", "alias"),
    ("edit_no_change_llm_judgement", "NoChangeError", "alias"),
    ("edit_requires_prior_read", "EditWithoutReadError", "alias"),
    ("target_is_directory", "NotAFileError", "alias"),
    ("path_not_in_workspace", "SandboxViolationError", "alias"),
    ("attempt_to_create_existing_file", "FileExistsError", "alias"),
    ("no_space_left", "DiskFullError", "alias"),
    ("mcp_resource_not_found", "McpResourceError", "alias"),
    ("shell_execute_error", "CommandFailedError", "alias"),
    ("subprocess.CalledProcessError", "CommandFailedError", "alias"),
    ("subprocess.TimeoutExpired", "CommandTimeoutError", "alias"),
    ("policy_violation", "ToolPermissionError", "alias"),
    ("execution_denied", "ToolPermissionError", "alias"),
    ("plan_mode_blocked", "ToolPermissionError", "alias"),
    ("common.DiffApplyError", "DiffApplyFailedError", "alias"),
    ("playwright._impl._errors.TargetClosedError", "BrowserActionError", "alias"),
    ("-32601", "InvalidToolError", "alias"),
    ("-32602", "InvalidParameterError", "alias"),
    ("json.decoder.JSONDecodeError", "InvalidParameterError", "alias"),
    ("httpx.ConnectError", "ConnectionError", "alias"),
    ("requests.exceptions.ConnectionError", "ConnectionError", "alias"),
    ("aiohttp.client_exceptions.ClientConnectorError", "ConnectionError", "alias"),
    ("TypeError:UND_ERR_SOCKET", "ConnectionError", "alias"),
    ("AcmeDiffApplyFailed", "DiffApplyFailedError", "alias"),
    ("MyOwnFileNotFoundError", "FileNotFoundError", "alias"),
    ("UserTokenError", "UnknownError", "none"),
    ("FrobnicationError", "UnknownError", "none"),
    ("", "UnknownError", "none"),
    ("::", "UnknownError", "none"),
]


@pytest.mark.parametrize(("reported", "name", "by"), REPORTED_NAMES)
def test_reported_name_of_a_tool(reported: str, name: str, by: str) -> None:
    assert classify(reported) == (name, by)


MODEL_NAMES = [
    ("openai.RateLimitError", "RateLimitError"),
    ("langchain_openai.chat_models.base.OpenAIRateLimitError", "RateLimitError"),
    ("strands.types.exceptions.ModelThrottledException", "RateLimitError"),
    ("pydantic_ai.exceptions.ModelRateLimitError", "RateLimitError"),
    ("ThrottlingException", "RateLimitError"),
    ("overloaded_error", "OverloadedError"),
    ("insufficient_quota", "QuotaError"),
    ("openai.AuthenticationError", "AuthenticationError"),
    ("openai.PermissionDeniedError", "AuthenticationError"),
    ("litellm.exceptions.ContextWindowExceededError", "ContextOverflowError"),
    ("strands.types.exceptions.ContextWindowOverflowException", "ContextOverflowError"),
    ("pydantic_ai.exceptions.ModelContextWindowExceededError", "ContextOverflowError"),
    ("openai.InternalServerError", "ServerError"),
    ("openai.NotFoundError", "ModelNotFoundError"),
    ("openai.BadRequestError", "ApiError"),
    ("openai.APITimeoutError", "TimeoutError"),
    ("TimeoutError", "TimeoutError"),
    ("anthropic.APIConnectionError", "ConnectionError"),
    ("NO_FINISH_REASON", "InvalidStreamError"),
    ("ModelAbortError", "StreamAbortedError"),
    ("MALFORMED_FUNCTION_CALL", "MalformedToolCallError"),
    ("MAX_TOKENS_EXCEEDED", "OutputLimitError"),
    ("SAFETY_BLOCKED", "RefusedError"),
    ("json.decoder.JSONDecodeError", "InvalidResponseError"),
    ("google.api_core.exceptions.ResourceExhausted", "RateLimitError"),
    ("DEADLINE_EXCEEDED", "TimeoutError"),
    ("UNAVAILABLE", "ServerError"),
    ("asyncio.exceptions.CancelledError", "StreamAbortedError"),
    ("GeneratorExit", "StreamAbortedError"),
    ("AbortError", "StreamAbortedError"),
    ("content_filter", "RefusedError"),
    ("malformed_tool_use", "MalformedToolCallError"),
    ("model_context_window_exceeded", "ContextOverflowError"),
    ("LANGUAGE", "RefusedError"),
    ("TOO_MANY_TOOL_CALLS", "MalformedToolCallError"),
    ("MISSING_THOUGHT_SIGNATURE", "ApiError"),
    ("insufficient_system_resource", "OverloadedError"),
    ("failed", "StreamProviderError"),
]


@pytest.mark.parametrize(("reported", "name"), MODEL_NAMES)
def test_reported_name_of_a_model_request(reported: str, name: str) -> None:
    assert classify(reported, operation="model")[0] == name


PLACES = [
    # the same name for different problems in different places
    ("TimeoutError", "tool", "command", "CommandTimeoutError"),
    ("TimeoutError", "tool", None, "ToolTimeoutError"),
    ("TimeoutError", "model", None, "TimeoutError"),
    ("ETIMEDOUT", "tool", "mcp", "ToolTimeoutError"),
    ("PermissionError", "tool", "command", "PermissionDeniedError"),
    ("NotFoundError", "tool", None, "ResourceNotFoundError"),
    ("404", "model", None, "ModelNotFoundError"),
    ("404", "tool", None, "ResourceNotFoundError"),
    ("AuthenticationError", "tool", None, "ToolAuthenticationError"),
    ("401", "tool", None, "ToolAuthenticationError"),
    ("403", "tool", None, "ToolPermissionError"),
    ("403", "model", None, "AuthenticationError"),
    ("409", "model", None, "OverloadedError"),
    ("409", "tool", None, "ApiError"),
    ("openai.ConflictError", "model", None, "OverloadedError"),
    ("ConflictError", "tool", None, "ApiError"),
    ("ValidationError", "model", None, "InvalidResponseError"),
]


@pytest.mark.parametrize(("reported", "operation", "kind", "name"), PLACES)
def test_a_name_means_what_it_means_in_its_place(reported: str, operation: str, kind: str | None, name: str) -> None:
    assert classify(reported, operation=operation, kind=kind)[0] == name


STATUS = [
    (400, "ApiError"), (401, "AuthenticationError"), (402, "QuotaError"), (403, "AuthenticationError"),
    (404, "ModelNotFoundError"), (408, "TimeoutError"), (409, "OverloadedError"), (413, "ContextOverflowError"),
    (422, "ApiError"), (429, "RateLimitError"), (500, "ServerError"), (502, "ServerError"), (503, "ServerError"),
    (504, "TimeoutError"), (529, "OverloadedError"),
]  # fmt: skip


@pytest.mark.parametrize(("status", "name"), STATUS)
def test_status_of_a_model_request(status: int, name: str) -> None:
    assert classify(operation="model", status=status) == (name, "status")
    assert classify(str(status), operation="model") == (name, "status")


COMPILATION = "001003 (42000): SQL compilation error:\nsyntax error line 1 at position 9 unexpected 'FORM'."
HTTP_TIMEOUT = "The request was canceled due to the configured HttpClient.Timeout of 100 seconds elapsing."

GIVING_WAY = [
    # a coarse name, flag or status, and a text that is more precise
    (
        "openai.BadRequestError",
        (),
        400,
        "This model's maximum context length is 8192 tokens",
        "model",
        "ContextOverflowError",
    ),
    (None, (), 400, "context_length_exceeded", "model", "ContextOverflowError"),
    (
        None,
        (),
        429,
        "You exceeded your current quota, please check your plan and billing details",
        "model",
        "QuotaError",
    ),
    (None, (), 503, "The model is overloaded. Please try again later.", "model", "OverloadedError"),
    ("ApiError", (), 429, '{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}', "model", "RateLimitError"),
    ("ApiError", (), None, "teapot", "model", "ApiError"),
    ("InternalServerError", (), None, "Error code: 504 - {'error': {'message': 'x'}}", "model", "TimeoutError"),
    (None, (), 500, "Order 504 was lost", "model", "ServerError"),
    (
        "java.io.FileNotFoundException",
        (),
        None,
        "java.io.FileNotFoundException: /x (Permission denied)",
        "tool",
        "PermissionDeniedError",
    ),
    ("RecursionError", (), None, "maximum recursion depth exceeded", "tool", "ToolExecutionError"),
    ("RecursionError", (), None, "maximum recursion depth exceeded", "agent", "MaxIterationsError"),
    (
        "invalid_tool_params",
        (),
        None,
        "params must have required property 'file_path'",
        "tool",
        "MissingParameterError",
    ),
    ("invalid_tool_params", (), None, "params/command must be string", "tool", "InvalidParameterError"),
    ("invalid_tool_params", (), None, 'Path not in workspace: "/x" resolves outside', "tool", "SandboxViolationError"),
    ("invalid_tool_params", (), None, "Path does not exist: /srv/app/nodir", "tool", "FileNotFoundError"),
    ("ls_execution_error", (), None, "ENOENT: no such file or directory, stat 'x'", "tool", "FileNotFoundError"),
    ("fastmcp.exceptions.NotFoundError", (), None, "Unknown tool: 'search_repo'", "tool", "InvalidToolError"),
    (
        "shell_execute_error",
        (),
        None,
        "bash: line 1: x: command not found\nExit Code: 127",
        "tool",
        "CommandNotFoundError",
    ),
    ("shell_execute_error", (), None, "ENOENT: no such file\nExit Code: 1", "tool", "CommandFailedError"),
    (None, ("exit:1",), None, "Traceback\nConnectionError: refused", "tool", "CommandFailedError"),
    (None, ("exit:126",), None, "", "tool", "PermissionDeniedError"),
    (None, ("exit:127",), None, "", "tool", "CommandNotFoundError"),
    (None, ("exit:124",), None, None, "tool", "CommandTimeoutError"),
    ("System.Threading.Tasks.TaskCanceledException", (), None, HTTP_TIMEOUT, "model", "TimeoutError"),
    ("System.Threading.Tasks.TaskCanceledException", (), None, HTTP_TIMEOUT, "tool", "ToolTimeoutError"),
    ("System.AggregateException", (), None, HTTP_TIMEOUT, "model", "TimeoutError"),
    ("System.OperationCanceledException", (), None, "The operation was canceled.", "tool", "UserInterruptError"),
    ("*url.Error", (), None, 'Post "https://api.test/v1": context canceled', "model", "StreamAbortedError"),
    ("*url.Error", (), None, 'Post "https://api.test/v1": EOF', "model", "ConnectionError"),
    # what a query names is the model's business, whatever the driver calls it
    ("psycopg.errors.UndefinedColumn", (), None, 'column "nme" does not exist', "tool", "ResourceNotFoundError"),
    ("sqlite3.OperationalError", (), None, "no such column: nme", "tool", "ResourceNotFoundError"),
    ("sqlite3.OperationalError", (), None, 'near "FORM": syntax error', "tool", "InvalidParameterError"),
    ("sqlite3.OperationalError", (), None, "database is locked", "tool", "SqliteError"),
    # MCP's SDK has the code of a timeout for calls that were stopped too, and servers have it for anything
    ("-32001", (), None, "MCP error -32001: Request timed out", "tool", "ToolTimeoutError"),
    ("-32001", (), None, "MCP error -32001: AbortError: This operation was aborted", "tool", "UserInterruptError"),
    ("-32001", (), None, "MCP error -32001: Unauthorized", "tool", "ToolAuthenticationError"),
    ("-32001", (), None, "MCP error -32001: user", "tool", "McpToolError"),
    ("sqlite3.OperationalError", (), None, "no such column: nme", "agent", "SqliteError"),
    (
        "pymysql.err.ProgrammingError",
        (),
        None,
        "(1146, \"Table 'db.usrs' doesn't exist\")",
        "tool",
        "ResourceNotFoundError",
    ),
    ("snowflake.connector.errors.ProgrammingError", (), None, COMPILATION, "tool", "InvalidParameterError"),
    ("std::io::Error", (), None, "No such file or directory (os error 2)", "tool", "FileNotFoundError"),
    ("std::io::Error", (), None, "unexpected end of file", "tool", "IoError"),
    (
        "kubernetes.client.exceptions.ApiException",
        (),
        None,
        "(404)\nReason: Not Found",
        "tool",
        "ResourceNotFoundError",
    ),
    ("kotlinx.coroutines.JobCancellationException", (), None, "Job was cancelled", "model", "StreamAbortedError"),
    # a text that does not refine the meaning of the name does not replace it
    ("edit_no_occurrence_found", (), None, "Permission denied", "tool", "ContentNotFoundError"),
    ("tool_not_registered", (), None, "file not found", "tool", "InvalidToolError"),
    ("CommandFailedError", (), None, "command not found", "tool", "CommandFailedError"),
    (None, (), 401, "connection refused", "model", "AuthenticationError"),
]


@pytest.mark.parametrize(("reported", "shape", "status", "text", "operation", "name"), GIVING_WAY)
def test_a_coarse_finding_gives_way_to_a_text_that_says_more(
    reported: str | None, shape: tuple[str, ...], status: int | None, text: str | None, operation: str, name: str
) -> None:
    assert classify(reported, text, shape=shape, status=status, operation=operation)[0] == name


@pytest.mark.parametrize(
    "generic",
    ["Error", "Exception", "_OTHER", "tool_error", "unknown", "fastmcp.exceptions.ToolError", "OSError"],
)
def test_a_generic_name_leaves_it_to_the_text(generic: str) -> None:
    assert classify(generic, "Unknown tool: 'x'") == ("InvalidToolError", "message")
    assert classify(generic)[0] == "UnknownError"


def test_a_name_for_nothing_known_does_not_keep_the_kind_of_the_tool_from_deciding() -> None:
    assert classify("unknown", "boom", kind="mcp") == ("McpToolError", "shape")
    assert classify("unknown", "boom") == ("UnknownError", "none")


TRAPS = [
    ('Tool "read_file_v9" not found. Did you mean one of: "read_file"?', None, "InvalidToolError"),
    ('{"error": "Tool \\"read_file_v9\\" not found."}', None, "InvalidToolError"),
    ('File "tool.py" not found', None, "FileNotFoundError"),
    ("1 validation error\ncommand\n  Field required [type=missing]", None, "MissingParameterError"),
    ("run() missing 1 required positional argument: 'command'", None, "MissingParameterError"),
    ("API key is required", None, "ToolAuthenticationError"),
    ("/bin/bash: line 1: frobnicate: command not found", "command", "CommandNotFoundError"),
    ("Process exited with code 1\nOutput:\ncat: x: No such file or directory", "command", "CommandFailedError"),
    ("Error: ConnectionError - the network is down", None, "ConnectionError"),
    ("FileNotFoundError(2, 'x')", None, "FileNotFoundError"),
    ("ticket T-404 not found (404)", None, "ResourceNotFoundError"),
    ("ticket T-404 not found (404)", "mcp", "ResourceNotFoundError"),
    ("[Errno 2] No such file or directory: 'x'", "mcp", "FileNotFoundError"),
    ("Request timed out", "mcp", "ToolTimeoutError"),
    ("Transport closed", "mcp", "McpConnectionError"),
    ("something nobody foresaw", "mcp", "McpToolError"),
    ("something nobody foresaw", None, "UnknownError"),
]


@pytest.mark.parametrize(("text", "kind", "name"), TRAPS)
def test_text_of_a_tool(text: str, kind: str | None, name: str) -> None:
    assert classify(None, text, kind=kind)[0] == name


SEEDS = [
    # Roo Code: log entry and streaming classes
    ("roo-code", "tool", "FileNotFoundToolError", (), "File not found: src/x.ts", "FileNotFoundError"),
    ("roo-code", "tool", "PermissionDeniedToolError", (), "Access denied: .env (rooignore)", "IgnoreViolationError"),
    ("roo-code", "tool", "MissingParameterError", (), "Missing required parameter: path", "MissingParameterError"),
    ("roo-code", "model", "StreamAbortedError", (), None, "StreamAbortedError"),
    ("roo-code", "tool", "tool_execution", (), "boom", "ToolExecutionError"),
    ("roo-code", "agent", "ConsecutiveMistakeError", (), None, "ConsecutiveMistakeError"),
    (
        "roo-code",
        "tool",
        None,
        (),
        "Roo tried to use read_file without value for required parameter 'path'.",
        "MissingParameterError",
    ),
    ("roo-code", "tool", None, (), "Unable to apply diff to file: /srv/x.ts", "DiffApplyFailedError"),
    # KODE: the error type is a category, the text is more precise
    ("kode-sdk", "tool", "logical", (), "File not found: /src/utils/helper.ts", "FileNotFoundError"),
    (
        "kode-sdk",
        "tool",
        "validation",
        ("_validationError",),
        "Invalid parameters: path is required",
        "MissingParameterError",
    ),
    ("kode-sdk", "tool", "validation", ("detail#_validationError",), "timeout: wrong", "InvalidParameterError"),
    ("kode-sdk", "tool", "runtime", ("_thrownError",), "EACCES: permission denied", "PermissionDeniedError"),
    ("kode-sdk", "tool", "runtime", ("_thrownError",), "boom", "ToolExecutionError"),
    ("kode-sdk", "tool", "aborted", (), "Tool execution timed out", "ToolTimeoutError"),
    ("kode-sdk", "tool", "aborted", (), "Interrupted by user", "UserInterruptError"),
    # Loopr: variants by name, and as their Display text
    ("loopr", "agent", "StorageError::NotFound", (), "Record not found: 7", "StorageNotFoundError"),
    ("loopr", "model", "LlmError::RateLimited", (), None, "RateLimitError"),
    ("loopr", "model", None, (), "Rate limited, retry after 5s", "RateLimitError"),
    ("loopr", "tool", "ToolError::UnknownTool", (), "Tool not found: x", "InvalidToolError"),
    ("loopr", "tool", None, (), "Tool error: Must read file before editing: src/x.rs", "EditWithoutReadError"),
    ("loopr", "agent", None, (), "Config error: Environment variable X_KEY not set", "EnvNotSetError"),
    (
        "loopr",
        "agent",
        None,
        (),
        "Loop error: Max iterations (8) reached without validation passing",
        "MaxIterationsError",
    ),
    ("loopr", "agent", None, (), 'Git error: Merge conflict in files: ["a"]', "MergeConflictError"),
    ("loopr", "agent", "LoopError::Invalidated", (), None, "LoopInvalidatedError"),
    # OpenAgents: "not found" must not swallow "tool not found"
    ("openagents", "tool", None, ("nonFatal",), "Tool not found: get_issue", "InvalidToolError"),
    ("openagents", "tool", None, ("nonFatal",), "Not Found: 404", "ResourceNotFoundError"),
    ("openagents", "tool", "ResourceNotFoundError", ("nonFatal",), "No such file: x", "ResourceNotFoundError"),
    ("openagents", "tool", "ToolArgumentError", (), "bad", "InvalidParameterError"),
    ("openagents", "tool", "ToolExecutionError", (), "boom", "ToolExecutionError"),
]


@pytest.mark.parametrize(("source", "operation", "reported", "shape", "text", "name"), SEEDS)
def test_the_seeds_own_examples(
    source: str, operation: str, reported: str | None, shape: tuple[str, ...], text: str | None, name: str
) -> None:
    assert classify(reported, text, source=source, operation=operation, shape=shape)[0] == name


@pytest.mark.parametrize("sent", TEXTS, ids=lambda sent: f"{sent['class']}-{sent['text'][:40]}")
def test_what_agents_send(sent: dict[str, Any]) -> None:
    name, _ = classify(
        sent["reported"], sent["text"], source=sent["source"], operation=sent["operation"], kind=sent["kind"]
    )
    assert name == sent["class"]


MEANINGS = [
    ("FileNotFoundError", "codex", "mistake", True),
    ("FileNotFoundError", "roo-code", "mistake", False),
    ("DiffApplyFailedError", "roo-code", "mistake", True),
    ("StreamAbortedError", "roo-code", "retryable", False),
    ("InvalidStreamError", "roo-code", "retryable", False),
    ("MissingParameterError", "kode-sdk", "retryable", False),
    ("MissingParameterError", "codex", "retryable", True),
    ("PermissionDeniedError", "kode-sdk", "retryable", True),
    ("UnknownError", "kode-sdk", "retryable", True),
    ("ToolTimeoutError", "kode-sdk", "retryable", False),
    ("IoError", "loopr", "retryable", True),
    ("StorageNotFoundError", "loopr", "retryable", False),
    ("StorageParseError", "loopr", "retryable", False),
    ("SqliteError", "loopr", "retryable", False),
    ("InvalidResponseError", "loopr", "retryable", False),
    ("ServerError", "loopr", "retry_after_ms", 5000),
    ("ConnectionError", "loopr", "retry_after_ms", 2000),
    ("TimeoutError", "loopr", "retry_after_ms", 1000),
    ("ServerError", "codex", "retry_after_ms", None),
    ("ToolAuthenticationError", "openagents", "fatal", True),
    ("ToolPermissionError", "openagents", "fatal", True),
    ("ToolExecutionError", "openagents", "fatal", True),
    ("ResourceNotFoundError", "openagents", "fatal", False),
    ("ToolPermissionError", "codex", "fatal", False),
    ("ToolRepetitionError", "roo-code", "mistake", False),
    ("ApiError", "loopr", "details", True),
    ("CommandFailedError", "loopr", "details", True),
    ("MergeConflictError", "loopr", "details", True),
    ("NoSuchClass", "codex", "name", "UnknownError"),
]


@pytest.mark.parametrize(("name", "source", "fact", "value"), MEANINGS)
def test_what_follows_is_the_sources_own_meaning(name: str, source: str, fact: str, value: object) -> None:
    assert getattr(TAXONOMY.defaults(name, source), fact) == value


@pytest.mark.parametrize(("lot", "least"), [("A", 0.95), ("B", 0.9), ("C", 0.93), ("D", 0.97)])
def test_failures_get_the_class_that_an_engineer_gives_them(lot: str, least: float) -> None:
    told = [failure for failure in FAILURES if failure["lot"] == lot]
    wrong = [
        (name, failure["expected"], failure["text"][:80])
        for failure in told
        for name, _ in [
            classify(
                failure.get("reported"), failure["text"], operation=failure["operation"],
                status=failure.get("status_code"), kind=failure.get("tool_kind"),
            )
        ]
        if name not in (failure["expected"], *failure.get("also", ()))
    ]  # fmt: skip
    assert len(wrong) <= (1 - least) * len(told), wrong


def test_errors_in_the_words_of_any_tool_get_a_class_that_a_careful_person_accepts() -> None:
    found = [(classify(None, row["text"], operation=row["operation"], kind=row.get("kind"))[0], row) for row in WORDED]
    other = [(name, row["text"]) for name, row in found if name not in row["classes"]]
    wrong = [one for one in other if one[0] != "UnknownError"]
    assert len(wrong) <= 0.02 * len(WORDED), wrong
    assert len(other) <= 0.05 * len(WORDED), other


@pytest.mark.parametrize(("seen", "least", "most"), [(True, 0.96, 0.02), (False, 0.92, 0.035)])
def test_errors_labelled_before_they_were_classified(seen: bool, least: float, most: float) -> None:
    rows = [row for row in UNSEEN if row["seen"] == seen]
    told = [(classify(None, row["text"], operation=row["operation"], kind=row.get("kind"))[0], row) for row in rows]
    right = sum(name in row["classes"] for name, row in told) / len(rows)
    wrong = sum(name not in (*row["classes"], "UnknownError") for name, row in told) / len(rows)
    assert (right >= least, wrong <= most) == (True, True), (right, wrong)


ARGUMENT_MISTAKES = [("Error: empty command", "command"), ("Time limit cannot exceed 900 seconds", "command")]
ARGUMENT_MISTAKES += [("Invalid scroll direction: 'sideways'", "browser"), ("url required", "mcp")]


@pytest.mark.parametrize(("text", "kind"), ARGUMENT_MISTAKES)
def test_the_usual_class_of_a_kind_of_tool_hides_no_mistake_in_the_arguments(text: str, kind: str) -> None:
    name, _ = classify(None, text, kind=kind)
    assert name in ("MissingParameterError", "InvalidParameterError")
    assert TAXONOMY.defaults(name, "").mistake


NAMES = [
    ("registry.example.test/library/long-context-128k-overflow:latest does not support tools", "model", "ApiError"),
    ("The 'rate-limit-7b' does not support tools", "model", "ApiError"),
    ("Unknown mode: rewrite in overloaded-context-window-2", "tool", "InvalidParameterError"),
    ("Report 'invalid logins by region' finished with warnings", "tool", "UnknownError"),
    ('The job "not found page redesign" ended with state ERROR', "tool", "UnknownError"),
    ("Task 'fix the rate limit' not found", "tool", "ResourceNotFoundError"),
    ('{"event": "permission denied"}', "tool", "PermissionDeniedError"),
    ("rate-limit reached for gpt-4", "model", "RateLimitError"),
    ('{"error": {"code": "rate-limit-exceeded"}}', "model", "RateLimitError"),
]


@pytest.mark.parametrize(("text", "operation", "name"), NAMES)
def test_a_word_within_a_name_is_no_evidence(text: str, operation: str, name: str) -> None:
    assert classify(None, text, operation=operation)[0] == name


def test_the_start_and_the_end_of_a_long_text_are_looked_at() -> None:
    filler = "x" * (HEAD + TAIL)
    assert classify(None, f"ENOSPC {filler}")[0] == "DiskFullError"
    assert classify(None, f"{filler}\nExit code 3")[0] == "CommandFailedError"
    assert classify(None, f"{filler}\nExit code 3\n{filler}")[0] == "UnknownError"


def test_a_text_in_the_place_of_a_name_is_read_as_text() -> None:
    assert classify("The SEARCH block:\nx\n...does not match anything in the file.")[0] == "ContentNotFoundError"


words = st.one_of(
    st.none(), st.text(), st.sampled_from(["Error", "TimeoutError", "a::b", "x.y:Z", "404", "\ud800", "{", "…"])
)


@given(
    source=st.sampled_from(["", "loopr", "nobody"]),
    operation=st.sampled_from(["tool", "model", "agent", ""]),
    reported=words,
    shape=st.lists(st.text()).map(tuple),
    status=st.one_of(st.none(), st.integers()),
    text=words,
    kind=words,
)
def test_every_error_gets_a_class_and_a_reason(
    source: str,
    operation: str,
    reported: str | None,
    shape: tuple[str, ...],
    status: int | None,
    text: str | None,
    kind: str | None,
) -> None:
    name, by = TAXONOMY.classify(Evidence(source, operation, kind, reported, shape, status, text))
    assert name in TAXONOMY.classes
    assert by in ("reported", "alias", "shape", "status", "message", "none")
    assert TAXONOMY.defaults(name, source).name == name
