"""What the correlator looks up in the store later, because looking takes long: stored keys have no index.

The store is asked in each transaction while that is cheap. Later, with many stored keys, it is asked so rarely that it
takes a twentieth of the time, for all transactions since; what is found corrects events that are stored by then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

CHEAP_S = 0.05  # looking is worth it in each transaction
REST = 20  # times as long as looking took
MOST_REST_S = 30.0
MOST_KEYS = 300_000  # 20 MB; with more the store is asked at once


class Later:
    """Keys and traces to look for. `begin` each transaction, and `end` it."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, spent: Callable[[], float] = time.thread_time
    ) -> None:
        """`spent` measures how long looking takes, without what others do on a busy machine."""
        self.keys: set[int] = set()
        self.traces: dict[str, str | None] = {}  # with the session that their reports were given
        self.looking = True  # in this transaction
        self._clock, self._spent = clock, spent
        self._took = self._next = 0.0

    def begin(self) -> None:
        """Decides whether the store is asked in this transaction."""
        self.looking = self._clock() >= self._next or len(self.keys) > MOST_KEYS
        self._took = 0.0

    @contextmanager
    def timed(self) -> Iterator[None]:
        """To be held while the store is asked."""
        began = self._spent()
        yield
        self._took += self._spent() - began

    def end(self) -> None:
        """Decides when it is asked again."""
        if self.looking and self._took > CHEAP_S:
            self._next = self._clock() + min(REST * self._took, MOST_REST_S)
