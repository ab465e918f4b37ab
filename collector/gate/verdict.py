"""The verdict over all measures: passed, a warning, failed (worse, or beyond a limit), or that it cannot be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collector.gate.difference import Difference, Interval, alone, difference
from collector.gate.trials import SUCCESS, Paired, Sum, Trial, paired, unit_of, unstable
from collector.plural import plural
from collector.query.verdicts import Side, Unit, decided, too_few, written

PASSED, WARNED, FAILED, UNTOLD = "passed", "warning", "failed", "cannot tell"
EXITS = {PASSED: 0, WARNED: 0, FAILED: 1, UNTOLD: 2}
FEW_TRIALS = 5  # on a side, of all tasks together
BROKEN = 0.5  # more of a side's trials, and the infrastructure was tested, not the agent


@dataclass(frozen=True, slots=True)
class Asked:
    """What is judged: measures, the worst value that each may have, and how many trials of a task a verdict needs."""

    measures: Sequence[str] = ("mistake_rate",)
    limits: Mapping[str, float] | None = None
    trials: int = 2

    @property
    def judged(self) -> set[str]:
        """The measures that can fail the gate; others stand beside."""
        return {*self.measures, *(self.limits or {})}

    def limit(self, measure: str) -> float | None:
        """The worst value that the measure may have."""
        return (self.limits or {}).get(measure)


@dataclass(frozen=True, slots=True)
class Row:
    """A measure on both sides. `sentence` begins with the verdict, as in compare; `beyond` says what of its limit."""

    measure: str
    unit: Unit
    found: Difference
    verdict: str
    sentence: str
    beyond: str = ""
    is_judged: bool = True  # else it only stands beside

    @property
    def fails(self) -> bool:
        """Whether it alone makes the gate fail."""
        return self.is_judged and (self.verdict == "worse" or bool(self.beyond))


@dataclass(frozen=True, slots=True)
class Gate:
    """The verdict, in one `sentence`, and what it rests on."""

    state: str
    sentence: str
    rows: Sequence[Row]
    paired: Paired
    unstable: Sequence[str]
    warnings: Sequence[str]

    @property
    def exit(self) -> int:
        """0 passed or warning, 1 failed, 2 cannot tell."""
        return EXITS[self.state]


def judged(baseline: Sequence[Trial] | None, current: Sequence[Trial], asked: Asked) -> Gate:
    """Compares this run with its baseline; without one, with its limits alone."""
    pairs = paired(baseline, current)
    shaky = [one.name for one in pairs.tasks if unstable(one.baseline, asked.measures[0])]
    if why := _untold(pairs, asked):
        return Gate(UNTOLD, f"Cannot tell: {why}.", (), pairs, shaky, ())
    rows = _rows(pairs, asked)
    warnings = _warnings(pairs, asked)
    scored = [row for row in rows if row.is_judged and row.found.b.value is not None]
    if not scored:
        names = ", ".join(asked.measures)
        return Gate(UNTOLD, f"Cannot tell: no call of this run counts for {names}.", rows, pairs, shaky, warnings)
    failing = [row for row in rows if row.fails]
    sentence = "; ".join(map(_said, failing or scored))
    state = _state(bool(failing), bool(warnings), _is_single(pairs, asked))
    return Gate(state, f"{sentence[:1].upper()}{sentence[1:]}.", rows, pairs, shaky, warnings)


def _state(fails: bool, warns: bool, single: bool) -> str:
    """One trial of each task never fails."""
    if fails and not single:
        return FAILED
    return WARNED if warns else PASSED


def _untold(pairs: Paired, asked: Asked) -> str:
    """Why nothing can be told; empty if something can."""
    for side in pairs.sides:
        if not side.trials:
            return f"there are no trials of {side.name}"
        if side.broken > BROKEN * len(side.trials):
            return f"the infrastructure broke {side.broken} of {plural(len(side.trials), 'trial')} of {side.name}"
    if not pairs.tasks:
        return "no task was tried on both sides; --task names the dimension or attribute that tells the task"
    few = min(map(sum, pairs.counts()))
    if few < FEW_TRIALS and not _is_single(pairs, asked):
        return f"{plural(few, 'trial')} on a side are too few; it takes {FEW_TRIALS}"
    return ""


def _is_single(pairs: Paired, asked: Asked) -> bool:
    """Whether a side tried no task as often as a verdict needs."""
    return min(map(max, pairs.counts())) < asked.trials


def _rows(pairs: Paired, asked: Asked) -> list[Row]:
    """The measures that were asked for, and the success of tasks beside them where it is told."""
    rows = [_row(name, pairs, asked) for name in dict.fromkeys((*asked.measures, SUCCESS))]
    return [row for row in rows if row.is_judged or row.found.b.value is not None]


def _row(name: str, pairs: Paired, asked: Asked) -> Row:
    unit = unit_of(name)
    sums = [(_sums(task.baseline, name), _sums(task.current, name)) for task in pairs.tasks]
    found = difference(sums) if pairs.compares else alone([current for _, current in sums])
    between = _bounded(unit, found.between)
    if not pairs.compares:
        said = {"verdict": "", "sentence": f"{written(unit, found.b.value)}, n = {plural(found.b.whole, unit.of)}"}
    elif between:
        said = decided(unit, found.a, found.b, between)
    else:
        said = too_few(unit, found.a, found.b)
    beyond = _beyond(unit, found.b, asked.limit(name))
    found = Difference(found.a, found.b, between)
    return Row(name, unit, found, said["verdict"], said["sentence"], beyond, name in asked.judged)


def _sums(trials: Sequence[Trial], name: str) -> list[Sum]:
    return [one.of(name) for one in trials]


def _bounded(unit: Unit, between: Interval | None) -> Interval | None:
    """Two rates differ by at most 1."""
    if between is None or unit.kind != "rate":
        return between
    return between[0], max(-1.0, between[1]), min(1.0, between[2])


def _beyond(unit: Unit, side: Side, limit: float | None) -> str:
    if limit is None or side.value is None:
        return ""
    down = unit.worse < 0
    is_beyond = side.value < limit if down else side.value > limit
    return f"{'below' if down else 'above'} the limit of {written(unit, limit)}" if is_beyond else ""


def _said(row: Row) -> str:
    verdict, colon, numbers = row.sentence.partition(": ")
    if not colon:
        told = f"{row.measure}: {row.sentence}"
    elif row.verdict in ("worse", "better"):
        told = f"{row.measure} is {verdict}: {numbers}"
    else:
        told = (
            f"{verdict} in {row.measure}: {numbers}" if row.verdict == "unclear" else f"{row.measure}: {row.sentence}"
        )
    return f"{row.measure} is {row.beyond}: {written(row.unit, row.found.b.value)} ({told})" if row.beyond else told


def _warnings(pairs: Paired, asked: Asked) -> list[str]:
    found = []
    if _is_single(pairs, asked):
        times = "once" if asked.trials == 2 else f"fewer than {asked.trials} times"
        found.append(f"Each task was tried {times} on a side, which never fails the gate: repeat them for a verdict.")
    if [one.name for one in pairs.tasks] == [""]:
        found.append("Nothing tells the task: all trials are compared as if of one. --task names what tells it.")
    if pairs.missing:
        lost = plural(len(pairs.missing), "task")
        found.append(f"{lost} of the baseline left out: this run has no trial of them that counts.")
    return found
