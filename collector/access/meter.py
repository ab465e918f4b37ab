"""What each named token uses: requests, bytes and events, in all and in this minute, and the limits on these."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

import msgspec

from collector import telemetry
from collector.errors import Unavailable

MINUTE_S = 60.0
Most = Annotated[int, msgspec.Meta(ge=0, le=(1 << 53) - 1)]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The most of each in a minute; 0: any number. `bytes` are those of decompressed bodies, `events` records."""

    requests: Most = 0
    bytes: Most = 0
    events: Most = 0


KINDS = Limits.__struct_fields__


class Meter:
    """Counts what one token uses, for one thread. A minute begins with the first request after the last one ended."""

    def __init__(self, name: str, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self.used = dict.fromkeys((*KINDS, "refused"), 0)
        self._name, self._clock = name, clock
        self._ends = 0.0
        self._minute = dict.fromkeys(KINDS, 0)

    def begin(self) -> None:
        """Counts a request. Raises Unavailable 429 where this minute's requests, bytes or events have reached a limit:
        a request is taken whole, however much it brings.
        """
        now = self._clock()
        if now >= self._ends:
            self._ends, self._minute = now + MINUTE_S, dict.fromkeys(KINDS, 0)
        for kind in KINDS:
            most = getattr(self.limits, kind)
            if most and self._minute[kind] >= most:
                self._add("refused", 1)
                said = f"the token {self._name!r} may use {most} {kind} a minute, and has"
                raise Unavailable(said, max(1.0, self._ends - now), status=429, reason="token_limit")
        self.count("requests", 1)

    def count(self, kind: str, number: int) -> None:
        """Adds to what this token has used of a kind."""
        self._minute[kind] += number
        self._add(kind, number)

    def _add(self, kind: str, number: int) -> None:
        self.used[kind] += number
        telemetry.TOKEN_USE.labels(self._name, kind).inc(number)
