"""One line in the log when something begins to fail, one a minute while it lasts, one when it is over."""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

AGAIN_S = 60.0

REMEDIES = (
    (("No space left", "File too large", "Disk quota", "disk_full"), "make room on its disk"),
    (("Read-only file system", "Permission denied", "read-only"), "make the file and its folder writable"),
    (("moved or removed",), "put it back"),
    (("Corrupt", "checksum"), "the file is damaged: put a backup in its place"),
    (("Could not set lock",), "stop the other process that has it open"),
)

log = structlog.get_logger()


class Complaint:
    """What the store's failures come to in the log."""

    def __init__(self, store: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._since = self._said = 0.0
        self._reason = ""
        self._requests = 0

    def made(self, reason: str, requests: int = 1) -> None:
        """Requests were refused because of the store."""
        now = self._clock()
        self._requests += requests
        if self._since and now - self._said < AGAIN_S and reason == self._reason:
            return
        self._since, self._said, self._reason = self._since or now, now, reason
        log.error(
            "the store takes nothing; senders are asked to come back",
            store=self._store,
            reason=reason,
            remedy=remedy(reason),
            requests=self._requests,
        )

    @property
    def lasts(self) -> bool:
        """Whether nothing was stored since the last failure."""
        return self._since > 0

    def over(self) -> None:
        """A request was stored."""
        if self._since:
            log.info("the store takes requests again", store=self._store, after_s=round(self._clock() - self._since, 1))
            self._since, self._requests = 0.0, 0


def remedy(reason: str) -> str:
    """What a person can do about it."""
    return next((what for signs, what in REMEDIES if any(sign in reason for sign in signs)), "see the reason")
