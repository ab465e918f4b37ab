"""Threads: those that work in turns until they are closed (the journal's, the writer's, that of derived tables), and
those that nobody waits for at the end.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

Result = TypeVar("Result")

WRITING, DERIVING = 5, 10  # added niceness: deriving gives way to writing, both to everything that a client waits for
CLOSE_EVERY_S = 0.2


class Loop:
    """Calls `turn` again and again in a thread of its own, until it returns False.

    `turn` waits on `wake`, and looks at `closing`, which `close` sets. What it raises is given to `failed`, and the
    next turn comes after a pause: if the thread ended, everybody who waits for its work would wait for ever.
    """

    def __init__(
        self,
        name: str,
        turn: Callable[[], bool],
        *,
        failed: Callable[[Exception], None],
        niceness: int = 0,
        pause_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.wake = threading.Condition()
        self.closing = False
        self._turn = turn
        self._failed = failed
        self._niceness = niceness
        self._pause_s = pause_s
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def close(self, interrupt: Callable[[], None] = lambda: None) -> None:
        """Lets the turn in progress end, and waits for the thread. `interrupt` is called again and again meanwhile, to
        cut short what takes long.
        """
        with self.wake:
            self.closing = True
            self.wake.notify_all()
        while self._thread.is_alive():
            interrupt()
            self._thread.join(CLOSE_EVERY_S)

    def _run(self) -> None:
        step_back(self._niceness)
        while True:
            try:
                if not self._turn():
                    return
            except Exception as error:  # a defect of ours
                self._failed(error)
                if self.closing:
                    return
                time.sleep(self._pause_s())


def step_back(niceness: int, thread: int = 0) -> None:
    """Raises the niceness of a thread, by default the calling one, where the system has one per thread."""
    if niceness and sys.platform == "linux":  # elsewhere niceness is the whole process's
        thread = thread or threading.get_native_id()
        with suppress(ProcessLookupError):  # it has ended
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + niceness)


def native_threads() -> set[int]:
    """The threads of this process that libraries have started, where the system tells."""
    ours = {thread.native_id for thread in threading.enumerate()}
    return {int(thread) for thread in os.listdir("/proc/self/task")} - ours if sys.platform == "linux" else set()


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
