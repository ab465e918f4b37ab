"""Repeats a call as its error says: only what may work when repeated as it is, after the error's own delay."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import stamina

from misstep_sdk.convert import as_agent_error, was_cancelled
from misstep_sdk.sessions import attempting, refuse_generator

Function = TypeVar("Function", bound=Callable[..., Any])


def retry(
    *, attempts: int = 3, timeout: float | None = 120.0, wait_initial: float = 1.0, wait_max: float = 60.0
) -> Callable[[Function], Function]:
    """A decorator: up to `attempts` calls within `timeout` seconds, sync or async; the last exception is raised.

    An error is repeated if its recovery is `retry` and it is retryable; after its `retry_after`, else after
    `wait_initial`, doubled each time, with jitter. Put it around what is recorded, so that each attempt is a call of
    its own. Raises TypeError for a generator, whose items cannot be taken back.
    """

    def decorate(function: Function) -> Function:
        refuse_generator(function, "repeated")
        tries = functools.partial(
            stamina.retry_context,
            on=delay,
            attempts=attempts,
            timeout=timeout,
            wait_initial=wait_initial,
            wait_max=wait_max,
        )

        @functools.wraps(function)
        def repeated(*args: Any, **kwargs: Any) -> Any:
            for each in tries():
                with each, attempting(each.num):
                    result = function(*args, **kwargs)
            return result

        @functools.wraps(function)
        async def repeated_async(*args: Any, **kwargs: Any) -> Any:
            async for each in tries():
                with each, attempting(each.num):
                    result = await function(*args, **kwargs)
            return result

        return repeated_async if inspect.iscoroutinefunction(function) else repeated  # type: ignore[return-value]

    return decorate


def delay(exception: Exception) -> float | bool:
    """Seconds until the next attempt; True where the error names none; False where repeating it cannot help."""
    if was_cancelled(exception):
        return False
    error = as_agent_error(exception)
    if error.fatal or not error.retryable or error.facts.recovery != "retry":
        return False
    return True if error.retry_after is None else error.retry_after
