"""What a rule measures: a value for each label set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """A measure's value for one label set. `calls` is how many events it rests on: the denominator of a rate.

    `value` is None where nothing can be said (a rate of no calls). `baseline` is the value over the earlier period that
    the rule compares with, scaled to the window; None without one.
    """

    labels: dict[str, str]
    value: float | None
    calls: int
    baseline: float | None = None


def labels_of(sample: Mapping[str, str]) -> Labels:
    """The canonical form of a label set."""
    return tuple(sorted(sample.items()))
