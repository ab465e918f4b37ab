"""When the correlator looks for what it no longer remembers: stored keys have no index, so that looking takes long.

The store is asked in each transaction while that is cheap. Later, with many stored keys, it is asked so rarely that it
takes a twentieth of the time, for all transactions since; what is found corrects events that are stored by then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

CHEAP_S = 0.025  # looking is worth it in each transaction: a twentieth of the half second between them (writer.py)
REST = 20  # times as long as looking took
MOST_REST_S = 30.0


class Later:
    """`begin` each transaction, `postpone` what it does not look for, and `end` it."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, spent: Callable[[], float] = time.thread_time
    ) -> None:
        """`spent` measures how long looking takes, without what others do on a busy machine."""
        self.looking = True  # in this transaction
        self._since_ns: int | None = None
        self._clock, self._spent = clock, spent
        self._took = self._next = 0.0

    def begin(self) -> int | None:
        """Decides whether the store is asked in this transaction, and returns for what else: for what was received
        since this time, None if nothing was postponed.
        """
        self.looking = self._clock() >= self._next
        self._took = 0.0
        if not self.looking:
            return None
        since_ns, self._since_ns = self._since_ns, None
        return since_ns

    def postpone(self, received_ns: int) -> None:
        """Some of what was received at this time was not looked for."""
        self._since_ns = received_ns if self._since_ns is None else min(received_ns, self._since_ns)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """To be held while the store is asked."""
        began = self._spent()
        try:
            yield
        finally:
            self._took += self._spent() - began

    def end(self) -> None:
        """Decides when it is asked again."""
        if self.looking and self._took > CHEAP_S:
            self._next = self._clock() + min(REST * self._took, MOST_REST_S)
