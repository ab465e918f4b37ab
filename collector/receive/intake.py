"""What both doors do with a request body: limit what is in flight, read it off the event loop, have it journalled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from collector import telemetry
from collector.access.rights import Meter
from collector.batch import Body, Receipt
from collector.errors import Unavailable
from collector.journal.queue import Taker
from collector.receive.on_demand import OnDemand
from collector.receive.workers import Readers

if TYPE_CHECKING:
    from collector.forward.forward import Forwarder

T = TypeVar("T")


class Intake:
    """Takes request bodies through the readers into the journal; refuses what exceeds the in-flight limit."""

    def __init__(
        self,
        readers: Readers | OnDemand,
        taker: Taker,
        queue_bytes: int,
        forward: Forwarder | None = None,
        clock: Callable[[], int] = time.time_ns,
        accepted: int = 0,
    ) -> None:
        """`accepted` is the number of records accepted in earlier runs."""
        self._readers = readers
        self._taker = taker
        self._queue_bytes = queue_bytes
        self._forward = forward
        self._clock = clock
        self._in_flight = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self.accepted = accepted  # records in requests that were answered with success

    async def take(self, body: Body, meter: Meter | None = None) -> Receipt:
        """Reads a body and returns its receipt once it is durable; its bytes and records are counted by the meter.

        Goes on even if the sender disconnects meanwhile: it will send the body again, and a body that takes longer than
        its sender waits would otherwise never be stored.

        Raises Rejected for what can never be taken, Unavailable for what may be taken later.
        """
        began = time.perf_counter()
        taking = self._begin(self._take(body, meter))
        try:
            receipt = await asyncio.shield(taking)
            telemetry.ANSWER_SECONDS.observe(time.perf_counter() - began)
            return receipt
        finally:
            del taking  # breaks the cycle of task and exception

    def _begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # marks it as retrieved: nobody may be waiting for it

    async def _take(self, body: Body, meter: Meter | None) -> Receipt:
        size = len(body.content)
        if self._in_flight + size > self._queue_bytes and self._in_flight:
            raise Unavailable("too much is in flight", retry_after=2, status=429)
        self._hold(size)
        if meter:
            meter.count("bytes", size)
        try:
            readers, loop = self._readers, asyncio.get_running_loop()
            receipt, packed = await loop.run_in_executor(readers.pool, readers.read, body, self._clock())
            if meter:
                meter.count("events", receipt.records)
            telemetry.RECEIVED.labels(body.signal).inc(receipt.records)
            if receipt.failed:
                telemetry.FAILED.labels("pipeline").inc(receipt.failed)
            stored = await self._taker.take(packed, receipt.records)
            self._begin(self._follow(stored, body if self._forward else None, receipt.told_ns))
            self.accepted += receipt.records
            return receipt
        finally:
            self._hold(-size)

    async def _follow(self, stored: asyncio.Future[bool], body: Body | None, told_ns: dict[int, int]) -> None:
        """Forwards the copy and updates the readers once a request is stored."""
        size = len(body.content) if body else 0
        self._hold(size)
        try:
            repeated = await stored
            if self._forward and body and not repeated:
                self._forward.offer(body)
            self._readers.stored(told_ns)
        finally:
            self._hold(-size)

    def _hold(self, size: int) -> None:
        self._in_flight += size
        telemetry.QUEUE_BYTES.set(self._in_flight)

    async def followed(self, timeout_s: float) -> None:
        """Returns when nothing is left to do for any body, or the time is over."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)

    def close(self) -> None:
        """Lets the readers finish, then ends them."""
        self._readers.close()
