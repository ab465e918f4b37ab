"""One page is one moment: the answers that it shows together are asked for together."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

PATIENCE = 20  # how many times as long as it took an answer is good
FRESH_S, STALE_S = 2.0, 60.0  # shortest and longest time that an answer is good


def good_for(took: float) -> float:
    """Seconds for which an answer that took this many seconds is good."""
    return min(max(PATIENCE * took, FRESH_S), STALE_S)


@dataclass(slots=True)
class Moment:
    """What one page, or several viewers of it, ask between two refreshes. Answers from before it `began` are too old.

    `asked` has path and parameters of each question by its key; `slowest` is the longest time in seconds that one took;
    whoever holds `turn` ends the moment. Times are on the monotonic clock.
    """

    began: float
    slowest: float = 0.0
    asked: dict[str, tuple[str, Mapping[str, str]]] = field(default_factory=dict)
    turn: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def past(self, now: float) -> bool:
        """Whether a refresh begins another moment."""
        return now - self.began >= good_for(self.slowest)

    def noted(self, key: str, path: str, params: Mapping[str, str], took: float) -> None:
        """Adds a question that was answered after this many seconds."""
        self.asked[key] = (path, params)
        self.slowest = max(self.slowest, took)
