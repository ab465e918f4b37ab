"""Trials paired by task: which count, which were broken, and which tasks are unstable or missing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, sqrt
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
class Tried:
    """All trials of one side, named as in a sentence."""

    name: str
    trials: Sequence[Trial]

    @property
    def broken(self) -> int:
        """How many of them the infrastructure broke."""
        return sum(one.is_broken for one in self.trials)

    @property
    def infrastructure(self) -> int:
        """How many calls failed for the infrastructure."""
        return sum(one.infrastructure for one in self.trials)

    def by_task(self) -> dict[str, list[Trial]]:
        """Those that count, by task in the order of names."""
        found: dict[str, list[Trial]] = {}
        for one in sorted(self.trials, key=lambda one: one.task):
            if not one.is_broken:
                found.setdefault(one.task, []).append(one)
        return found


@dataclass(frozen=True, slots=True)
class Paired:
    """Tasks that were tried on all sides, and what was left out; without a baseline there is one side."""

    sides: Sequence[Tried]
    tasks: Sequence[Task]
    missing: Sequence[str] = ()  # only on the baseline
    added: Sequence[str] = ()  # only in this run

    @property
    def compares(self) -> bool:
        """Whether there is a baseline."""
        return len(self.sides) > 1

    def counts(self) -> list[list[int]]:
        """For each side, how often each task was tried."""
        current = [len(one.current) for one in self.tasks]
        return [[len(one.baseline) for one in self.tasks], current] if self.compares else [current]


def paired(baseline: Sequence[Trial] | None, current: Sequence[Trial]) -> Paired:
    """Pairs the trials of both sides by task; broken ones are left out."""
    run = Tried("this run", current)
    now = run.by_task()
    if baseline is None:
        return Paired([run], [Task(name, (), trials) for name, trials in now.items()])
    base = Tried("the baseline", baseline)
    before = base.by_task()
    both = [Task(name, before[name], now[name]) for name in before.keys() & now.keys()]
    return Paired(
        [base, run],
        sorted(both, key=lambda task: task.name),
        sorted(before.keys() - now.keys()),
        sorted(now.keys() - before.keys()),
    )


def unstable(trials: Sequence[Trial], measure: str) -> bool:
    """Whether trials of one task end differently: some succeed and some do not; else, their values differ by more than
    chance explains, by Pearson's chi-square test at 5 % (of rates as binomial, of counts as Poisson numbers).
    """
    told = {one.success for one in trials} - {None}
    return len(told) > 1 or _varies([one.of(measure) for one in trials], unit_of(measure).kind)


def _varies(sums: Sequence[Sum], kind: str) -> bool:
    if kind in ("quantile", "per_1000"):
        return False
    sums = [one for one in sums if one[1]]
    mean = mean_of(sums)
    spread = mean * (1 - mean) if kind == "rate" else mean
    if spread <= 0:
        return False
    squares = sum((part - mean * whole) ** 2 / (spread * whole) for part, whole in sums)
    return squares > _chi_square(len(sums) - 1)


def mean_of(sums: Sequence[Sum]) -> float:
    """Σ part ÷ Σ whole, 0 of nothing."""
    whole = sum(whole for _, whole in sums)
    return sum(part for part, _ in sums) / whole if whole else 0.0


def _chi_square(freedom: int) -> float:
    """The 95th percentile, by Wilson and Hilferty (1931); infinite without freedom, of which nothing can vary."""
    if not freedom:
        return inf
    step = 2 / (9 * freedom)
    return float(freedom * (1 - step + 1.6449 * sqrt(step)) ** 3)
