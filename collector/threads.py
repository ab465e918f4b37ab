"""Work in threads that nobody waits for at the end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")


async def in_daemon(work: Callable[[], Result], name: str) -> Result:
    """What `work` returns, from a thread that does not keep the process from ending, as those of asyncio would."""
    result: Future[Result] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except Exception as error:
            result.set_exception(error)

    result.set_running_or_notify_cancel()
    threading.Thread(target=run, name=name, daemon=True).start()
    return await asyncio.wrap_future(result)
