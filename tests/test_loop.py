"""The thread that works in turns: it ends when it is told to, and for nothing else."""

from __future__ import annotations

import threading
import time

from collector.loop import Loop


def test_a_turn_that_fails_is_reported_and_the_next_one_comes() -> None:
    came: list[str] = []
    failed: list[str] = []

    def turn() -> bool:
        came.append("turn")
        if len(came) == 2:
            raise ValueError("a defect")
        return len(came) < 4

    loop = Loop("test", turn, failed=lambda error: failed.append(str(error)))
    loop.start()
    while len(came) < 4:
        time.sleep(0.001)
    loop.close()
    assert failed == ["a defect"]
    assert not any(thread.name == "test" for thread in threading.enumerate())


def test_a_turn_in_progress_is_interrupted_until_it_ends() -> None:
    interrupts = threading.Semaphore(0)
    began = threading.Event()

    def turn() -> bool:
        began.set()
        return not all(interrupts.acquire(timeout=60) for _ in range(2))

    loop = Loop("test", turn, failed=lambda error: None)
    loop.start()
    assert began.wait(10)
    loop.close(interrupts.release)
    assert loop.closing


def test_a_thread_that_fails_while_it_closes_ends() -> None:
    began, goes_on = threading.Event(), threading.Event()

    def turn() -> bool:
        began.set()
        goes_on.wait(10)
        raise ValueError("a defect")

    failed: list[Exception] = []
    loop = Loop("test", turn, failed=failed.append, pause_s=lambda: 60.0)
    loop.start()
    assert began.wait(10)
    loop.close(goes_on.set)
    assert [str(error) for error in failed] == ["a defect"]
