"""Compares two values of a measure: their 95 % intervals, that of their difference, and a verdict in words.

Calls of one session are not independent: an agent that is stuck fails again and again. So every interval uses the
variance between sessions, expressed as the number of independent calls that would tell as much. Rates have Wilson's
interval, counts the score interval of a (compound) Poisson number, quantiles that of order statistics. The interval of
the difference combines those of both sides by Newcombe's method.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any

from collector.intervals import Z, apart, wilson
from collector.plural import plural
from collector.times import lasting

FEW_CALLS = 20  # on a side; below this, rates are not judged
FEW_COUNTED = 10  # on both sides together; below this, counts are not judged
VERDICTS = ("worse", "better", "more", "fewer", "unclear", "too_few")


@dataclass(frozen=True, slots=True)
class Side:
    """The value of one selection with its interval, from `part` of `whole`; `part` is None if there is none."""

    value: float | None
    low: float | None
    high: float | None
    part: float | None
    whole: int


@dataclass(frozen=True, slots=True)
class Gathered:
    """Sums over the sessions of one side: their number, Σ part, Σ whole, Σ part², Σ part·whole, Σ whole²."""

    sessions: int = 0
    part: float = 0
    whole: float = 0
    parts2: float = 0
    cross: float = 0
    wholes2: float = 0

    def widening(self) -> float | None:
        """The factor by which sessions increase a rate's variance; None if the rate is 0, 1, or of one session.

        The variance is that of a ratio of sums over independent sessions.
        """
        if self.sessions < 2 or not 0 < self.part < self.whole:
            return None
        rate = self.part / self.whole
        between = self.parts2 - 2 * rate * self.cross + rate * rate * self.wholes2
        between *= self.sessions / (self.sessions - 1) / self.whole**2
        return max(1.0, between / (rate * (1 - rate) / self.whole))

    def one_each(self) -> float:
        """The factor if all calls of a session ended in the same way: each session counts about once."""
        return max(1.0, self.wholes2 / self.whole) if self.whole else 1.0


def rate(found: Gathered, other: Gathered) -> Side:
    """Σ part ÷ Σ whole. If the factor of `widening` is unknown for this side, that of the other one is used."""
    if not found.whole:
        return Side(None, None, None, 0, 0)
    value = found.part / found.whole
    widening = found.widening()
    if widening is None and found.sessions > 1:
        widening = other.widening()
    whole = found.whole / min(found.one_each() if widening is None else widening, found.whole)
    low, high = wilson(value, whole)
    return Side(value, low, high, found.part, int(found.whole))


def count(found: Gathered) -> Side:
    """Σ part as a compound Poisson number: sessions are independent, each with its part; the variance is Σ part²."""
    low, high = _counted(found)
    return Side(found.part, low, high, found.part, int(found.whole))


def share(found: Gathered, of: int = 1) -> Side:
    """Σ part per `of` of the whole, with the interval of a count: for parts that have no whole of their own."""
    if not found.whole:
        return Side(None, None, None, 0, 0)
    value, low, high = (one * of / found.whole for one in (found.part, *_counted(found)))
    return Side(value, low, high, found.part, int(found.whole))


def _counted(found: Gathered) -> tuple[float, float]:
    """The interval of Σ part, wider where sessions have several parts each."""
    spread = max(1.0, found.parts2 / found.part) if found.part else 1.0
    low, high = _score(found.part / spread)
    return low * spread, high * spread


def per_session(found: Gathered) -> Side:
    """Σ part ÷ sessions, with the variance between them."""
    many = found.sessions
    if not many:
        return Side(None, None, None, 0, 0)
    mean = found.part / many
    spread = 1.0
    if many > 1 and mean:
        spread = max(1.0, (found.parts2 - many * mean * mean) / (many - 1) / mean)
    low, high = _score(found.part / spread)
    return Side(mean, low * spread / many, high * spread / many, found.part, many)


def _score(number: float) -> tuple[float, float]:
    half = Z * sqrt(number + Z * Z / 4)
    return max(0.0, number + Z * Z / 2 - half), number + Z * Z / 2 + half


def newcombe(a: Side, b: Side) -> tuple[float, float, float] | None:
    """b - a with its interval, from the intervals of both (Newcombe's method 10); None if a side has no value."""
    if a.value is None or a.low is None or a.high is None or b.value is None or b.low is None or b.high is None:
        return None
    return apart((a.value, a.low, a.high), (b.value, b.low, b.high))


@dataclass(frozen=True, slots=True)
class Unit:
    """How a measure is written, and which direction is worse: 1 up, -1 down, 0 neither.

    `of` names one of what `whole` counts; `kind` is rate, count, per_session, per_1000 or quantile.
    """

    kind: str
    worse: int
    of: str = "call"


def judge(unit: Unit, a: Side, b: Side) -> dict[str, Any]:
    """`difference`, `low`, `high`, `verdict` (one of `VERDICTS`) and a `sentence` with the verdict and its numbers."""
    found = newcombe(a, b)
    if found is None or _few(unit, a, b):
        return too_few(unit, a, b, found)
    return decided(unit, a, b, found)


def too_few(unit: Unit, a: Side, b: Side, found: tuple[float, float, float] | None = None) -> dict[str, Any]:
    """The same where nothing can be said."""
    return _row(found, "too_few", f"too few {unit.of}s to compare: {_values(unit, a, b)}")


def decided(unit: Unit, a: Side, b: Side, found: tuple[float, float, float]) -> dict[str, Any]:
    """The same for a difference with its interval, wherever that is from."""
    difference, low, high = found
    ends = " and ".join(signed(unit, end).removesuffix(" pts") for end in (low, high))
    between = f"({signed(unit, difference)}, between {ends})"
    if low <= 0 <= high:
        more = _more(unit, a, b, found)
        return _row(found, "unclear", f"no clear difference: {_values(unit, a, b)}{more}")
    up = 1 if difference > 0 else -1
    verdict = ("more" if up > 0 else "fewer") if not unit.worse else ("worse" if up == unit.worse else "better")
    return _row(found, verdict, f"{verdict}: {_values(unit, a, b, between)}")


def _few(unit: Unit, a: Side, b: Side) -> bool:
    if unit.kind == "count":
        return (a.part or 0) + (b.part or 0) < FEW_COUNTED
    return min(a.whole, b.whole) < FEW_CALLS


def _row(found: tuple[float, float, float] | None, verdict: str, sentence: str) -> dict[str, Any]:
    difference, low, high = found or (None, None, None)
    return {"difference": difference, "low": low, "high": high, "verdict": verdict, "sentence": sentence}


def _more(unit: Unit, a: Side, b: Side, found: tuple[float, float, float]) -> str:
    """About how many more calls on each side would make the observed difference clear, in words; empty if not known."""
    difference, low, high = found
    if unit.kind != "rate" or not difference:
        return ""
    half = (high - low) / 2
    needed = ceil(min(a.whole, b.whole) * ((half / abs(difference)) ** 2 - 1))
    if not 0 < needed <= 100_000:
        return ""
    digits = 10 ** (len(str(needed)) - 1)
    return f"; it would take about {plural(-(-needed // digits) * digits, f'more {unit.of}')} to tell"


def _values(unit: Unit, a: Side, b: Side, between: str = "") -> str:
    both = f"{written(unit, a.value)} → {written(unit, b.value)}"
    both = f"{both} {between}" if between else both
    return both if unit.kind == "count" else f"{both}, n = {a.whole:,} and {plural(b.whole, unit.of)}"


def written(unit: Unit, value: float | None) -> str:
    """A value as people read it: `4.1 %`, `2,310`, `840 ms`, `1.5 ms` (so that small differences show)."""
    if value is None:
        return "nothing"
    match unit.kind:
        case "rate":
            return percent(value)
        case "quantile":
            return f"{value:.1f} ms" if 0 < value < 9.95 else lasting(value)
        case "per_session" | "per_1000":
            return f"{value:,.2f}"
    return f"{value:,.0f}"


def percent(value: float) -> str:
    """`4.1 %`, `0 %`, `100 %`; only exactly 0 and 1 are written as `0 %` and `100 %`."""
    if value <= 0 or value >= 1:
        return f"{100 * value:.0f} %"
    if value < 0.001:
        return "< 0.1 %"
    if value > 0.999:
        return "> 99.9 %"
    return f"{100 * value:.1f} %"


def signed(unit: Unit, value: float) -> str:
    """A difference as people read it: `+5.7 pts`, `-120 ms`."""
    sign = "+" if value >= 0 else "-"
    if unit.kind == "rate":
        return f"{sign}{100 * abs(value):.1f} pts"
    return sign + written(unit, abs(value))


def gathered(row: Mapping[str, Any]) -> Gathered:
    """The sums from a row of `sql/compared.sql`."""
    return Gathered(
        int(row["sessions"]), *(float(row[name]) for name in ("part", "whole", "parts2", "cross", "wholes2"))
    )
