"""What can go wrong with a request, in two kinds, and how each is said over HTTP and gRPC.

A `Rejected` request fails the same way however often it is sent; an `Unavailable` one may succeed later. Nothing else
may leave the ingest path: an unexpected exception is answered as `Unavailable`, because OTLP exporters drop what gets
a 500.
"""

from __future__ import annotations

import random
from collections.abc import Callable

# Why a request was not taken, in one word for counters.
REASONS = {
    400: "malformed", 401: "no_token", 403: "not_allowed", 404: "no_such_path", 405: "no_such_method",
    413: "too_large", 415: "unknown_type", 429: "queue_full", 503: "unavailable",
}  # fmt: skip


class Rejected(Exception):
    """The same input will always fail; the sender must not retry.

    `status` is the HTTP status: 400 malformed, 401 no token, 403 wrong token, 404 no such path, 405 no such
    method, 413 too large, 415 unknown content type or encoding.
    """

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.reason = REASONS.get(status, "malformed")
        self.status = status


class Unavailable(Exception):
    """The same input may succeed later; the sender should wait `retry_after` seconds.

    `status` is 429 where the sender is too fast for us, 503 where the store cannot take anything now.
    """

    def __init__(self, message: str, retry_after: float = 1.0, status: int = 503, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or REASONS[status]
        self.retry_after = retry_after
        self.status = status

    def spread(self, chance: Callable[[], float] = random.random) -> float:
        """One to two times `retry_after`: senders that were refused together must not come back together."""
        return self.retry_after * (1 + chance())


# google.rpc.Code of each HTTP status that we answer with (OTLP specification, "Failures").
GRPC_CODE = {400: 3, 401: 16, 403: 7, 404: 12, 405: 12, 408: 4, 413: 8, 415: 3, 429: 8, 503: 14}


def where(error: BaseException) -> str:
    """The code places of a traceback, without any text of the data that was being read."""
    places = []
    step = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        places.append(f"{code.co_filename.rsplit('/', 1)[-1]}:{step.tb_lineno} {code.co_name}")
        step = step.tb_next
    return " < ".join(reversed(places[-6:]))
