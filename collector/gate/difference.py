"""The difference between two runs of the same tasks, with its 95 % interval.

Value of a side: Σ mean part ÷ Σ mean whole, the means over a task's trials, so that a task counts the same however
often it was tried. Two variances of the difference are computed, and the larger one is used, with its own degrees of
freedom in Student's t:

- between tasks: n ÷ (n - 1) · Σ (u_b - u_a)², where u = (mean part - value · mean whole) ÷ Σ mean whole of a task, the
  influence of a task on the value: the cluster-robust variance of a ratio (Cochran, Sampling Techniques, 1977, 6.3),
  paired by task (Miller, Adding Error Bars to Evals, 2024, arXiv:2411.00640, section 4). n - 1 degrees of freedom.
- within tasks: Σ s² · (1 ÷ trials of a + 1 ÷ trials of b) ÷ (mean Σ mean whole)², where s² is the variance of
  part - common value · whole among all trials of a task: what chance does if a trial could as well have been of the
  other side (the variance of the permutation test within tasks; Pitman 1937). Σ (trials - 1) degrees of freedom.

The second keeps a few lucky tasks that differ by the same amount from looking certain; it alone is left of one task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, variance

from collector.gate.trials import Sum
from collector.intervals import Z
from collector.query.verdicts import Side

Sums = Sequence[Sum]  # of a task's trials on one side
Interval = tuple[float, float, float]  # value, low, high
FEW = {1: 12.7062, 2: 4.3027, 3: 3.1824}


@dataclass(frozen=True, slots=True)
class Difference:
    """Both sides, and `between` = b - a with its interval; None if a side has no value."""

    a: Side
    b: Side
    between: Interval | None


def difference(tasks: Sequence[tuple[Sums, Sums]]) -> Difference:
    """Compares sides a and b over tasks, each with at least one trial on both."""
    told = [pair for pair in tasks if any(whole for side in pair for _, whole in side)]
    sides = [side_of([pair[at] for pair in told]) for at in (0, 1)]
    a, b = sides
    if a.value is None or b.value is None:
        return Difference(a, b, None)
    spread, freedom = max(_between(told, a.value, b.value), _within(told))
    half = t95(freedom) * sqrt(spread)
    middle = b.value - a.value
    return Difference(a, b, (middle, middle - half, middle + half))


def alone(tasks: Sequence[Sums]) -> Difference:
    """A side without another."""
    return Difference(Side(None, None, None, 0, 0), side_of(tasks), None)


def side_of(tasks: Sequence[Sums]) -> Side:
    """The value of one side, and its part of the whole, counted over all trials."""
    part, whole = (sum(one[at] for sums in tasks for one in sums) for at in (0, 1))
    means = [_means(sums) for sums in tasks]
    over = sum(mean for _, mean in means)
    value = sum(mean for mean, _ in means) / over if over else None
    return Side(value, None, None, part, int(whole))


def _between(tasks: Sequence[tuple[Sums, Sums]], a: float, b: float) -> tuple[float, int]:
    means = [(_means(one), _means(other)) for one, other in tasks]
    whole_a, whole_b = (sum(pair[at][1] for pair in means) for at in (0, 1))
    many = len(means)
    if many < 2:
        return 0.0, 0
    squares = sum(((pb - b * wb) / whole_b - (pa - a * wa) / whole_a) ** 2 for (pa, wa), (pb, wb) in means)
    return many / (many - 1) * squares, many - 1


def _within(tasks: Sequence[tuple[Sums, Sums]]) -> tuple[float, int]:
    every = [one for pair in tasks for side in pair for one in side]
    common = sum(part for part, _ in every) / sum(whole for _, whole in every)
    whole = fmean(sum(_means(pair[at])[1] for pair in tasks) for at in (0, 1))
    spread, freedom = 0.0, 0
    for one, other in tasks:
        rest = [part - common * whole for part, whole in (*one, *other)]
        spread += variance(rest) * (1 / len(one) + 1 / len(other))
        freedom += len(rest) - 1
    return spread / whole**2, freedom


def _means(sums: Sums) -> Sum:
    return fmean(part for part, _ in sums), fmean(whole for _, whole in sums)


def t95(freedom: int) -> float:
    """The 97.5th percentile of Student's t, from 4 degrees of freedom by the expansion of Abramowitz and Stegun, 26.7.5
    (error below 0.01).
    """
    if freedom in FEW:
        return FEW[freedom]
    first = (Z**3 + Z) / 4
    second = (5 * Z**5 + 16 * Z**3 + 3 * Z) / 96
    third = (3 * Z**7 + 19 * Z**5 + 17 * Z**3 - 15 * Z) / 384
    return Z + first / freedom + second / freedom**2 + third / freedom**3
