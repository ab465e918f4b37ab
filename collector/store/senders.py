"""Senders of metrics and of sampled data, noted in the transaction of the request, each at most once a minute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from collector.batch import SENDERS, Sender
from collector.times import MINUTE

V = TypeVar("V")


class Senders:
    """When each sender was last noted."""

    def __init__(self, known: Mapping[Sender, int]) -> None:
        self._noted = dict(known)

    def due(self, told: Iterable[Mapping[Sender, V]], now_ns: int) -> dict[Sender, V]:
        """The entries of `told` (sender → note) to be written now; new senders only while there is room."""
        room = SENDERS - len(self._noted)
        due: dict[Sender, V] = {}
        for senders in told:
            for sender, noting in senders.items():
                noted = self._noted.get(sender)
                if noted is None and sender not in due:
                    if room <= 0:
                        continue
                    room -= 1
                if noted is None or now_ns - noted >= MINUTE:
                    due[sender] = noting
        return due

    def learn(self, written: Iterable[Sender], now_ns: int) -> None:
        """Remembers what was written. To be called after the commit."""
        self._noted.update(dict.fromkeys(written, now_ns))
