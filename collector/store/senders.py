"""Who sends metrics, and who is sampled: noted in the transaction of the request, each sender at most once a minute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

SENDERS = 1_000  # random service names must not grow the table
NOTED_EVERY_NS = 60_000_000_000

V = TypeVar("V")
Sender = tuple[str, str]  # source ("" if none claims it), service
Sampling = tuple[float | None, str]  # the share that was kept (None: not told), and what tells it


class Senders:
    """When each sender was last noted."""

    def __init__(self, known: Mapping[Sender, int]) -> None:
        self._noted = dict(known)

    def due(self, told: Iterable[Mapping[Sender, V]], now_ns: int) -> dict[Sender, V]:
        """Those of `told` (sender → what is noted of it) to be written now; unknown ones while there is room."""
        room = SENDERS - len(self._noted)
        due: dict[Sender, V] = {}
        for senders in told:
            for sender, noting in senders.items():
                noted = self._noted.get(sender)
                if noted is None and sender not in due:
                    if room <= 0:
                        continue
                    room -= 1
                if noted is None or now_ns - noted >= NOTED_EVERY_NS:
                    due[sender] = noting
        return due

    def learn(self, written: Iterable[Sender], now_ns: int) -> None:
        """Remembers what was written. To be called after the commit."""
        self._noted.update(dict.fromkeys(written, now_ns))
