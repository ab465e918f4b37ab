"""Puts batches into the journal, many with one synchronisation of the disk, then into the writer's queue.

A sender is answered once its batch is in the journal. While the store accepts no writes, the journal accepts nothing
either: what cannot be stored soon stays with its sender.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import dataclass

import structlog

from collector import telemetry
from collector.errors import Unavailable, where
from collector.journal.journal import Journal
from collector.journal.waiting import Waiting, next_lot
from collector.journal.writer import Writer
from collector.loop import Loop

JOURNAL = "journal"  # a part of the store that may fail by itself

log = structlog.get_logger()


@dataclass(slots=True)
class _Coming:
    packed: bytes
    records: int
    taken: asyncio.Future[asyncio.Future[bool]]
    stored: asyncio.Future[bool]

    def settle(self, failure: Unavailable | None) -> None:
        with suppress(RuntimeError):  # its loop has ended
            self.taken.get_loop().call_soon_threadsafe(self._answer, failure)

    def _answer(self, failure: Unavailable | None) -> None:
        if self.taken.done():  # the sender has disconnected
            return
        if failure:
            self.taken.set_exception(failure)
        else:
            self.taken.set_result(self.stored)


class Taker:
    """Call `start` first, and `close` once no more requests arrive, before the writer is closed."""

    def __init__(self, journal: Journal, writer: Writer) -> None:
        self._journal = journal
        self._writer = writer
        self._coming: deque[_Coming] = deque()
        self._loop = Loop("journal", self._turn, failed=_report)
        self._wake = self._loop.wake

    def start(self) -> None:
        """Starts the thread."""
        self._loop.start()

    def close(self) -> None:
        """Finishes the queue, then stops the thread."""
        self._loop.close()

    async def take(self, packed: bytes, records: int) -> asyncio.Future[bool]:
        """Returns once the batch is durable, with a future that resolves once it is stored: to True if the same request
        was stored before. Raises Unavailable.
        """
        loop = asyncio.get_running_loop()
        coming = _Coming(packed, records, loop.create_future(), loop.create_future())
        with self._wake:
            if self._loop.closing:
                raise Unavailable("the collector is stopping", retry_after=5)
            self._coming.append(coming)
            self._wake.notify()
        return await coming.taken

    def _turn(self) -> bool:
        lot = self._next()
        if not lot:
            return False
        try:
            failure = self._take(lot)
        except Exception as error:  # a defect of ours; the senders must not wait for ever
            _report(error, len(lot))
            failure = Unavailable("the collector failed on this request; its log says where", 30)
        for coming in lot:
            coming.settle(failure)
        return True

    def _next(self) -> list[_Coming]:
        """The next lot, once there is room for it; empty at the end."""
        with self._wake:
            self._wake.wait_for(lambda: self._coming or self._loop.closing)
            if not self._coming:
                return []
        self._writer.room()
        with self._wake:
            return next_lot(self._coming)

    def _take(self, lot: list[_Coming]) -> Unavailable | None:
        """Journals the whole lot or, returning the reason, nothing of it."""
        refused = Unavailable("the store accepts no writes at the moment; the collector's log says why", retry_after=5)
        if self._writer.refusing and not self._writer.settle():
            return refused
        try:
            positions = self._journal.append([coming.packed for coming in lot])
        except Unavailable as error:
            telemetry.FAILED.labels("journal").inc(len(lot))
            self._writer.complaint.made(str(error), len(lot), JOURNAL)
            return refused
        self._writer.complaint.over(JOURNAL)
        self._writer.put(
            [
                Waiting(coming.packed, position, coming.records, coming.stored)
                for coming, position in zip(lot, positions, strict=True)
            ]
        )
        return None


def _report(error: Exception, requests: int = 1) -> None:
    telemetry.FAILED.labels("journal").inc(requests)
    log.error("the journal failed", kind=type(error).__name__, where=where(error))
