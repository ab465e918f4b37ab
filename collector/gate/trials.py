"""Trials paired by task: which count, which were broken, and which tasks are unstable or missing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

from collector.query.compare import COMPARED
from collector.query.trials import MEASURES as COUNTED
from collector.query.verdicts import Unit

SUCCESS = "task_success"
MEASURES = (*COUNTED, SUCCESS)
WELL = frozenset(("true", "yes", "c", "pass", "passed", "success", "succeeded", "correct", "resolved", "solved"))
BADLY = frozenset(
    ("false", "no", "i", "n", "p", "fail", "failed", "failure", "error", "incorrect", "unresolved", "partial", "none")
)
Sum = tuple[float, float]  # part of whole


@dataclass(frozen=True, slots=True)
class Trial:
    """One attempt at a task: a session. `sums` has its part of each measure; `success` is None where nothing tells."""

    task: str
    calls: int = 0
    infrastructure: int = 0
    cut_off: bool = False
    success: bool | None = None
    sums: Mapping[str, Sum] = field(default_factory=dict)

    @property
    def is_broken(self) -> bool:
        """Whether the infrastructure kept the agent from trying: most of its calls failed for it, or its last one."""
        return self.cut_off or 0 < self.calls <= 2 * self.infrastructure

    def of(self, measure: str) -> Sum:
        """Its part and whole of a measure."""
        if measure == SUCCESS:
            return (0.0, 0.0) if self.success is None else (float(self.success), 1.0)
        return self.sums.get(measure, (0.0, 0.0))


def unit_of(measure: str) -> Unit:
    """How a measure of trials is written: what compare counts over a side is a mean of trials here."""
    if measure == SUCCESS:
        return Unit("rate", -1, "trial")
    unit = COMPARED[measure].unit
    if unit.kind == "count":
        return Unit("per_session", unit.worse, "trial")
    return Unit(unit.kind, unit.worse, "trial") if unit.of == "session" or unit.kind == "quantile" else unit


def trials_of(rows: Iterable[Mapping[str, Any]]) -> list[Trial]:
    """The trials in rows of `/api/v1/trials`; a session without a task is of the task ''."""
    sums: defaultdict[tuple[str, str], dict[str, Sum]] = defaultdict(dict)
    sessions: dict[tuple[str, str], Mapping[str, Any]] = {}
    for row in rows:
        key = (row["service"] or "", row["session"])
        sessions[key] = row
        sums[key][row["measure"]] = _sum(row["measure"], row["part"], row["whole"])
    return [
        Trial(
            row["task"] or "",
            row["calls"],
            row["infrastructure"],
            row["cut_off"],
            success_of(row["success"]),
            sums[key],
        )
        for key, row in sessions.items()
    ]


def _sum(measure: str, part: float, whole: float) -> Sum:
    match COMPARED[measure].unit.kind:
        case "count":
            return part, 1.0
        case "per_1000":
            return 1000 * part, whole
    return part, whole


def success_of(text: str | None) -> bool | None:
    """Whether a task succeeded: a word, or a reward, of which less than 1 is no success. None for anything else."""
    word = (text or "").strip().lower()
    if word in WELL or word in BADLY:
        return word in WELL
    try:
        return float(word) >= 1
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Task:
    """The trials of a task on both sides that count."""

    name: str
    baseline: Sequence[Trial]
    current: Sequence[Trial]


@dataclass(frozen=True, slots=True)
class Paired:
    """Tasks that were tried on both sides, and what was left out: `broken` trials and calls per side."""

    tasks: Sequence[Task]
    missing: Sequence[str]  # only on the baseline
    added: Sequence[str]  # only in this run
    trials: tuple[int, int]
    broken: tuple[int, int]
    infrastructure: tuple[int, int]  # calls


def paired(baseline: Sequence[Trial], current: Sequence[Trial]) -> Paired:
    """Pairs the trials of both sides by task; broken ones are counted only."""
    sides = [_by_task(one for one in side if not one.is_broken) for side in (baseline, current)]
    names = sorted({one.task for one in (*baseline, *current)})
    both = [Task(name, sides[0][name], sides[1][name]) for name in names if name in sides[0] and name in sides[1]]

    def per_side(of: Any) -> tuple[int, int]:
        return sum(map(of, baseline)), sum(map(of, current))

    return Paired(
        both,
        [name for name in names if name in sides[0] and name not in sides[1]],
        [name for name in names if name in sides[1] and name not in sides[0]],
        (len(baseline), len(current)),
        per_side(lambda one: one.is_broken),
        per_side(lambda one: one.infrastructure),
    )


def _by_task(trials: Iterable[Trial]) -> dict[str, list[Trial]]:
    found: dict[str, list[Trial]] = {}
    for one in trials:
        found.setdefault(one.task, []).append(one)
    return found


def unstable(trials: Sequence[Trial], measure: str) -> bool:
    """Whether trials of one task end differently: some succeed and some do not; else, their values differ by more than
    chance explains, by Pearson's chi-square test at 5 % (of rates as binomial, of counts as Poisson numbers).
    """
    if len(Counter(one.success for one in trials if one.success is not None)) > 1:
        return True
    unit = unit_of(measure)
    sums = [each for one in trials if (each := one.of(measure))[1]]
    part, whole = sum(one for one, _ in sums), sum(one for _, one in sums)
    if len(sums) < 2 or not part or unit.kind in ("quantile", "per_1000"):
        return False
    mean = part / whole
    spread = (1 - mean) if unit.kind == "rate" else 1.0
    if spread <= 0:
        return False
    return sum((one - mean * of) ** 2 / (mean * of * spread) for one, of in sums) > _chi_square(len(sums) - 1)


def _chi_square(freedom: int) -> float:
    """The 95th percentile, by Wilson and Hilferty (1931)."""
    step = 2 / (9 * freedom)
    return float(freedom * (1 - step + 1.6449 * sqrt(step)) ** 3)
