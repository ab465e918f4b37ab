"""The gRPC door: the three OTLP export services, over the same intake as HTTP.

Messages arrive as bytes and are parsed in the pipeline like an HTTP body, so that both doors refuse and mend alike.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NoReturn

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from collector import telemetry
from collector.access.rights import INGEST, Access, check_once
from collector.access.tokens import Tokens
from collector.batch import Body, Receipt
from collector.decode.otlp import PROTOBUF
from collector.errors import Rejected, Unavailable, grpc_code
from collector.receive.http import otlp_answer
from collector.receive.intake import Intake
from collector.settings import Settings

SERVICES = {
    "opentelemetry.proto.collector.logs.v1.LogsService": "logs",
    "opentelemetry.proto.collector.trace.v1.TraceService": "traces",
    "opentelemetry.proto.collector.metrics.v1.MetricsService": "metrics",
}
MESSAGE_S = 60
TURN_S = 5  # while a few others wait, most of whom give up after ten seconds
SHORTEST_TURN_S = 0.2  # while hundreds do; 60 MiB arrive in it on one machine
READERS = 16  # messages received at a time: each may take as much memory as the largest allowed
MOST, MOST_OF_ONE = 1_024, 64  # calls whose message has not arrived: of all connections, and of one

CODES = {code.value[0]: code for code in grpc.StatusCode}


class Turns:
    """Lets READERS calls receive their messages at a time, for as long as they like if nobody waits.

    The more wait, the sooner a turn ends. The next turn is for the connection with the fewest calls here, so that one
    call is received soon, however many others open and do not use.
    """

    def __init__(self) -> None:
        self._free = READERS
        self._waiting: dict[asyncio.Future[None], str] = {}  # for which connection, the earliest first
        self._receiving: dict[asyncio.Timeout, float] = {}  # since when, of turns that have no end yet
        self._calls: Counter[str] = Counter()  # here, of each connection

    @asynccontextmanager
    async def turn(self, connection: str) -> AsyncIterator[None]:
        """Waits for a turn. Raises TimeoutError after MESSAGE_S, or where the turn was given to another call, and
        Unavailable where too many wait already.
        """
        if self._calls[connection] >= MOST_OF_ONE or self._calls.total() >= MOST:
            raise Unavailable("too many calls wait for their messages", 2, status=429)
        self._calls[connection] += 1
        try:
            async with asyncio.timeout(MESSAGE_S) as patience:
                await self._begin(connection)
                self._receiving[patience] = asyncio.get_running_loop().time()
                if self._waiting:
                    self._end_earliest()
                try:
                    yield
                finally:
                    self._receiving.pop(patience, None)
                    self._pass_on()
        finally:
            self._calls -= Counter((connection,))

    async def _begin(self, connection: str) -> None:
        if self._free:
            self._free -= 1
            return
        mine = asyncio.get_running_loop().create_future()
        self._waiting[mine] = connection
        self._end_earliest()
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():  # it was this call's turn at the same moment
                self._pass_on()
            raise
        finally:
            self._waiting.pop(mine, None)

    def _pass_on(self) -> None:
        """Gives a turn that has ended to the next call."""
        waiting = [each for each in self._waiting if not each.done()]
        if waiting:
            min(waiting, key=lambda each: self._calls[self._waiting[each]]).set_result(None)
        else:
            self._free += 1

    def _end_earliest(self) -> None:
        """Sets an end to the earliest turn that has none."""
        earliest = next(iter(self._receiving), None)
        if earliest and not earliest.expired():
            length = max(TURN_S * READERS / (READERS + len(self._waiting)), SHORTEST_TURN_S)
            now = asyncio.get_running_loop().time()
            earliest.reschedule(max(now, self._receiving.pop(earliest) + length))


def grpc_server(intake: Intake, settings: Settings, tokens: Tokens, scrub: Callable[[str], str]) -> grpc.aio.Server:
    """A server for `settings.grpc`, not started."""
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", settings.max_body),
            # Clients may ping as often as they like, with and without calls; our own pings detect vanished ones.
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_ping_strikes", 0),
            ("grpc.keepalive_time_ms", 60_000),
            ("grpc.max_concurrent_streams", 2 * MOST_OF_ONE),  # of a connection; its client keeps further calls back
            ("grpc.so_reuseport", 0),  # a second collector on the port must fail, not share it
        ]
    )
    turns = Turns()
    for service, signal in SERVICES.items():
        # A unary call on the wire; but so the message is read after the token check, and with a time limit.
        handler: Any = grpc.stream_unary_rpc_method_handler(_export(intake, tokens, signal, turns, scrub))
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"Export": handler}),))
    return server


def _export(
    intake: Intake, tokens: Tokens, signal: str, turns: Turns, scrub: Callable[[str], str]
) -> Callable[[Any, grpc.aio.ServicerContext[Any, Any]], Awaitable[bytes]]:
    async def export(_: Any, context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        refused: Rejected | Unavailable | None = None
        try:
            metadata = [(str(name), str(value)) for name, value in context.invocation_metadata() or ()]
            check_once(name for name, _ in metadata)
            access = tokens.admit(dict(metadata), INGEST)
            receipt = await _taken(intake, signal, access, context, turns)
        except (Rejected, Unavailable) as error:
            refused = error.with_traceback(None)  # the context keeps the exception, whose traceback would keep the body
        if refused:
            telemetry.REQUESTS.labels(f"grpc {signal}", refused.status).inc()
            telemetry.REFUSED.labels(refused.reason).inc()
            await _abort(context, refused, scrub(str(refused)))
        telemetry.REQUESTS.labels(f"grpc {signal}", 200).inc()
        return otlp_answer(receipt, signal)

    return export


async def _taken(
    intake: Intake, signal: str, access: Access, context: grpc.aio.ServicerContext[Any, Any], turns: Turns
) -> Receipt:
    """The receipt of a call's message, as `Intake.take`. Raises Unavailable also where the message comes too slowly."""
    try:
        async with turns.turn(context.peer()):
            body = await context.read()
    except TimeoutError:
        raise Unavailable("the message arrived too slowly", 5, reason="too_slow") from None
    if not isinstance(body, bytes):  # the library has refused it and told the client, but nobody else
        raise Rejected("the message is missing, too large, or cannot be decompressed", 413)
    return await intake.take(Body(body, PROTOBUF, signal, access.project or ""), access.meter)


async def _abort(context: grpc.aio.ServicerContext[Any, Any], error: Rejected | Unavailable, said: str) -> NoReturn:
    """Ends the call with the code of the error; RetryInfo says when to come back (OTLP: "OTLP/gRPC Throttling")."""
    status = Status(code=grpc_code(error.status), message=said)
    if isinstance(error, Unavailable):
        detail, delay = AnyMessage(), error.spread()
        detail.Pack(RetryInfo(retry_delay=Duration(seconds=int(delay), nanos=int(delay % 1 * 1e9))))
        status.details.append(detail)
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    await context.abort(CODES[status.code], status.message)
