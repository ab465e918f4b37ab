"""What alerting has in common with other collectors, and the one alert that a collector keeps for itself.

Of the collectors of a cluster one evaluates the rules. The others show what it found, and anyone changes what all have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from collector.alerts.rules import Condition, Rule
from collector.alerts.state import Alert, State, step
from collector.measures.measure import Labels, Sample

AWAY_S = 60.0
# No rule of a file has this name: theirs have no underscore.
AWAY = Rule(
    "cluster_away",
    "silent",
    Condition("> 1m", ">", AWAY_S),
    {},
    severity="critical",
    summary="Alert rules are not evaluated: the cluster that answers them cannot be reached",
)
AWAY_KEY: tuple[str, Labels] = (AWAY.name, ())


class Together(Protocol):
    """What is shared: collector.cluster.sharing.Sharing. Any thread may call it."""

    def evaluates(self) -> bool:
        """Whether this collector evaluates the rules now."""

    def away_s(self) -> float | None:
        """For how long the collector that evaluated last, if it is this one, has not reached the cluster; None: it
        reaches it, or another one evaluates.
        """

    def problem(self) -> str:
        """Why nobody could take over here now; empty if nothing is wrong."""

    def put(self, kind: str, rows: Iterable[tuple[str, Any]], kept_s: int = 0) -> None:
        """Gives all collectors these values by key, for so many seconds, 0: for good. Raises Unavailable."""

    def remove(self, kind: str, keys: Iterable[str]) -> None:
        """Removes them from all. Raises Unavailable."""

    def append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Gives all collectors these rows of alert_samples. Raises Unavailable."""


class Alone:
    """A collector without others: it evaluates, and has nobody to tell."""

    def evaluates(self) -> bool:
        return True

    def away_s(self) -> float | None:
        return None

    def problem(self) -> str:
        return ""

    def put(self, kind: str, rows: Iterable[tuple[str, Any]], kept_s: int = 0) -> None: ...

    def remove(self, kind: str, keys: Iterable[str]) -> None: ...

    def append(self, rows: Sequence[Mapping[str, Any]]) -> None: ...


ALONE = Alone()


def away_alert(before: Alert | None, away_s: float | None, now_ns: int) -> Alert | None:
    """The alert that says that rules pause. Until it is known for how long the cluster is away, it stays as it was."""
    if away_s is not None and away_s <= AWAY_S and before is not None and before.state is State.FIRING:
        return before
    return step(before, AWAY, Sample({}, away_s or 0.0, 1), now_ns)
