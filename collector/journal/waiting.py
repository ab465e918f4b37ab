"""Batches that wait: for the journal, then for the writer."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar

LOT_BYTES = 3 << 20  # Most in one transaction: a larger one delays everybody.


@dataclass(slots=True)
class Waiting:
    """A batch that is in the journal at `position`; `stored` resolves to whether the request was a repetition."""

    packed: bytes
    position: int
    records: int
    stored: asyncio.Future[bool] | None = None
    tries: int = 0  # failed attempts, at least AGAIN_S apart, for other reasons than a shortage
    tried: float = float("-inf")  # time of the last one counted
    aside: bool = False  # set aside: only an empty batch with its identity is stored

    def settle(self, repeated: bool) -> None:
        """Resolves `stored`, from any thread."""
        if self.stored is None:
            return
        with suppress(RuntimeError):  # its loop has ended
            self.stored.get_loop().call_soon_threadsafe(_set, self.stored, repeated)


def _set(future: asyncio.Future[bool], repeated: bool) -> None:
    if not future.done():
        future.set_result(repeated)


class Packed(Protocol):
    """Anything that waits with a packed batch."""

    packed: bytes


P = TypeVar("P", bound=Packed)


def next_lot(queue: deque[P]) -> list[P]:
    """Takes the next lot from a queue: about LOT_BYTES of batches, which are handled together."""
    lot: list[P] = []
    size = 0
    while queue and size < LOT_BYTES:
        lot.append(queue.popleft())
        size += len(lot[-1].packed)
    return lot
