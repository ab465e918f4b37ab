"""A client that reads an answer slowly or not at all does not hold memory or a connection for long, or others up."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import httpx
import pytest

from collector.batch import Body, Receipt
from collector.errors import Unavailable, grpc_code
from collector.receive import grpc as door
from collector.receive import http_server
from collector.receive.delivery import PIECE, Delivery
from collector.setting_values import Address
from collector.settings import Settings
from tests.api import tokens
from tests.conftest import free_port

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
TOKENS = tokens(Settings())
LARGE = b"0123456789abcdef" * (1 << 20)  # far more than fits into the buffers of a connection


async def answering(scope: Any, receive: Any, send: Any) -> None:
    """An application: a large answer at `/large`, else two bytes."""
    body = LARGE if scope.get("path") == "/large" else b"{}"
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def streaming(scope: Any, receive: Any, send: Any) -> None:
    """An application: a large answer in pieces, after which it waits for its reader to leave."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(4):
        await send({"type": "http.response.body", "body": LARGE, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
    await receive()  # the request
    await receive()  # the client is gone, or has everything


def running(delivery: Delivery, ask: Callable[[int], Awaitable[None]]) -> None:
    """Calls `ask` with the port of a real server."""

    async def serve_and_ask() -> None:
        server = http_server.http_server(delivery, Address("127.0.0.1", port := free_port()))
        serving = asyncio.create_task(server.serve())
        await until(lambda: not refused(port))
        try:
            await asyncio.wait_for(ask(port), 60)
        finally:
            server.stop()  # type: ignore[no-untyped-call]
            await serving

    asyncio.run(serve_and_ask())


def refused(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not happened():
            await asyncio.sleep(0.02)


def left(connection: socket.socket) -> int:
    """How many bytes arrive until the other side closes the connection."""
    count = 0
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(1 << 20):
            count += len(part)
    return count


def test_who_does_not_read_is_let_go_and_others_are_served() -> None:
    delivery = Delivery(answering, limit=len(LARGE) + PIECE, piece_s=0.5)

    async def ask(port: int) -> None:
        url = f"http://127.0.0.1:{port}"
        idle = socket.create_connection(("127.0.0.1", port), timeout=30)
        idle.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: delivery.held > 0)
        async with httpx.AsyncClient(timeout=30) as client:
            second = await client.get(f"{url}/large")
            assert (second.status_code, second.headers["retry-after"]) == (503, "5")
            assert (await client.get(url)).content == b"{}"
            await until(lambda: delivery.held == 0)
            assert (await client.get(f"{url}/large")).content == LARGE
        assert await asyncio.to_thread(left, idle) < len(LARGE)
        idle.close()

    running(delivery, ask)


def test_a_connection_ends_from_which_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "UNREAD_MS", 500)
    delivery = Delivery(answering, piece_s=60)  # so that only the time limit of the connection ends it

    async def ask(port: int) -> None:
        idle = socket.create_connection(("127.0.0.1", port), timeout=30)
        idle.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: delivery.held > 0)
        await until(lambda: delivery.held == 0)
        idle.close()

    running(delivery, ask)


def test_a_message_that_does_not_come_over_grpc_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "MESSAGE_S", 0.3)

    async def nothing() -> Any:
        await asyncio.sleep(30)
        yield b""

    async def call() -> None:
        server = door.grpc_server(None, Settings(), TOKENS, str)  # type: ignore[arg-type]  # no message ever reaches the intake
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            export: Any = channel.stream_unary(EXPORT)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await asyncio.wait_for(export(nothing()), 20)
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
        assert "too slowly" in (refused.value.details() or "")
        await server.stop(0)

    asyncio.run(call())


def test_messages_that_do_not_come_make_room_for_those_that_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest one of them, and none while nobody waits."""
    monkeypatch.setattr(door, "READERS", 2)
    monkeypatch.setattr(door, "TURN_S", 5)
    ended: list[str] = []

    async def receive(turns: door.Turns, name: str, seconds: float) -> None:
        try:
            async with turns.turn(name):
                await asyncio.sleep(seconds)
                ended.append(name)
        except TimeoutError:
            ended.append(f"{name} gave up")

    async def calls() -> None:
        turns = door.Turns()
        stalled = [asyncio.create_task(receive(turns, f"stalled {number}", 60)) for number in range(2)]
        await asyncio.sleep(0)
        for each in turns._receiving:
            turns._receiving[each] -= 6  # as if they had begun so long ago
        await asyncio.sleep(0.1)
        assert ended == []
        await asyncio.wait_for(asyncio.gather(*(receive(turns, "quick", 0) for _ in range(3))), 4)
        await asyncio.gather(*stalled)

    asyncio.run(calls())
    assert ended == ["stalled 0 gave up", "stalled 1 gave up", "quick", "quick", "quick"]


class Taking:
    """An intake that takes everything."""

    async def take(self, body: Body, meter: object = None) -> Receipt:
        return Receipt(0, Counter(), "", 0, 0)


def test_calls_that_send_nothing_do_not_keep_others_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many on a few connections, then one call each on many: the turns become short."""
    monkeypatch.setattr(door, "TURN_S", 1)

    async def nothing() -> Any:
        await asyncio.sleep(30)
        yield b""

    def connected(port: int) -> grpc.aio.Channel:
        return grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)])

    async def slow(port: int, connections: int, calls: int) -> tuple[list[grpc.aio.Channel], list[Any]]:
        channels = [connected(port) for _ in range(connections)]
        opened: list[Any] = [channel.stream_unary(EXPORT)(nothing()) for channel in channels for _ in range(calls)]
        await asyncio.gather(*(call.wait_for_connection() for call in opened))
        return channels, opened

    async def attack() -> None:
        server = door.grpc_server(Taking(), Settings(), TOKENS, str)  # type: ignore[arg-type]
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        for connections, calls in ((4, 40), (80, 1)):
            channels, opened = await slow(port, connections, calls)
            async with connected(port) as channel:
                export: Any = channel.unary_unary(EXPORT)
                for _ in range(5):
                    await export(b"", timeout=20)
            for call in opened:
                call.cancel()
            await asyncio.gather(*(channel.close() for channel in channels))
        await server.stop(0)

    asyncio.run(attack())


def test_one_connection_cannot_have_all_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too much is refused with the time to come back, and counts no longer once it is given up."""
    monkeypatch.setattr(door, "MOST_OF_ONE", 2)
    monkeypatch.setattr(door, "MOST", 3)

    async def receive(turns: door.Turns, connection: str) -> None:
        async with turns.turn(connection):
            await asyncio.sleep(30)

    async def calls() -> None:
        turns = door.Turns()
        opened = [asyncio.create_task(receive(turns, connection)) for connection in "aab"]
        await asyncio.sleep(0)
        for connection in "abc":
            with pytest.raises(Unavailable, match="too many calls") as refused:
                await receive(turns, connection)
            assert (grpc_code(refused.value.status), refused.value.retry_after) == (8, 2)
        for each in opened:
            each.cancel()
        await asyncio.wait(opened)
        async with turns.turn("a"):
            assert turns._calls == {"a": 1}
        assert not turns._calls

    asyncio.run(calls())


def test_a_stream_is_passed_on_as_it_comes_and_to_its_end() -> None:
    delivery = Delivery(streaming)

    async def ask(port: int) -> None:
        async with httpx.AsyncClient(timeout=10) as client, client.stream("GET", f"http://127.0.0.1:{port}/") as answer:
            pieces, most = 0, 0
            async for piece in answer.aiter_bytes():
                pieces += len(piece)
                most = max(most, delivery.held)
            assert pieces == 4 * len(LARGE)
            assert most <= len(LARGE)

    running(delivery, ask)
