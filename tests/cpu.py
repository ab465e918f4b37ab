"""CPU time of a piece of work, for bounds on it."""

import time
from collections.abc import Callable


def cpu_seconds(
    work: Callable[[], object], enough: float = 0.0, tries: int = 3, clock: Callable[[], float] = time.process_time
) -> float:
    """The least of some tries, as a guest's CPU time has what its host took; the first below `enough` ends them.

    Of what another process does, `time.monotonic` is the clock.
    """
    least = float("inf")
    for _ in range(tries):
        began = clock()
        work()
        least = min(least, clock() - began)
        if least < enough:
            break
    return least
