"""Delivers copies: a bounded queue, a few requests at a time, retries, and counters by fate.

A copy is queued once its request is stored, and nothing that happens to it ever reaches the sender.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import Callable, Sequence
from time import time
from typing import NamedTuple
from urllib.parse import unquote_to_bytes, urlsplit

import httpx
import stamina
import structlog

from collector import telemetry
from collector.batch import Body
from collector.decode.answers import rejected
from collector.decode.otlp import media_type
from collector.errors import Rejected, Unavailable
from collector.loop import in_daemon
from collector.times import retry_after_s

PARALLEL = 4
TIMEOUT_S = 30
GIVE_UP_S = 300  # a copy that is not delivered by then is dropped
LONGEST_PAUSE_S = 60
MOST_READ = 64 << 10  # bytes of an answer
RETRIED = frozenset((429, 502, 503, 504))  # OTLP specification, "Retryable Response Codes"
SIGNALS = ("logs", "traces", "metrics")

log = structlog.get_logger()


class Answer(NamedTuple):
    """The beginning of what the endpoint answered to a request that it took."""

    body: bytes
    media_type: str


class Forwarder:
    """Takes copies with `offer` and delivers them to `endpoint`: a base address, or the full one of a single signal.

    `prepare` turns a copy into the body to send; it runs in a separate thread.
    """

    def __init__(
        self,
        endpoint: str,
        headers: Sequence[str] = (),
        queue_bytes: int = 64 << 20,
        prepare: Callable[[Body], bytes] = lambda copy: copy.content,
        give_up_s: float = GIVE_UP_S,
    ) -> None:
        self._addresses = _addresses(endpoint)
        self._headers = dict(_header(each) for each in headers)
        self._queue_bytes = queue_bytes
        self._prepare = prepare
        self._give_up_s = give_up_s
        self._waiting: asyncio.Queue[Body] = asyncio.Queue()
        self._bytes = 0
        self._failing = False
        parts = urlsplit(endpoint)
        self.place = f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)
        self._one = asyncio.Lock()
        self._client: httpx.AsyncClient | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def offer(self, copy: Body) -> None:
        """Queues a copy of a request; if the queue is full, drops and counts it."""
        if copy.signal not in self._addresses:
            return
        if self._bytes + len(copy.content) > self._queue_bytes:
            telemetry.FORWARDED.labels("queue_full").inc()
            return
        self._hold(len(copy.content))
        self._waiting.put_nowait(copy)

    def start(self) -> None:
        """Starts delivery."""
        logging.getLogger("httpx").setLevel(logging.WARNING)  # its INFO lines hold the address
        stamina.instrumentation.set_on_retry_hooks(())  # a line per attempt would be one per request
        # Decompressing could make any size of an answer.
        self._client = httpx.AsyncClient(timeout=TIMEOUT_S, headers={b"Accept-Encoding": b"identity"} | self._headers)
        self._tasks = [asyncio.create_task(self._work(self._client)) for _ in range(PARALLEL)]

    async def close(self, seconds: float) -> None:
        """Delivers queued copies for at most this long; the rest is dropped and counted."""
        try:
            await asyncio.wait_for(self._waiting.join(), seconds)
        except TimeoutError:
            log.warning("copies were not delivered before the collector stopped", to=self.place, bytes=self._bytes)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._client:
            await self._client.aclose()
        for _ in range(self._waiting.qsize()):
            telemetry.FORWARDED.labels("not_delivered").inc()

    def _hold(self, more: int) -> None:
        self._bytes += more
        telemetry.FORWARD_BYTES.set(self._bytes)

    async def _work(self, client: httpx.AsyncClient) -> None:
        while True:
            copy = await self._waiting.get()
            fate = "not_delivered"
            try:
                fate = await self._deliver(client, copy)
            finally:
                telemetry.FORWARDED.labels(fate).inc()
                self._hold(-len(copy.content))
                self._waiting.task_done()

    async def _deliver(self, client: httpx.AsyncClient, copy: Body) -> str:
        try:
            async with self._one:  # a sanitiser is not thread-safe
                body = await in_daemon(lambda: gzip.compress(self._prepare(copy), 1), "forward")
            headers = {"Content-Type": copy.media_type, "Content-Encoding": "gzip"}
            async for attempt in stamina.retry_context(
                on=_pause, attempts=None, timeout=self._give_up_s, wait_max=LONGEST_PAUSE_S
            ):
                with attempt:
                    answer = await self._post(client, self._addresses[copy.signal], body, headers)
        except Rejected as error:
            self._failed(str(error))
            return "refused"
        except Unavailable as error:
            self._failed(str(error))
            return "expired"
        except Exception as error:  # a defect of ours must not end the delivery
            telemetry.FAILED.labels("forward").inc()
            self._failed(type(error).__name__)
            return "refused"
        if refused := rejected(answer.body, answer.media_type, copy.signal):
            self._failed(f"{refused} records of a request were rejected")
            return "rejected"
        if self._failing:
            self._failing = False
            log.info("copies are accepted again", to=self.place)
        return "sent"

    async def _post(self, client: httpx.AsyncClient, address: str, body: bytes, headers: dict[str, str]) -> Answer:
        try:
            async with (
                asyncio.timeout(TIMEOUT_S),
                client.stream("POST", address, content=body, headers=headers) as answer,
            ):
                read = await _beginning(answer)
        except (httpx.TransportError, TimeoutError) as error:
            self._failed(type(error).__name__)
            raise Unavailable(f"cannot be reached: {type(error).__name__}", retry_after=0) from None
        if answer.status_code in RETRIED:
            self._failed(f"answered {answer.status_code}")
            after = retry_after_s(answer.headers.get("Retry-After", ""), time())
            raise Unavailable(f"answered {answer.status_code}", after or 0.0)
        if not answer.is_success:
            raise Rejected(f"answered {answer.status_code}")
        return Answer(read, media_type(answer.headers.get("Content-Type", "")))

    def _failed(self, reason: str) -> None:
        """Logs one line when delivery begins to fail; the counters have the rest."""
        if not self._failing:
            self._failing = True
            log.warning("copies are not accepted", to=self.place, reason=reason)


async def _beginning(answer: httpx.Response) -> bytes:
    """At most MOST_READ bytes of an answer, without decompressing them."""
    read = b""
    async for part in answer.aiter_raw(MOST_READ):
        read += part
        if len(read) >= MOST_READ:
            break
    return read[:MOST_READ]


def _pause(error: Exception) -> bool | float:
    """Whether to retry: after `Retry-After` if given, else after the usual growing pauses."""
    if not isinstance(error, Unavailable):
        return False
    return min(error.spread(), LONGEST_PAUSE_S) if error.retry_after else True


def _addresses(endpoint: str) -> dict[str, str]:
    base, _, signal = endpoint.rstrip("/").rpartition("/v1/")
    if base and signal in SIGNALS:
        return {signal: endpoint}
    return {signal: f"{endpoint.rstrip('/')}/v1/{signal}" for signal in SIGNALS}


def _header(text: str) -> tuple[bytes, bytes]:
    """As in OTEL_EXPORTER_OTLP_HEADERS: `name=value`, the value percent-encoded."""
    name, _, value = text.partition("=")
    return name.strip().encode(), unquote_to_bytes(value).strip()
