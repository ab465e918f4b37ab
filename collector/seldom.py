"""Which lines of a failure that lasts are worth logging."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

AGAIN_S = 60.0
MOST_REASONS = 4  # logged in that time
NUMBERS = re.compile(r"[\d.]+")  # ignored when comparing reasons


class Seldom:
    """Which reasons to log: each once a minute, and few in that time. For one thread at a time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said: dict[str, float] = {}  # when each was last logged

    def due(self, reason: str) -> bool:
        """Whether to log it now."""
        now, known = self._clock(), NUMBERS.sub("", reason)
        lately = {one: said for one, said in self._said.items() if now - said < AGAIN_S}
        if known in lately or len(lately) == MOST_REASONS:
            return False
        self._said = {**lately, known: now}
        return True
