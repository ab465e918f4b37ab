"""The HTTP door: OTLP in JSON and protobuf, and plain JSON on `/v1/events`. Knows bytes and answers only.

Every answer, errors too, has the encoding of the request (OTLP specification, "OTLP/HTTP Response").
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import structlog
from google.rpc.status_pb2 import Status
from litestar import Request, Response, post
from litestar.exceptions import HTTPException, InternalServerException
from litestar.types import ControllerRouterHandler, ExceptionHandlersMap

from collector import telemetry
from collector.access.rights import INGEST, OPEN
from collector.api.auditing import AUDIT
from collector.api.guard import RIGHT, admitted
from collector.batch import Body, Receipt
from collector.decode.answers import REJECTED, RESPONSES
from collector.decode.otlp import JSON, PROTOBUF, TOP_KEYS, media_type
from collector.errors import Rejected, Unavailable, grpc_code, where
from collector.receive.encoding import decompress
from collector.setting_values import Address
from collector.settings import Settings

PATHS = "post to /v1/logs, /v1/traces, /v1/metrics or /v1/events"
INLINE_BYTES = 64 << 10  # a compressed body up to this size is not worth a thread

# Of `/v1/events`. No page in a browser may send one of them without asking first.
LINES = (JSON, "application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines")

# Where the SDKs of Langfuse and LangWatch send to, whatever their address.
OTHERS = ("/api/public/otel/v1/traces", "/api/otel/v1/traces")

ADMITTED = {RIGHT: OPEN, AUDIT: ""}  # in `_answer`, whose refusals are told as OTLP says

log = structlog.get_logger()


@post(["/v1/logs", "/v1/traces", "/v1/metrics", *OTHERS], opt=ADMITTED, include_in_schema=False, status_code=200)
async def otlp(request: Request[Any, Any, Any]) -> Response[bytes]:
    """OTLP/HTTP."""
    return await _answer(request, request.url.path.rsplit("/", 1)[-1])


@post("/", opt=ADMITTED, include_in_schema=False, status_code=200)
async def anything(request: Request[Any, Any, Any]) -> Response[bytes]:
    """OTLP/JSON without a path; messages of protobuf cannot be distinguished by their bytes."""
    return await _answer(request, "")


@post(
    "/v1/events",
    opt=ADMITTED,
    status_code=200,
    summary="Plain JSON events",
    description="One object, an array or JSON lines: the log entries of Roo Code, KODE, OpenAgents and Loopr, and the "
    "hook payloads of Claude Code, Cursor and Copilot, as they are.",
)
async def events(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Plain JSON, for agents without OTLP."""
    return await _answer(request, "events")


def door_errors(others: ExceptionHandlersMap) -> ExceptionHandlersMap:
    """The same handlers, but whatever goes wrong under /v1/, or with a body for no path, is answered as OTLP says."""

    def at_the_door(otherwise: Callable[..., Any]) -> Callable[..., Any]:
        def handler(request: Request[Any, Any, Any], error: Exception) -> Any:
            path = "/" + request.url.path.lstrip("/")
            strange = request.method == "POST" and not path.startswith(("/api/", "/mcp"))
            ours = strange or path in OTHERS or path.startswith("/v1/")
            return _misdirected(request, error) if ours else otherwise(request, error)

        return handler

    return {kind: at_the_door(handler) for kind, handler in others.items()}


def _misdirected(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    media, status = _media(request), error.status_code if isinstance(error, HTTPException) else 503
    if status == 404 and media.startswith("application/grpc"):
        return _not_grpc(_settings(request).grpc)
    if status == 404:
        return _refusal(Rejected(f"nothing is accepted here; {PATHS}", 404), media, "unknown")
    if status == 405:
        return _refusal(Rejected(f"only POST is allowed here; {PATHS}", 405), media, "unknown")
    if status < 500:
        return _refusal(Rejected("the request cannot be read", status), media, "unknown")
    telemetry.FAILED.labels("door").inc()
    log.error("a request failed", kind=type(error).__name__, where=where(error))
    return _refusal(Unavailable("the collector failed on this request; its log says where", 30), media, "unknown")


def _not_grpc(place: Address) -> Response[bytes]:
    """An answer that gRPC clients show to people: status and message in the only headers there are."""
    error = Rejected(f"this port is for OTLP over HTTP; gRPC is on port {place.port}", 404)
    telemetry.REFUSED.labels(error.reason).inc()
    headers = {"grpc-status": str(grpc_code(error.status)), "grpc-message": str(error)}
    return Response(b"", status_code=200, media_type="application/grpc", headers=headers)


INGEST_ROUTES: list[ControllerRouterHandler] = [otlp, anything, events]


async def _answer(request: Request[Any, Any, Any], signal: str) -> Response[bytes]:
    media = _media(request)
    try:
        access = admitted(request, INGEST)
        if media not in (taken := LINES if signal == "events" else (JSON, PROTOBUF)):
            raise Rejected(f"this Content-Type is not supported; send {taken[0]} or {taken[1]}", 415)
        body = await _body(request)
        signal = signal or _signal_of(body, media)
        receipt = await request.app.state.intake.take(Body(body, media, signal, access.project or ""), access.meter)
    except (Rejected, Unavailable) as error:
        return _refusal(error, media, signal, request.app.state.scrub(str(error)))
    telemetry.REQUESTS.labels(signal, 200).inc()
    return _success(receipt, media, signal)


def _media(request: Request[Any, Any, Any]) -> str:
    return media_type(request.headers.get("content-type", ""))


def _settings(request: Request[Any, Any, Any]) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


async def _body(request: Request[Any, Any, Any]) -> bytes:
    """The decompressed body; stops reading at the limit."""
    limit = _settings(request).max_body
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:20]) > limit:
        raise Rejected(f"the body is larger than {limit} bytes", 413)
    try:
        body = await request.app.state.room.body(request.stream(), limit)
    except InternalServerException:  # what Litestar makes of a sender who goes away or breaks off a chunk
        raise Rejected("the body ended early") from None
    encoding = request.headers.get("content-encoding", "")
    if encoding and len(body) > INLINE_BYTES:
        return await asyncio.to_thread(decompress, body, encoding, limit)
    return decompress(body, encoding, limit)


def _signal_of(body: bytes, media: str) -> str:
    if media == JSON:
        for key, signal in TOP_KEYS.items():
            if f'"{key}"'.encode() in body[:200]:
                return signal
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            keys = msgspec.json.decode(body.strip() or b"{}", type=dict[str, msgspec.Raw])
            if not keys:  # a request of nothing, whatever its signal
                return "logs"
            if found := next((signal for key, signal in TOP_KEYS.items() if key in keys), ""):
                return found
    raise Rejected(f"nothing is accepted here; {PATHS}", 404)


def _success(receipt: Receipt, media: str, signal: str) -> Response[bytes]:
    if media == PROTOBUF:
        return Response(otlp_answer(receipt, signal), media_type=PROTOBUF)
    answer: dict[str, Any] = {}
    if receipt.warning:
        answer["partialSuccess"] = said = {"errorMessage": receipt.warning}
        if receipt.rejected:
            said[_camel(REJECTED.get(signal, "rejected_events"))] = str(receipt.rejected)  # 64-bit numbers are texts
    if signal == "events":
        answer["accepted"] = receipt.records - receipt.dropped.total()
    return Response(msgspec.json.encode(answer), media_type=JSON)


def otlp_answer(receipt: Receipt, signal: str) -> bytes:
    """The protobuf answer to a request that was taken."""
    message: Any = RESPONSES[signal]()
    if receipt.warning:
        message.partial_success.error_message = receipt.warning
    if receipt.rejected:
        setattr(message.partial_success, REJECTED[signal], receipt.rejected)
    return bytes(message.SerializeToString())


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.title, rest))


def _refusal(error: Rejected | Unavailable, media: str, signal: str, said: str = "") -> Response[bytes]:
    telemetry.REQUESTS.labels(signal or "/", error.status).inc()
    telemetry.REFUSED.labels(error.reason).inc()
    headers = {}
    if isinstance(error, Unavailable):
        headers["Retry-After"] = str(math.ceil(error.spread()))
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if error.status == 405:
        headers["Allow"] = "POST"
    body, kind = status_body(error, media, said)
    return Response(body, status_code=error.status, media_type=kind, headers=headers)


def status_body(error: Rejected | Unavailable, media: str, said: str = "") -> tuple[bytes, str]:
    """An error as OTLP tells it, in the encoding of the request, and that encoding."""
    status = Status(code=grpc_code(error.status), message=said or str(error))
    if media == PROTOBUF:
        return status.SerializeToString(), PROTOBUF
    return msgspec.json.encode({"code": status.code, "message": status.message}), JSON
