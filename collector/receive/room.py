"""Limits on bodies being received: total memory, and time per body."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from collector import telemetry
from collector.errors import Rejected, Unavailable

PATIENCE_S = 10.0  # for one body, plus a second for every RATE bytes received
RATE = 16 << 10


class Room:
    """Memory for all bodies being received, `limit` bytes in total."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0

    async def body(self, parts: AsyncIterator[bytes], largest: int) -> bytes:
        """All parts of a body as one.

        Raises Rejected 413 for more than `largest` bytes, Unavailable where there is no room or they come too slowly.
        """
        loop = asyncio.get_running_loop()
        taken: list[bytes] = []
        size, began = 0, loop.time()
        try:
            async with asyncio.timeout(PATIENCE_S) as patience:
                async for part in parts:
                    if size + len(part) > largest:
                        raise Rejected(f"the body is larger than {largest} bytes", 413)
                    alone = self._held <= size  # one body may exceed the limit by itself
                    if not alone and self._held + len(part) > self._limit:
                        raise Unavailable("too much is being received", retry_after=2, status=429)
                    size += len(part)
                    self._hold(len(part))
                    taken.append(part)
                    patience.reschedule(began + PATIENCE_S + size / RATE)
        except TimeoutError:
            raise Unavailable(f"the body arrived too slowly: {size} bytes so far", 5, reason="too_slow") from None
        finally:
            self._hold(-size)
        return b"".join(taken)

    def _hold(self, more: int) -> None:
        self._held += more
        telemetry.RECEIVING_BYTES.set(self._held)
