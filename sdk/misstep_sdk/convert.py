"""Turns exceptions of common libraries into classes of the taxonomy, without importing any of those libraries.

What an exception is called is looked up where the collector looks it up, so that both come to the same class.
"""

from __future__ import annotations

import asyncio
import errno
import math
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from misstep_sdk import errors
from misstep_sdk.errors import AgentError
from misstep_sdk.names import (
    BECOMES_OF_MODELS,
    BECOMES_OF_TOOLS,
    KNOWN_AS,
    KNOWN_AS_OF_MODELS,
    KNOWN_AS_OF_TOOLS,
    STATUSES,
    STATUSES_OF_MODELS,
)
from misstep_sdk.paths import path_in

# Exceptions by the package that defines them and their name, where the name alone says less or something else.
NAMED: Mapping[str, type[AgentError]] = {
    "anthropic.InternalServerError": errors.ServerError,
    "anthropic.PermissionDeniedError": errors.AuthenticationError,
    "anthropic.RequestTooLargeError": errors.ContextOverflowError,
    "anthropic.ServiceUnavailableError": errors.OverloadedError,
    "asyncio.CancelledError": errors.StreamAbortedError,
    "asyncio.IncompleteReadError": errors.ConnectionError,
    "asyncio.LimitOverrunError": errors.InvalidResponseError,
    "builtins.BrokenPipeError": errors.ConnectionError,
    "builtins.RecursionError": errors.ToolExecutionError,  # other libraries call a limit of turns so
    "builtins.UnicodeDecodeError": errors.NotAFileError,
    "httpx.DecodingError": errors.InvalidResponseError,
    "httpx.InvalidURL": errors.InvalidParameterError,
    "httpx.LocalProtocolError": errors.InvalidParameterError,
    "httpx.NetworkError": errors.ConnectionError,
    "httpx.ProtocolError": errors.ConnectionError,
    "httpx.ProxyError": errors.ConnectionError,
    "httpx.StreamError": errors.ToolExecutionError,
    "httpx.TimeoutException": errors.TimeoutError,
    "httpx.TooManyRedirects": errors.InvalidResponseError,
    "httpx.UnsupportedProtocol": errors.InvalidParameterError,
    "json.JSONDecodeError": errors.MalformedToolCallError,
    "openai.ContentFilterFinishReasonError": errors.RefusedError,
    "openai.PermissionDeniedError": errors.AuthenticationError,
    "sqlite3.Error": errors.SqliteError,
}
# Codes of the system that no other name of a class stands for.
ERRNOS: Mapping[int, type[AgentError]] = {
    errno.EFBIG: errors.InvalidParameterError,
    errno.EINVAL: errors.InvalidParameterError,
    errno.ELOOP: errors.InvalidParameterError,
    errno.ENAMETOOLONG: errors.InvalidParameterError,
}
# What the texts of providers tell where status and name only say that they did not like the request; the first counts.
TEXTS: tuple[tuple[re.Pattern[str], type[AgentError]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (r"context (length|window)|prompt is too long|too many (input |prompt )?tokens", errors.ContextOverflowError),
        (r"credit balance|insufficient (quota|balance|funds|credit)|current quota|billing", errors.QuotaError),
        (r"content (management|filter|policy)|safety system", errors.RefusedError),
        (r"\bmodel\b[^\n]{0,80}(does not exist|not found|not supported)", errors.ModelNotFoundError),
        (r"\boverloaded\b", errors.OverloadedError),
    )
)
# What Python says where a tool is called with arguments that it does not take.
ARGUMENTS: tuple[tuple[re.Pattern[str], type[AgentError]], ...] = (
    (re.compile(r"missing \d+ required (positional|keyword-only) argument"), errors.MissingParameterError),
    (re.compile(r"\(\) (got an unexpected keyword argument|takes \d+ )"), errors.InvalidParameterError),
)
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
LONGEST = 4_096  # characters of a text that are read
DEEPEST = 8  # groups of exceptions inside each other


def key(name: str) -> str:
    """The form in which names are compared: letters and digits, without a final Error or Exception."""
    bare = "".join(filter(str.isalnum, name.casefold()))
    for ending in ("exception", "error"):
        if bare.endswith(ending) and bare != ending:
            return bare[: -len(ending)]
    return bare


def _classes(*tables: Mapping[str, Any]) -> dict[Any, type[AgentError]]:
    """The classes by each of the names or numbers that mean them; later tables win."""
    return {
        each: getattr(errors, name)
        for table in tables
        for name, held in table.items()
        for each in (held.split() if isinstance(held, str) else held)
    }


_OF_MODELS_ALONE = _classes(KNOWN_AS_OF_MODELS)
# Each for tools (False) and for models (True).
_BY_NAME = {False: _classes(KNOWN_AS, KNOWN_AS_OF_TOOLS), True: _classes(KNOWN_AS, KNOWN_AS_OF_MODELS)}
_BY_STATUS = {False: _classes(STATUSES), True: _classes(STATUSES, STATUSES_OF_MODELS)}
_ELSEWHERE: dict[bool, dict[type[AgentError], type[AgentError]]] = {
    model: {getattr(errors, name): getattr(errors, other) for name, other in becomes.items()}
    for model, becomes in ((False, BECOMES_OF_TOOLS), (True, BECOMES_OF_MODELS))
}


def as_agent_error(exception: BaseException, *, tool: str | None = None, model: bool = False) -> AgentError:
    """The exception as one of the taxonomy's; an AgentError is returned as it is, a group as the first of its errors.

    `tool` names the tool that was called; `model`: a model was asked, so that a time limit is its. What nothing
    tells apart is a ToolExecutionError, of a model an UnknownError.
    """
    alone = _first(exception)
    if isinstance(alone, AgentError):
        alone.tool = alone.tool or tool
        return alone
    error = _special(alone, model) or _usual(alone, model)
    error.tool = error.tool or tool
    error.status_code = _status(alone)
    error.retry_after = _retry_after(alone, error.retry_after)
    error.__cause__ = exception
    return error


def _first(exception: BaseException, deep: int = 0) -> BaseException:
    """The first error of an exception group, as of a TaskGroup, before those that were cancelled because of it."""
    inside: Any = getattr(exception, "exceptions", None)
    if deep == DEEPEST or not type(exception).__name__.endswith("ExceptionGroup") or not inside:
        return exception
    failed = [each for each in inside if not was_cancelled(each)]
    return _first((failed or inside)[0], deep + 1)


def _special(exception: BaseException, model: bool) -> AgentError | None:
    """What takes more than the name of the exception's class."""
    looks = (_of_program, _of_command, _of_full_disk, _of_mcp, *(() if model else (_of_validation, _of_arguments)))
    return next((error for look in looks if (error := look(exception))), None)


def _usual(exception: BaseException, model: bool) -> AgentError:
    message = str(exception) or type(exception).__name__
    kind = _of_system(exception) or _told(exception, model) or _named(exception, model) or _stated(exception, model)
    if kind is errors.ApiError or (model and kind is None):
        kind = next((finer for pattern, finer in TEXTS if pattern.search(message[:LONGEST])), kind)
    kind = kind or errors.ToolExecutionError
    if not was_cancelled(exception):
        kind = _ELSEWHERE[model].get(kind, kind)
    if model and kind is errors.ToolExecutionError:
        kind = errors.UnknownError
    return kind.saying(message, target=_target(exception, kind, message))


def _of_system(exception: BaseException) -> type[AgentError] | None:
    """By the system's code; those of other modules than Python's own have codes of their own."""
    if not isinstance(exception, OSError) or type(exception).__module__ != "builtins" or not exception.errno:
        return None
    return ERRNOS.get(exception.errno) or _BY_NAME[False].get(key(errno.errorcode.get(exception.errno, "")))


def _told(exception: BaseException, model: bool) -> type[AgentError] | None:
    """By the words in which a provider tells its errors apart: `code` and `type` of the exception and its answer."""
    body: Any = getattr(exception, "body", None)
    inner = body.get("error") if isinstance(body, Mapping) else None
    for holder in (exception, inner, body):
        for name in ("code", "type"):
            told = holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
            kind = _BY_NAME[model].get(key(told)) if isinstance(told, str) else None
            if kind and issubclass(kind, (errors.NetworkError, errors.StreamingError)):
                return kind
    return None


def _named(exception: BaseException, model: bool) -> type[AgentError] | None:
    """By the exception's class, or the nearest of its parents that has a name."""
    known = _BY_NAME[model]
    for name in _names(exception):
        bare = key(name.rpartition(".")[2])
        own = _OF_MODELS_ALONE.get(bare) if model else None
        if found := own or NAMED.get(name) or known.get(bare):
            return found
    return None


def _names(exception: BaseException) -> Iterator[str]:
    """Package and name of the exception's class and of its parents, the nearest first."""
    for kind in type(exception).__mro__:
        yield f"{kind.__module__.partition('.')[0].lstrip('_')}.{kind.__name__}"


def _stated(exception: BaseException, model: bool) -> type[AgentError] | None:
    """By the status of an HTTP answer."""
    status = _status(exception)
    if status is None or status < 400:
        return None
    return _BY_STATUS[model].get(status) or (errors.ServerError if status >= 500 else errors.ApiError)


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


def _of_arguments(exception: BaseException) -> AgentError | None:
    if not isinstance(exception, TypeError):
        return None
    text = str(exception)
    kind = next((kind for pattern, kind in ARGUMENTS if pattern.search(text[:LONGEST])), None)
    return kind.saying(text) if kind else None


def _of_program(exception: BaseException) -> AgentError | None:
    """A FileNotFoundError of subprocess: it is the program that is missing, unless it is the folder to run it in."""
    if not isinstance(exception, FileNotFoundError):
        return None
    frames = exception.__traceback__
    while frames and frames.tb_next:
        frames = frames.tb_next
    if not frames or frames.tb_frame.f_globals.get("__name__") != "subprocess":
        return None
    if str(exception.filename) == str(frames.tb_frame.f_locals.get("cwd")):
        return None
    return errors.CommandNotFoundError(str(exception), target=str(exception.filename))


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


def _status(exception: BaseException) -> int | None:
    for holder in (exception, getattr(exception, "response", None)):
        status = getattr(holder, "status_code", None) or getattr(holder, "status", None)
        if isinstance(status, int) and 100 <= status < 600:
            return status
    return None


def _retry_after(exception: BaseException, otherwise: float | None) -> float | None:
    """The delay in seconds that a response's headers tell: `retry-after-ms`, else Retry-After, a number or a date."""
    headers: Any = getattr(getattr(exception, "response", None), "headers", None)
    if not hasattr(headers, "get"):
        return otherwise
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        if told := headers.get(name):
            try:
                seconds = float(told) / unit
            except ValueError:
                seconds = _until(told)
            if math.isfinite(seconds):
                return max(0.0, seconds)
    return otherwise


def _until(date: str) -> float:
    """Seconds until a date of HTTP; not a number where it is none."""
    try:
        return parsedate_to_datetime(date).timestamp() - time.time()
    except (ValueError, OverflowError):
        return math.nan


def _target(exception: BaseException, kind: type[AgentError], message: str) -> str | None:
    if isinstance(exception, OSError) and exception.filename is not None:
        return str(exception.filename)
    if issubclass(kind, (errors.FileOperationError, errors.ResourceError)):
        return path_in(message)
    return None


def was_cancelled(exception: BaseException) -> bool:
    """Whether the exception means that somebody stopped the call, rather than that it failed; of a group, all of it."""
    inside = getattr(exception, "exceptions", None)
    if inside and type(exception).__name__.endswith("ExceptionGroup"):
        return all(map(was_cancelled, inside))
    return isinstance(exception, (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit, errors.AbortError))
