"""Turns exceptions of common libraries into classes of the taxonomy, without importing any of those libraries."""

from __future__ import annotations

import asyncio
import errno
import subprocess
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from misstep_sdk import errors
from misstep_sdk.errors import AgentError
from misstep_sdk.paths import path_in

# Exceptions by the package that defines them and their name; the nearest class of an exception decides.
NAMED: Mapping[str, type[AgentError]] = {
    "anthropic.APIConnectionError": errors.ConnectionError,
    "anthropic.APIResponseValidationError": errors.InvalidResponseError,
    "anthropic.APITimeoutError": errors.TimeoutError,
    "anthropic.AuthenticationError": errors.AuthenticationError,
    "anthropic.InternalServerError": errors.ServerError,
    "anthropic.OverloadedError": errors.OverloadedError,
    "anthropic.PermissionDeniedError": errors.AuthenticationError,
    "anthropic.RateLimitError": errors.RateLimitError,
    "anthropic.RequestTooLargeError": errors.ContextOverflowError,
    "anthropic.ServiceUnavailableError": errors.OverloadedError,
    "builtins.BrokenPipeError": errors.ConnectionError,
    "builtins.ConnectionError": errors.ConnectionError,
    "builtins.FileExistsError": errors.FileExistsError,
    "builtins.FileNotFoundError": errors.FileNotFoundError,
    "builtins.IsADirectoryError": errors.NotAFileError,
    "builtins.KeyboardInterrupt": errors.UserInterruptError,
    "builtins.NotADirectoryError": errors.NotAFileError,
    "builtins.PermissionError": errors.PermissionDeniedError,
    "builtins.TimeoutError": errors.TimeoutError,
    "asyncio.CancelledError": errors.StreamAbortedError,
    "asyncio.TimeoutError": errors.TimeoutError,
    "concurrent.TimeoutError": errors.TimeoutError,
    "httpx.ConnectError": errors.ConnectionError,
    "httpx.DecodingError": errors.InvalidResponseError,
    "httpx.NetworkError": errors.ConnectionError,
    "httpx.ProtocolError": errors.ConnectionError,
    "httpx.ProxyError": errors.ConnectionError,
    "httpx.TimeoutException": errors.TimeoutError,
    "httpx.TooManyRedirects": errors.InvalidResponseError,
    "json.JSONDecodeError": errors.MalformedToolCallError,
    "openai.APIConnectionError": errors.ConnectionError,
    "openai.APIResponseValidationError": errors.InvalidResponseError,
    "openai.APITimeoutError": errors.TimeoutError,
    "openai.AuthenticationError": errors.AuthenticationError,
    "openai.ContentFilterFinishReasonError": errors.RefusedError,
    "openai.InternalServerError": errors.ServerError,
    "openai.LengthFinishReasonError": errors.OutputLimitError,
    "openai.PermissionDeniedError": errors.AuthenticationError,
    "openai.RateLimitError": errors.RateLimitError,
    "socket.gaierror": errors.ConnectionError,
    "sqlite3.Error": errors.SqliteError,
}
STATUSES: Mapping[int, type[AgentError]] = {
    401: errors.AuthenticationError,
    402: errors.QuotaError,
    408: errors.TimeoutError,
    413: errors.ContextOverflowError,
    429: errors.RateLimitError,
    504: errors.TimeoutError,
    529: errors.OverloadedError,
}
# What such an error is where a tool's call failed and no model was asked.
OF_TOOLS: Mapping[type[AgentError], type[AgentError]] = {
    errors.AuthenticationError: errors.ToolAuthenticationError,
    errors.TimeoutError: errors.ToolTimeoutError,
}
MISSING = ("missing", "missing_argument", "missing_positional_only_argument")  # pydantic's types of errors
MCP_CODES: Mapping[Any, type[AgentError]] = {
    -32000: errors.McpConnectionError,
    -32001: errors.McpConnectionError,
    -32002: errors.McpResourceError,
    -32601: errors.InvalidToolError,
    -32602: errors.InvalidParameterError,
    408: errors.McpConnectionError,
}
UNKNOWN_COMMAND = (126, 127)  # exit codes of a shell


def as_agent_error(exception: BaseException, *, tool: str | None = None, model: bool = False) -> AgentError:
    """The exception as one of the taxonomy's; an AgentError is returned as it is.

    `tool` names the tool that was called; `model`: a model was asked, so that a time limit is its. What nothing
    tells apart is a ToolExecutionError, of a model an UnknownError.
    """
    if isinstance(exception, AgentError):
        exception.tool = exception.tool or tool
        return exception
    error = _special(exception) or _by_name(exception, model)
    error.tool = error.tool or tool
    error.status_code = _status(exception)
    error.retry_after = _retry_after(exception, error.retry_after)
    error.__cause__ = exception
    return error


def _special(exception: BaseException) -> AgentError | None:
    """What takes more than the name of the exception's class."""
    looks = (_of_validation, _of_command, _of_full_disk, _of_mcp, _of_quota)
    return next((error for look in looks if (error := look(exception))), None)


def _by_name(exception: BaseException, model: bool) -> AgentError:
    message = str(exception) or type(exception).__name__
    otherwise = errors.UnknownError if model else errors.ToolExecutionError
    named = next((NAMED[name] for name in _names(exception) if name in NAMED), None)
    kind = named or _of_status(_status(exception)) or otherwise
    if not model:
        kind = OF_TOOLS.get(kind, kind)
    return kind.saying(message, target=_target(exception, kind, message))


def _names(exception: BaseException) -> Iterator[str]:
    """Package and name of the exception's class and of its parents, the nearest first."""
    for kind in type(exception).__mro__:
        yield f"{kind.__module__.partition('.')[0].lstrip('_')}.{kind.__name__}"


def _of_validation(exception: BaseException) -> AgentError | None:
    """pydantic: if all that is wrong is missing, the first that is; else the first that is invalid."""
    if not any(name.startswith("pydantic") and name.endswith(".ValidationError") for name in _names(exception)):
        return None
    listed: Callable[[], Any] = getattr(exception, "errors", list)
    wrong = [each for each in listed() if isinstance(each, dict)]
    first = next((each for each in wrong if str(each.get("type")) not in MISSING), None)
    place = ".".join(str(step) for step in (first or wrong[0]).get("loc", ())) if wrong else ""
    if wrong and not first:
        return errors.MissingParameterError(place)
    return errors.InvalidParameterError(place, str(first["msg"]) if first else str(exception))


def _of_command(exception: BaseException) -> AgentError | None:
    if isinstance(exception, subprocess.TimeoutExpired):
        return errors.CommandTimeoutError(exception.timeout, target=_command(exception.cmd))
    if not isinstance(exception, subprocess.CalledProcessError):
        return None
    stderr = exception.stderr or exception.output or ""
    text = stderr.decode(errors="replace") if isinstance(stderr, bytes) else str(stderr)
    if exception.returncode in UNKNOWN_COMMAND:
        return errors.CommandNotFoundError(text or str(exception), target=_command(exception.cmd))
    return errors.CommandFailedError(exception.returncode, text, target=_command(exception.cmd))


def _command(written: Any) -> str:
    return written if isinstance(written, str) else " ".join(map(str, written))


def _of_full_disk(exception: BaseException) -> AgentError | None:
    full = isinstance(exception, OSError) and exception.errno in (errno.ENOSPC, errno.EDQUOT)
    return errors.DiskFullError(str(exception)) if full else None


def _of_mcp(exception: BaseException) -> AgentError | None:
    """The MCP SDK's one exception: its code says whether the server answered."""
    if not any(name in ("mcp.McpError", "mcp.MCPError") for name in _names(exception)):
        return None
    code = getattr(getattr(exception, "error", None), "code", None)
    return MCP_CODES.get(code, errors.McpToolError).saying(str(exception))


def _of_quota(exception: BaseException) -> AgentError | None:
    told = getattr(exception, "code", None) == "insufficient_quota"
    return errors.QuotaError(str(exception)) if told else None


def _of_status(status: int | None) -> type[AgentError] | None:
    if status is None or status < 400:
        return None
    return STATUSES.get(status) or (errors.ServerError if status >= 500 else errors.ApiError)


def _status(exception: BaseException) -> int | None:
    for holder in (exception, getattr(exception, "response", None)):
        status = getattr(holder, "status_code", None) or getattr(holder, "status", None)
        if isinstance(status, int) and 100 <= status < 600:
            return status
    return None


def _retry_after(exception: BaseException, otherwise: float | None) -> float | None:
    """The delay in seconds of a response's Retry-After header."""
    headers: Any = getattr(getattr(exception, "response", None), "headers", None)
    told = headers.get("retry-after") if hasattr(headers, "get") else None
    try:
        return max(0.0, float(told)) if told else otherwise
    except ValueError:  # a date
        return otherwise


def _target(exception: BaseException, kind: type[AgentError], message: str) -> str | None:
    if isinstance(exception, OSError) and exception.filename is not None:
        return str(exception.filename)
    if issubclass(kind, (errors.FileOperationError, errors.ResourceError)):
        return path_in(message)
    return None


def was_cancelled(exception: BaseException) -> bool:
    """Whether the exception means that somebody stopped the call, rather than that it failed."""
    return isinstance(exception, (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit, errors.AbortError))
