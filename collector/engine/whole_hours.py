"""Parameters whose values only the engine can tell: which whole hours of a range are counted."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple


class WholeHours(NamedTuple):
    """The whole hours between two times, each the name of a parameter or a number of nanoseconds.

    They are those whose events are counted, or the retry chains that began in them.
    """

    start: str
    until: str
    of_chains: bool = False

    def names(self) -> tuple[str, str]:
        """The parameters of the first and the last moment."""
        of = f"{'chains' if self.of_chains else 'events'}_{self.start}_{self.until}"
        return f"low_{of}", f"high_{of}"


class Edge(NamedTuple):
    """The value of a parameter until the engine finds it: where the longest counted run begins, or ends."""

    hours: WholeHours
    last: bool


def between(start: str, until: str, *, of_chains: bool = False) -> tuple[str, str]:
    """The two parameters as SQL, of times that are parameters (`$start_ns`) or numbers in SQL."""
    low, high = WholeHours(start.removeprefix("$"), until.removeprefix("$"), of_chains).names()
    return f"${low}", f"${high}"


def edges(hours: WholeHours) -> dict[str, Edge]:
    """The two parameters of whole hours, to be found when a statement runs."""
    low, high = hours.names()
    return {low: Edge(hours, last=False), high: Edge(hours, last=True)}


def edges_between(starts: tuple[str, ...], ends: tuple[str, ...]) -> dict[str, Edge]:
    """Those of every pair of times, of events and of chains."""
    pairs = (WholeHours(*pair) for pair in product(starts, ends, (False, True)))
    return {name: edge for hours in pairs for name, edge in edges(hours).items()}
