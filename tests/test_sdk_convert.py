"""What the SDK makes of exceptions of common libraries, and what it repeats."""

from __future__ import annotations

import asyncio
import errno
import json
import socket
import sqlite3
import ssl
import subprocess
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import misstep_sdk as misstep
import pydantic
import pytest
from misstep_sdk import errors
from misstep_sdk.retries import delay

REQUEST = httpx.Request("POST", "https://api.example/v1")


def caught(function: Any, *args: Any, **kwargs: Any) -> BaseException:
    try:
        function(*args, **kwargs)
    except Exception as exception:
        return exception
    raise AssertionError("nothing was raised")


def status(code: int, headers: dict[str, str] | None = None) -> httpx.HTTPStatusError:
    return httpx.HTTPStatusError(f"{code}", request=REQUEST, response=httpx.Response(code, headers=headers))


def of_a_provider(name: str, code: int, told: str = "", message: str = "no") -> Exception:
    """An error as the libraries of openai and anthropic make them."""
    error: Any = type(name, (Exception,), {"__module__": "openai"})(message)
    error.response, error.body = httpx.Response(code), {"error": {"type": told, "message": message}}
    return error  # type: ignore[no-any-return]


async def in_a_group(function: Any, *args: Any) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(60))
        group.create_task(asyncio.to_thread(function, *args))


class Call(pydantic.BaseModel):
    path: str
    line: int


@pytest.mark.parametrize(
    ("exception", "kind", "target"),
    [
        (caught(open, "/nowhere/a.py"), errors.FileNotFoundError, "/nowhere/a.py"),
        (caught(open, "/"), errors.NotAFileError, "/"),
        (FileExistsError(errno.EEXIST, "File exists", "a.py"), errors.FileExistsError, "a.py"),
        (NotADirectoryError(errno.ENOTDIR, "Not a directory", "a/b"), errors.NotAFileError, "a/b"),
        (PermissionError(errno.EACCES, "Permission denied", "/root/x"), errors.PermissionDeniedError, "/root/x"),
        (OSError(errno.ENOSPC, "No space left on device"), errors.DiskFullError, None),
        (FileNotFoundError("no such file: 'src/app.py'"), errors.FileNotFoundError, "src/app.py"),
        (ConnectionResetError("reset"), errors.ConnectionError, None),
        (socket.gaierror(-2, "Name or service not known"), errors.ConnectionError, None),
        (TimeoutError("slow"), errors.ToolTimeoutError, None),
        (TimeoutError(), errors.ToolTimeoutError, None),
        (
            subprocess.CalledProcessError(1, ["make", "test"], stderr=b"1 failed"),
            errors.CommandFailedError,
            "make test",
        ),
        (subprocess.CalledProcessError(127, "pnpm i", stderr="pnpm: not found"), errors.CommandNotFoundError, "pnpm i"),
        (subprocess.TimeoutExpired("sleep 9", 2), errors.CommandTimeoutError, "sleep 9"),
        (caught(Call), errors.MissingParameterError, None),
        (caught(Call, path="a", line="x"), errors.InvalidParameterError, None),
        (caught(Call, line="x"), errors.InvalidParameterError, None),
        (caught(json.loads, "{"), errors.MalformedToolCallError, None),
        (status(429, {"retry-after": "7"}), errors.RateLimitError, None),
        (status(401), errors.ToolAuthenticationError, None),
        (status(402), errors.QuotaError, None),
        (status(403), errors.ToolPermissionError, None),
        (status(404), errors.ResourceNotFoundError, None),
        (status(409), errors.ApiError, None),
        (status(503), errors.ServerError, None),
        (status(529), errors.OverloadedError, None),
        (httpx.ReadTimeout("slow"), errors.ToolTimeoutError, None),
        (httpx.ConnectError("refused"), errors.ConnectionError, None),
        (httpx.RemoteProtocolError("closed"), errors.ConnectionError, None),
        (httpx.UnsupportedProtocol("no http://"), errors.InvalidParameterError, None),
        (httpx.InvalidURL("Invalid port"), errors.InvalidParameterError, None),
        (httpx.StreamConsumed(), errors.ToolExecutionError, None),
        (OSError(errno.EROFS, "Read-only file system", "a"), errors.PermissionDeniedError, "a"),
        (OSError(errno.ENOTEMPTY, "Directory not empty", "a"), errors.FileExistsError, "a"),
        (OSError(errno.EMFILE, "Too many open files"), errors.IoError, None),
        (OSError(errno.EHOSTUNREACH, "No route to host"), errors.ConnectionError, None),
        (OSError(errno.ENAMETOOLONG, "File name too long", "a"), errors.InvalidParameterError, "a"),
        (ssl.SSLCertVerificationError(1, "certificate verify failed"), errors.ConnectionError, None),
        (caught(subprocess.run, ["no-such-program"]), errors.CommandNotFoundError, "no-such-program"),
        (caught(subprocess.run, ["ls"], cwd="/nowhere"), errors.FileNotFoundError, "/nowhere"),
        (caught(asyncio.run, in_a_group(open, "/nowhere/a.py")), errors.FileNotFoundError, "/nowhere/a.py"),
        (caught(asyncio.run, in_a_group(int, "x")), errors.ToolExecutionError, None),
        (asyncio.IncompleteReadError(b"", 4), errors.ConnectionError, None),
        (caught(len), errors.ToolExecutionError, None),
        (caught(caught), errors.MissingParameterError, None),
        (caught(status, 400, header="x"), errors.InvalidParameterError, None),
        (caught(b"\xff".decode), errors.NotAFileError, None),
        (RecursionError("too deep"), errors.ToolExecutionError, None),
        (of_a_provider("RateLimitError", 429, "insufficient_quota"), errors.QuotaError, None),
        (of_a_provider("APIStatusError", 200, "overloaded_error"), errors.OverloadedError, None),
        (sqlite3.OperationalError("locked"), errors.SqliteError, None),
        (asyncio.CancelledError(), errors.StreamAbortedError, None),
        (KeyboardInterrupt(), errors.UserInterruptError, None),
        (ValueError("anything"), errors.ToolExecutionError, None),
        (ValueError(), errors.ToolExecutionError, None),
        (errors.NoChangeError("same"), errors.NoChangeError, None),
    ],
    ids=lambda value: getattr(value, "__name__", None) or f"{type(value).__name__}-{value}"[:40],
)
def test_an_exception_becomes_a_class_of_the_taxonomy(
    exception: BaseException, kind: type[errors.AgentError], target: str | None
) -> None:
    error = misstep.as_agent_error(exception, tool="some_tool")
    assert (type(error), error.target, error.tool) == (kind, target, "some_tool")
    assert str(error)
    assert error is exception or error.__cause__ is exception


def test_what_the_library_says_is_kept() -> None:
    limited = misstep.as_agent_error(status(429, {"retry-after": "7"}))
    assert (limited.retry_after, limited.status_code) == (7.0, 429)
    later = format_datetime(datetime.now(UTC) + timedelta(minutes=2), usegmt=True)
    for told, least, most in (
        ({"retry-after": later}, 60, 120), ({"retry-after": "Sat, 01 Nov 2025 10:00:00 GMT"}, 0, 0),
        ({"retry-after": "9", "retry-after-ms": "1500"}, 1.5, 1.5), ({"retry-after": "-3"}, 0, 0),
    ):  # fmt: skip
        assert least <= (misstep.as_agent_error(status(429, told)).retry_after or 0) <= most, told
    for told_badly in ("soon", "nan", "inf", "Fri, 99 Nov 2026"):
        assert misstep.as_agent_error(status(429, {"retry-after": told_badly})).retry_after is None
    missing = misstep.as_agent_error(caught(Call, line=1))
    assert (str(missing), "'path'" in missing.suggestion) == ("Missing required parameter: path", True)
    failed = misstep.as_agent_error(subprocess.CalledProcessError(2, "make", stderr=b"no rule"))
    assert isinstance(failed, errors.CommandFailedError)
    assert (failed.exit_code, failed.stderr) == (2, "no rule")


@pytest.mark.parametrize(
    ("exception", "kind"),
    [
        (TimeoutError("slow"), errors.TimeoutError),
        (status(401), errors.AuthenticationError),
        (ValueError("anything"), errors.UnknownError),
        (caught(Call), errors.InvalidResponseError),
        (caught(json.loads, "{"), errors.InvalidResponseError),
        (status(403), errors.AuthenticationError),
        (status(404), errors.ModelNotFoundError),
        (status(409), errors.OverloadedError),
        (httpx.InvalidURL("Invalid port"), errors.ApiError),
        (RecursionError("too deep"), errors.UnknownError),
        (of_a_provider("BadRequestError", 400, "context_length_exceeded"), errors.ContextOverflowError),
        (of_a_provider("BadRequestError", 400, message="prompt is too long: 9 tokens"), errors.ContextOverflowError),
        (of_a_provider("BadRequestError", 400, message="Your credit balance is too low"), errors.QuotaError),
        (of_a_provider("BadRequestError", 400, "content_filter"), errors.RefusedError),
        (of_a_provider("BadRequestError", 400, "invalid_value"), errors.ApiError),
        (of_a_provider("NotFoundError", 404, "not_found_error"), errors.ModelNotFoundError),
        (of_a_provider("APIError", 200, "server_error"), errors.ServerError),
        (of_a_provider("APIStatusError", 529), errors.OverloadedError),
        (of_a_provider("APIError", 200, message="Overloaded"), errors.OverloadedError),
    ],
    ids=str,
)
def test_of_a_model_it_is_the_providers(exception: Exception, kind: type[errors.AgentError]) -> None:
    assert type(misstep.as_agent_error(exception, model=True)) is kind


@pytest.mark.parametrize(
    ("message", "path"),
    [
        ("No such file or directory: '/src/a b.ts'", "/src/a b.ts"),
        ('ENOENT: no such file or directory, open "src/utils/helper.ts"', "src/utils/helper.ts"),
        ("File not found: packages/core/src/ChatError.ts", "packages/core/src/ChatError.ts"),
        ("Resource not found: repo/issues/7", "repo/issues/7"),
        ("cannot stat ~/notes/today.md: gone", "~/notes/today.md"),
        ("the file ./a.py (deleted)", "./a.py"),
        ("`config.yaml` does not exist", "config.yaml"),
        ("it is not there", None),
        ("", None),
    ],
)
def test_a_path_is_found_in_a_message(message: str, path: str | None) -> None:
    assert misstep.path_in(message) == path


@pytest.mark.parametrize("part", ["a", "/a", "'a", ". ", "a.b", "not found: ", "./"])
def test_a_long_message_is_read_in_bounded_time(part: str) -> None:
    began = time.process_time()
    misstep.path_in(part * 100_000)
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize(
    ("exception", "expected"),
    [
        (errors.RateLimitError(5), 5),
        (errors.ServerError("x"), 5.0),
        (errors.ConnectionError("x"), 2.0),
        (errors.TimeoutError("x"), 1.0),
        (errors.OverloadedError("x"), True),
        (errors.MissingParameterError("path"), False),
        (errors.AuthenticationError("x"), False),
        (errors.StreamAbortedError("x"), False),
        (errors.ServerError("x", retryable=False), False),
        (errors.ServerError("x", fatal=True), False),
        (httpx.ConnectError("refused"), 2.0),
        (ValueError("x"), False),
    ],
)
def test_only_what_may_work_when_repeated_is(exception: Exception, expected: float | bool) -> None:
    assert delay(exception) == expected


def test_an_error_is_repeated_as_often_as_it_is_told_and_then_raised() -> None:
    tried = []

    @misstep.retry(attempts=4)
    def ask() -> str:
        tried.append(1)
        raise errors.OverloadedError("busy", retry_after=0)

    with pytest.raises(errors.OverloadedError):
        ask()
    assert len(tried) == 4


def test_an_async_call_is_repeated_until_it_works() -> None:
    tried = []

    @misstep.retry()
    async def ask() -> str:
        tried.append(1)
        if len(tried) < 2:
            raise errors.ServerError("502", retry_after=0)
        return "fine"

    assert (asyncio.run(ask()), len(tried)) == ("fine", 2)


def test_what_need_not_stop_the_conversation_is_a_result() -> None:
    @misstep.answering
    def read(path: str) -> str:
        return open(path).read()

    answer: Any = read("/nowhere/a.py")
    assert (answer["ok"], answer["error_class"], answer["target"]) == (False, "FileNotFoundError", "/nowhere/a.py")


def test_what_fails_among_the_items_of_a_generator_can_be_neither_answered_nor_repeated() -> None:
    async def items() -> Any:
        yield 1

    for around in (misstep.answering, misstep.retry(), misstep.tool(answer_errors=True)):
        with pytest.raises(TypeError, match="items is a generator, which cannot be"):
            around(items)


def test_what_must_stop_it_is_raised() -> None:
    @misstep.answering
    async def ask() -> str:
        raise status(402)

    with pytest.raises(errors.QuotaError):
        asyncio.run(ask())


def test_a_cancelled_call_stays_cancelled() -> None:
    @misstep.answering
    async def ask() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(ask())
