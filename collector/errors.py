"""The two kinds of errors of a request, and how HTTP and gRPC report them; those of a store; and of a checked file.

A `Rejected` request fails however often it is sent; an `Unavailable` one may succeed later. Nothing else may leave the
ingest path: an unexpected exception is answered as `Unavailable`, because OTLP exporters drop requests that get a 500.
"""

from __future__ import annotations

import random
from collections.abc import Callable

# The reason of a refusal, as a label for counters.
REASONS = {
    400: "malformed", 401: "no_token", 403: "not_allowed", 404: "no_such_path", 405: "no_such_method",
    413: "too_large", 415: "unknown_type", 429: "queue_full", 503: "unavailable",
}  # fmt: skip


class Rejected(Exception):
    """The same input always fails; the sender must not retry.

    `status` is the HTTP status: 400 malformed, 401 no token, 403 wrong token, 404 no such path, 405 no such
    method, 409 not in the present state, 412 changed meanwhile, 413 too large, 415 unknown content type or encoding,
    428 made from what is not said.
    """

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.reason = REASONS.get(status, "malformed")
        self.status = status


class Unavailable(Exception):
    """The same input may succeed later; the sender should wait `retry_after` seconds.

    `status` is 429 if the sender is too fast, 503 if the store accepts nothing at the moment.
    """

    def __init__(self, message: str, retry_after: float = 1.0, status: int = 503, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or REASONS[status]
        self.retry_after = retry_after
        self.status = status

    def spread(self, chance: Callable[[], float] = random.random) -> float:
        """A random time from one to two times `retry_after`: refused senders must not all come back at once."""
        return self.retry_after * (1 + chance())


class StoreError(Exception):
    """The store cannot be opened; the message says why and what to do."""


class StoreInUse(StoreError):
    """Another process has the file open."""


class OutOfMemory(Unavailable):
    """The engine's memory is used up, by queries that release it when they end."""


class QueryTimeout(Unavailable):
    """A query exceeded its time limit."""


class QueryTooLarge(QueryTimeout, OutOfMemory):
    """A query exceeded the memory limit."""


class CalledOff(Exception):
    """A statement was interrupted, because its client is gone or the collector stops."""


class Mistaken(ValueError):
    """A file that was to be checked has mistakes; the text names them, one a line."""


def grpc_code(status: int) -> int:
    """The google.rpc.Code for an HTTP status (OTLP specification, "Failures"); 13, internal, for any other."""
    return {400: 3, 401: 16, 403: 7, 404: 12, 405: 12, 413: 8, 415: 3, 429: 8, 503: 14}.get(status, 13)


def where(error: BaseException) -> str:
    """The code locations of a traceback, without any data."""
    places = []
    step = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        places.append(f"{code.co_filename.rsplit('/', 1)[-1]}:{step.tb_lineno} {code.co_name}")
        step = step.tb_next
    return " < ".join(reversed(places[-6:]))
