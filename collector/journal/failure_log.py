"""Logs failures of the store: one line when they begin, one a minute per reason while they last, one when they end."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock

import structlog

from collector.seldom import Seldom

REMEDIES = (
    (("No space left", "File too large", "Disk quota", "disk_full"), "make room on its disk"),
    (("Read-only file system", "Permission denied", "read-only"), "make the file and its folder writable"),
    (("moved or removed",), "put it back"),
    (("Corrupt", "checksum"), "the file is damaged: put a backup in its place"),
    (("Out of Memory",), "nothing: it goes on when running queries release their memory; or ask fewer at a time"),
    (("Could not set lock",), "stop the other process that has it open"),
)

log = structlog.get_logger()


class Complaint:
    """The failures of the store and its parts, such as the journal. May be used from any thread."""

    def __init__(self, store: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._lock = Lock()
        self._parts: set[str] = set()  # failing at present
        self._seldom = Seldom(clock)
        self._since = 0.0
        self._requests = 0

    def made(self, reason: str, requests: int = 1, part: str = "") -> None:
        """To be called when requests were refused because a part of the store failed."""
        with self._lock:
            if not self._parts:
                self._since, self._requests, self._seldom = self._clock(), 0, Seldom(self._clock)
            self._parts.add(part)
            self._requests += requests
            if not self._seldom.due(reason):
                return
            log.error(
                "the store accepts no writes; senders are told to retry later",
                store=self._store,
                reason=reason,
                remedy=remedy(reason),
                requests=self._requests,
            )

    def lasts(self, part: str | None = None) -> bool:
        """Whether a part (by default any) failed and has not worked since."""
        return bool(self._parts) if part is None else part in self._parts

    def over(self, part: str = "") -> None:
        """To be called when a part works."""
        if not self._parts:  # mostly
            return
        with self._lock:
            if part in self._parts:
                self._parts.discard(part)
                if not self._parts:
                    after_s = round(self._clock() - self._since, 1)
                    log.info("the store accepts writes again", store=self._store, after_s=after_s)


def remedy(reason: str) -> str:
    """What a person can do about it."""
    return next((what for signs, what in REMEDIES if any(sign in reason for sign in signs)), "see the reason")
