"""Who sends metrics: noted in the transaction that stores the request, each sender at most once a minute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

SENDERS = 1_000  # random service names must not grow the table
NOTED_EVERY_NS = 60_000_000_000

Sender = tuple[str, str]  # source ("" if none claims it), service


class Senders:
    """When each sender was last noted."""

    def __init__(self, known: Mapping[Sender, int]) -> None:
        self._noted = dict(known)

    def due(self, told: Iterable[Mapping[Sender, str]], now_ns: int) -> dict[Sender, str]:
        """Those of `told` (sender → names of its metrics) to be written now; unknown ones while there is room."""
        room = SENDERS - len(self._noted)
        due: dict[Sender, str] = {}
        for senders in told:
            for sender, metrics in senders.items():
                noted = self._noted.get(sender)
                if noted is None and sender not in due:
                    if room <= 0:
                        continue
                    room -= 1
                if noted is None or now_ns - noted >= NOTED_EVERY_NS:
                    due[sender] = metrics
        return due

    def learn(self, written: Iterable[Sender], now_ns: int) -> None:
        """Remembers what was written. To be called after the commit."""
        self._noted.update(dict.fromkeys(written, now_ns))
