"""What every HTTP request passes first: headers that cannot be read are refused before anything reads them."""

from __future__ import annotations

from typing import Any

import msgspec
import structlog
from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from collector import telemetry
from collector.access.rights import check_once, host_name
from collector.decode.otlp import media_type
from collector.errors import Rejected, Unavailable, where
from collector.projects import NOBODY, PROJECT
from collector.receive.http import status_body

log = structlog.get_logger()


class Entrance:
    """ASGI middleware that answers what the application cannot: 400 for such headers, 503 where it fails."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises what the application raises once its answer has begun: the server then closes the connection."""
        if scope["type"] != ScopeType.HTTP:
            await self._application(scope, receive, send)
            return
        PROJECT.set(NOBODY)  # until its token is known
        begun = False

        async def note(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            _check(scope)
            await self._application(scope, receive, note)
        except Rejected as error:
            telemetry.REFUSED.labels(error.reason).inc()
            await _refuse(scope, send, error)
        except Exception as error:
            if begun:
                raise
            telemetry.FAILED.labels("door").inc()
            log.error("a request failed", kind=type(error).__name__, where=where(error))
            await _refuse(scope, send, Unavailable("the collector failed on this request; its log says where", 30))


def _check(scope: Any) -> None:
    check_once(name.decode("latin-1") for name, _ in scope["headers"])
    host_name(_header(scope, b"host"))


def _header(scope: Any, wanted: bytes) -> str:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == wanted), "")


async def _refuse(scope: Any, send: Send, error: Rejected | Unavailable) -> None:
    body, kind = status_body(error, media_type(_header(scope, b"content-type")))
    if scope["path"].startswith("/api/"):
        body, kind = msgspec.json.encode({"error": {"message": str(error)}}), "application/json"
    headers = [(b"content-type", kind.encode()), (b"content-length", b"%d" % len(body))]
    if isinstance(error, Unavailable):
        headers.append((b"retry-after", b"%d" % error.retry_after))
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
