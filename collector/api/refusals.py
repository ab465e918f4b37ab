"""Answers every error of a route: `{"error": {"message", …}}`; what that repeats of the request is sanitised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog
from litestar import Request, Response
from litestar.exceptions import HTTPException
from litestar.types import ExceptionHandlersMap

from collector.api.auditing import sent_path
from collector.api.representations import json_answer
from collector.errors import CalledOff, QueryTimeout, Rejected, Unavailable
from collector.query.filters import BadParameter

log = structlog.get_logger()

HttpRequest = Request[Any, Any, Any]


def _refusal(
    request: HttpRequest, error: Mapping[str, Any], status: int, headers: Mapping[str, str] | None = None
) -> Response[bytes]:
    scrub = request.app.state.scrub
    clean = {name: scrub(value) if isinstance(value, str) else value for name, value in error.items()}
    return json_answer({"error": clean}, status, headers)


def _bad_parameter(request: HttpRequest, error: BadParameter) -> Response[bytes]:
    return _refusal(
        request,
        {
            "parameter": error.parameter,
            "value": error.value,
            "message": error.message,
            "allowed": list(error.allowed),
        },
        400,
    )


def _rejected(request: HttpRequest, error: Rejected) -> Response[bytes]:
    headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}
    return _refusal(request, {"message": str(error)}, error.status, headers)


def _unavailable(request: HttpRequest, error: Unavailable) -> Response[bytes]:
    message = str(error)
    if isinstance(error, QueryTimeout):
        message += ": narrow the range, lower the limit, or ask for fewer measures"
    return _refusal(request, {"message": message}, error.status, {"Retry-After": str(max(1, round(error.retry_after)))})


def _http(request: HttpRequest, error: HTTPException) -> Response[bytes]:
    message, path = error.detail, sent_path(request.scope)  # sanitised before it is cut: no rule matches half a secret
    if error.status_code == 404:
        message = f"there is nothing at {path}; /openapi.json describes every address"
    elif error.status_code == 405:
        message = f"{request.method} is not allowed at {path}, only {(error.headers or {}).get('allow', 'others')}"
    elif error.status_code == 413:
        message = f"the body is larger than what is read at {path}: send less"
    return _refusal(request, {"message": message}, error.status_code, error.headers)


def _called_off(request: HttpRequest, _: CalledOff) -> Response[bytes]:
    return _refusal(request, {"message": "the client went away"}, 499)  # for logs and proxies: no client reads it


def _unexpected(request: HttpRequest, error: Exception) -> Response[bytes]:
    log.error("a request failed", path=sent_path(request.scope), exc_info=error)
    return _refusal(request, {"message": "this is a defect of Misstep: its log has the reason"}, 500)


def exception_handlers() -> ExceptionHandlersMap:
    """How every error of a route is answered: `{"error": {"message", …}}`."""
    return {
        BadParameter: _bad_parameter,
        Rejected: _rejected,
        Unavailable: _unavailable,
        CalledOff: _called_off,
        HTTPException: _http,
        Exception: _unexpected,
    }
