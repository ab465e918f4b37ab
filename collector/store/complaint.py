"""A line in the log when something begins to fail, one a minute for each reason while it lasts, one when it is over."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from threading import Lock

import structlog

AGAIN_S = 60.0
MOST_REASONS = 4  # in that time
NUMBERS = re.compile(r"[\d.]+")  # of what an engine counts, the reason is the same

REMEDIES = (
    (("No space left", "File too large", "Disk quota", "disk_full"), "make room on its disk"),
    (("Read-only file system", "Permission denied", "read-only"), "make the file and its folder writable"),
    (("moved or removed",), "put it back"),
    (("Corrupt", "checksum"), "the file is damaged: put a backup in its place"),
    (("Out of Memory",), "nothing, it goes on when questions give back what they have; or fewer of them at a time"),
    (("Could not set lock",), "stop the other process that has it open"),
)

log = structlog.get_logger()


class Complaint:
    """What the failures of the store, in one part or several, come to in the log. For any thread."""

    def __init__(self, store: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._lock = Lock()
        self._parts: set[str] = set()  # that fail
        self._said: dict[str, float] = {}  # when, of each reason
        self._since = 0.0
        self._requests = 0

    def made(self, reason: str, requests: int = 1, part: str = "") -> None:
        """Requests were refused because of a part of the store."""
        with self._lock:
            now = self._clock()
            if not self._parts:
                self._since, self._requests, self._said = now, 0, {}
            self._parts.add(part)
            self._requests += requests
            known = NUMBERS.sub("", reason)
            lately = {one: said for one, said in self._said.items() if now - said < AGAIN_S}
            if known in lately or len(lately) == MOST_REASONS:
                return
            self._said = {**lately, known: now}
            log.error(
                "the store takes nothing; senders are asked to come back",
                store=self._store,
                reason=reason,
                remedy=remedy(reason),
                requests=self._requests,
            )

    def lasts(self, part: str | None = None) -> bool:
        """Whether a part, or any, has failed and not worked since."""
        return bool(self._parts) if part is None else part in self._parts

    def over(self, part: str = "") -> None:
        """A part works."""
        if not self._parts:  # mostly
            return
        with self._lock:
            if part in self._parts:
                self._parts.discard(part)
                if not self._parts:
                    after_s = round(self._clock() - self._since, 1)
                    log.info("the store takes requests again", store=self._store, after_s=after_s)


def remedy(reason: str) -> str:
    """What a person can do about it."""
    return next((what for signs, what in REMEDIES if any(sign in reason for sign in signs)), "see the reason")
