"""What every door does with a request body: bound what is in flight, read it off the event loop, commit it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import structlog

from collector import telemetry
from collector.errors import Rejected, Unavailable, where
from collector.pipeline import Pipeline
from collector.store.correlate import Batch
from collector.store.writer import Writer

log = structlog.get_logger()


class Intake:
    """Takes request bodies one by one through the pipeline to the writer; refuses what does not fit into the queue."""

    def __init__(
        self, pipeline: Pipeline, writer: Writer, queue_bytes: int, clock: Callable[[], int] = time.time_ns
    ) -> None:
        self._pipeline = pipeline
        self._writer = writer
        self._queue_bytes = queue_bytes
        self._clock = clock
        self._in_flight = 0
        # One thread: a sanitiser cannot be shared, and under one interpreter lock a second thread would only wait.
        self._reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="pipeline")

    async def take(self, read: Callable[[Pipeline, int], Batch], size: int, signal: str) -> Batch:
        """Reads a body of `size` bytes with `read(pipeline, received_ns)` and returns its batch once it is durable.

        Raises Rejected for what can never be taken, Unavailable for what may be taken later.
        """
        if self._in_flight + size > self._queue_bytes and self._in_flight:
            telemetry.FAILED.labels("queue full").inc()
            raise Unavailable("too much is waiting to be stored", retry_after=2, status=429)
        self._in_flight += size
        telemetry.QUEUE_BYTES.set(self._in_flight)
        try:
            batch = await asyncio.get_running_loop().run_in_executor(self._reader, self._read, read)
            telemetry.RECEIVED.labels(signal).inc(batch.records)
            await self._writer.commit(batch)
            self._pipeline.stored(batch)
            return batch
        finally:
            self._in_flight -= size
            telemetry.QUEUE_BYTES.set(self._in_flight)

    def _read(self, read: Callable[[Pipeline, int], Batch]) -> Batch:
        try:
            return read(self._pipeline, self._clock())
        except (Rejected, Unavailable):
            raise
        except Exception as error:  # a defect of ours: the exporter must keep the batch, so not a 500
            telemetry.FAILED.labels("pipeline").inc()
            log.error("a request could not be read", kind=type(error).__name__, where=where(error))
            raise Unavailable("the collector failed on this request; its log says where", retry_after=30) from None

    def close(self) -> None:
        """Lets what is being read finish."""
        self._reader.shutdown(wait=True)
