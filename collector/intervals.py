"""Wilson's interval of a share, which lessons and comparisons both need."""

from __future__ import annotations

from math import sqrt

Z = 1.959963984540054  # two-sided 95 % of a normal distribution


def wilson(share: float, whole: float) -> tuple[float, float]:
    """Wilson's interval of a share of `whole`, which may be an effective sample size."""
    middle, half = share * whole + Z * Z / 2, Z * sqrt(whole * share * (1 - share) + Z * Z / 4)
    return max(0.0, (middle - half) / (whole + Z * Z)), min(1.0, (middle + half) / (whole + Z * Z))
