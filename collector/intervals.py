"""Intervals of shares and of their differences, which lessons and comparisons both need."""

from __future__ import annotations

from math import sqrt

Z = 1.959963984540054  # two-sided 95 % of a normal distribution

Interval = tuple[float, float, float]  # value, low, high


def wilson(share: float, whole: float) -> tuple[float, float]:
    """Wilson's interval of a share of `whole`, which may be an effective sample size."""
    middle, half = share * whole + Z * Z / 2, Z * sqrt(whole * share * (1 - share) + Z * Z / 4)
    return max(0.0, (middle - half) / (whole + Z * Z)), min(1.0, (middle + half) / (whole + Z * Z))


def apart(a: Interval, b: Interval) -> Interval:
    """b - a with its interval, from the intervals of both (Newcombe's method 10; of differences, MOVER)."""
    difference = b[0] - a[0]
    low = difference - sqrt((b[0] - b[1]) ** 2 + (a[2] - a[0]) ** 2)
    high = difference + sqrt((b[2] - b[0]) ** 2 + (a[0] - a[1]) ** 2)
    return difference, low, high
