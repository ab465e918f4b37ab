"""What every door does with a request body: bound what is in flight, read it off the event loop, commit it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from collector import telemetry
from collector.errors import Unavailable
from collector.receive.workers import Body, Readers
from collector.store.changes import Batch
from collector.store.writer import Writer

if TYPE_CHECKING:
    from collector.forward.forward import Forwarder

QUEUE_REPORTS = 100_000  # that wait for the writer: about 4 kB of memory each


class Intake:
    """Takes request bodies through the readers to the writer; refuses what does not fit into the queue."""

    def __init__(
        self,
        readers: Readers,
        writer: Writer,
        queue_bytes: int,
        forward: Forwarder | None = None,
        clock: Callable[[], int] = time.time_ns,
        accepted: int = 0,
    ) -> None:
        """`accepted` is how many records were accepted before this start."""
        self._readers = readers
        self._writer = writer
        self._queue_bytes = queue_bytes
        self._forward = forward
        self._clock = clock
        self._in_flight = 0
        self._taking: set[asyncio.Task[Batch]] = set()
        self.accepted = accepted  # records in requests that were answered with success

    async def take(self, body: Body) -> Batch:
        """Reads a body and returns its batch once it is durable, also where the sender goes away meanwhile: he will
        send it again, and what was begun for nothing each time would never be done.

        Raises Rejected for what can never be taken, Unavailable for what may be taken later.
        """
        taking = asyncio.create_task(self._take(body))
        self._taking.add(taking)
        taking.add_done_callback(self._taken)
        try:
            return await asyncio.shield(taking)
        finally:
            del taking  # or its failure would hold it, and it the failure, until the next collection

    def _taken(self, taking: asyncio.Task[Batch]) -> None:
        self._taking.discard(taking)
        if not taking.cancelled():
            taking.exception()  # nobody may be there to hear it

    async def _take(self, body: Body) -> Batch:
        size = len(body.content)
        full = self._in_flight + size > self._queue_bytes or self._writer.reports > QUEUE_REPORTS
        if full and self._in_flight:
            raise Unavailable("too much is waiting to be stored", retry_after=2, status=429)
        self._in_flight += size
        telemetry.QUEUE_BYTES.set(self._in_flight)
        try:
            readers, loop = self._readers, asyncio.get_running_loop()
            with self._writer.coming():
                batch = await loop.run_in_executor(readers.pool, readers.read, body, self._clock())
            telemetry.RECEIVED.labels(body.signal).inc(batch.records)
            if batch.failed:
                telemetry.FAILED.labels("pipeline").inc(batch.failed)
            repeated = await self._writer.commit(batch)
            if self._forward and not repeated:
                self._forward.offer(body.content, body.media, body.signal)
            readers.stored(batch.told)
            self.accepted += batch.records
            return batch
        finally:
            self._in_flight -= size
            telemetry.QUEUE_BYTES.set(self._in_flight)

    def close(self) -> None:
        """Lets what is being read finish."""
        self._readers.close()
