"""Pairs reports of one error that share no id: KODE tells each on its progress channel and on its monitor channel.

Reports are twins if they come from one source and service, have different roles, agree in the columns that their rows
name, and lie at most two seconds apart. Repeats of one role never join: equal failures within a second stay apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from collector.store.batch import Report

WINDOW_NS = 2_000_000_000
REMEMBERED = 10_000  # identities; of each the newest PENDING
PENDING = 64


@dataclass(slots=True)
class _Pair:
    """One event that twins may still join: when it happened, and the keys of those that told of it, by role."""

    key: int
    time_ns: int
    told: dict[str, int] = field(default_factory=dict)


class Twins:
    """Events that a twin may still join. Forgotten at a restart: twins that it parts stay two events."""

    def __init__(self) -> None:
        self._pending: dict[int, list[_Pair]] = {}

    def key(self, report: Report, twin: Sequence[str], own: int) -> int:
        """The key of the event that the report's twin began, nearest in time first; `own` where there is none yet.

        `twin` is what the report's row says: its role, and the columns that must agree.
        """
        role, *columns = twin
        agreed = [str(report.get(column) or "") for column in columns]
        identity = hash((report.get("source"), report.get("service"), *agreed))
        pairs = self._pending.pop(identity, [])
        pair = _pair(pairs, role, report["time_ns"], own)
        if pair is None:
            pair = _Pair(own, report["time_ns"])
            pairs.append(pair)
        pair.told[role] = own
        self._pending[identity] = pairs[-PENDING:]
        if len(self._pending) > REMEMBERED:
            del self._pending[next(iter(self._pending))]
        return pair.key


def _pair(pairs: Sequence[_Pair], role: str, time_ns: int, own: int) -> _Pair | None:
    """The pair that has told of this report already, else the nearest that lacks its role."""
    again = (pair for pair in pairs if pair.told.get(role) == own)
    near = [pair for pair in pairs if role not in pair.told and abs(pair.time_ns - time_ns) <= WINDOW_NS]
    return next(again, min(near, key=lambda one: (abs(one.time_ns - time_ns), one.time_ns, one.key), default=None))
