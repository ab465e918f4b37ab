"""Limits on large answers being sent: total memory, and time per chunk.

Given a whole answer, the server buffers it until the client has read it. Given chunks, it accepts the next one only
when the connection has room for it, so that a stalled client can be distinguished from one that reads.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from collector import telemetry

PIECE = 64 << 10
PIECE_S = 20.0  # per chunk: a client that reads less than about 3 KiB a second is cut off
MOST_BYTES = 128 << 20  # of large answers being sent; a single one may exceed it
ONCE = "/api/v1/backup/file"  # deleted once it has been sent, so that HEAD must not be answered like GET


class Delivery:
    """ASGI middleware that sends the answers of an application within these limits."""

    def __init__(self, application: ASGIApp, limit: int = MOST_BYTES, piece_s: float = PIECE_S) -> None:
        """`application` may answer whole or stream; a stream is passed on as it comes."""
        self._application = application
        self._limit = limit
        self._piece_s = piece_s
        self.held = 0  # bytes of large answers being sent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises TimeoutError where the client reads too slowly: the server then closes the connection."""
        if scope["type"] != ScopeType.HTTP:
            await self._application(scope, receive, send)
            return
        if scope["method"] == "HEAD" and scope["path"] != ONCE:  # sent by probes; the server drops the body
            scope = {**scope, "method": "GET"}
        answer: list[Any] = []
        streamed = False

        async def keep(message: Message) -> None:
            nonlocal streamed
            answer.append(message)
            streamed = streamed or bool(message.get("more_body"))
            if streamed:  # also the last message: the application waits until it is sent
                await self._in_pieces(answer, send)
                answer.clear()

        await self._application(scope, receive, keep)
        size = _size(answer)
        if size <= PIECE:
            for message in answer:
                await send(message)
        elif self.held and self.held + size > self._limit:
            telemetry.UNREAD.labels("no_room").inc()
            await _refuse(send)
        else:
            await self._in_pieces(answer, send)

    async def _in_pieces(self, answer: list[Any], send: Send) -> None:
        size = _size(answer)
        self.held += size
        try:
            for message in answer:
                body = message.get("body", b"")
                for at in range(0, max(len(body), 1), PIECE):
                    more = at + PIECE < len(body) or message.get("more_body", False)
                    piece: Any = {"body": body[at : at + PIECE], "more_body": more} if body else {}
                    async with asyncio.timeout(self._piece_s):
                        await send(message | piece)
        except TimeoutError:
            telemetry.UNREAD.labels("too_slow").inc()
            raise
        finally:
            self.held -= size


def _size(answer: list[Any]) -> int:
    return sum(len(message.get("body", b"")) for message in answer)


async def _refuse(send: Send) -> None:
    body = msgspec.json.encode({"error": {"message": "too many large answers are being read: ask for fewer rows"}})
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), (b"retry-after", b"5")]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
