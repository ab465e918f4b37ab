"""Senders of metrics and of sampled data, and settings of agents that showed: each noted at most once a minute. Senders
of records that no table takes although they speak a convention: all of these are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from typing import Generic, TypeVar

from collector.batch import SENDERS, Batch
from collector.correlate.changes import Owned
from collector.times import MINUTE

K = TypeVar("K")
V = TypeVar("V")
S = TypeVar("S", bound=tuple[str, ...])


class Senders(Generic[K]):
    """When each sender was last noted."""

    def __init__(self, known: Mapping[K, int]) -> None:
        self._noted = dict(known)

    def due(self, told: Iterable[Mapping[K, V]], now_ns: int) -> dict[K, V]:
        """The entries of `told` (sender → note) to be written now; new senders only while there is room."""
        room = SENDERS - len(self._noted)
        due: dict[K, V] = {}
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

    def learn(self, written: Iterable[K], now_ns: int) -> None:
        """Remembers what was written. To be called after the commit."""
        self._noted.update(dict.fromkeys(written, now_ns))


def owned(batch: Batch, told: Mapping[S, V]) -> dict[Owned, V]:
    """What a batch tells of senders, with the batch's project."""
    return {(*sender, batch.project or ""): note for sender, note in told.items()}


def counted(known: Set[Owned], told: Iterable[Iterable[tuple[Owned, int]]]) -> Counter[Owned]:
    """How many records of each sender are to be added; new senders only while there is room."""
    found: Counter[Owned] = Counter()
    room = SENDERS - len(known)
    for senders in told:
        for sender, records in senders:
            if sender not in known and sender not in found:
                if room <= 0:
                    continue
                room -= 1
            found[sender] += records
    return found
