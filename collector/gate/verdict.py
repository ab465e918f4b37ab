"""The verdict over all measures: passed, a warning, failed (worse, or beyond a limit), or that it cannot be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collector.gate.difference import Difference, Interval, difference, side_of
from collector.gate.trials import SUCCESS, Paired, Task, Trial, paired, unit_of, unstable
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

    def limit(self, measure: str) -> float | None:
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
    pairs = paired(baseline or (), current)
    if baseline is None:
        alone = paired(current, current)
        tasks = [Task(one.name, (), one.current) for one in alone.tasks]
        pairs = Paired(tasks, (), (), pairs.trials, pairs.broken, pairs.infrastructure)
    shaky = [one.name for one in pairs.tasks if unstable(one.baseline, asked.measures[0])]
    if why := _untold(pairs, baseline is not None, asked):
        return Gate(UNTOLD, f"Cannot tell: {why}.", (), pairs, shaky, ())
    rows = list(_rows(pairs, baseline is not None, asked))
    single = _fewest(pairs.tasks, baseline is not None) < asked.trials
    warnings = list(_warnings(pairs, single, asked))
    failing = [row for row in rows if row.fails]
    if all(row.found.b.value is None for row in rows if row.is_judged):
        names = ", ".join(row.measure for row in rows if row.is_judged)
        return Gate(UNTOLD, f"Cannot tell: no call of this run counts for {names}.", rows, pairs, shaky, warnings)
    state = (WARNED if single else FAILED) if failing else (WARNED if warnings else PASSED)
    told = failing or [row for row in rows if row.is_judged]
    sentence = "; ".join(_said(row) for row in told) + "."
    return Gate(state, sentence[:1].upper() + sentence[1:], rows, pairs, shaky, warnings)


def _untold(pairs: Paired, compares: bool, asked: Asked) -> str:
    """Why nothing can be told; empty if something can."""
    for name, many, broken in zip(("baseline", "run"), pairs.trials, pairs.broken, strict=True):
        where = "the baseline" if name == "baseline" else "this run"
        if name == "baseline" and not compares:
            continue
        if not many:
            return f"there are no trials of {where}"
        if broken > BROKEN * many:
            return f"the infrastructure broke {broken} of {plural(many, 'trial')} of {where}"
    if not pairs.tasks:
        return "no task was tried on both sides; --task names the dimension or attribute that tells the task"
    few = min(_counts(pairs.tasks, compares))
    if _fewest(pairs.tasks, compares) >= asked.trials and few < FEW_TRIALS:
        return f"{plural(few, 'trial')} on a side are too few; it takes {FEW_TRIALS}"
    return ""


def _counts(tasks: Sequence[Task], compares: bool) -> tuple[int, ...]:
    current = sum(len(one.current) for one in tasks)
    return (sum(len(one.baseline) for one in tasks), current) if compares else (current,)


def _fewest(tasks: Sequence[Task], compares: bool) -> int:
    """How often the most tried task of the side with fewer trials was tried."""
    current = max(len(one.current) for one in tasks)
    return min(max(len(one.baseline) for one in tasks), current) if compares else current


def _rows(pairs: Paired, compares: bool, asked: Asked) -> list[Row]:
    names = list(dict.fromkeys(asked.measures))
    rows = [_row(name, pairs.tasks, compares, asked) for name in names]
    if SUCCESS not in names:
        beside = _row(SUCCESS, pairs.tasks, compares, asked, is_judged=asked.limit(SUCCESS) is not None)
        if beside.found.b.value is not None:
            rows.append(beside)
    return rows


def _row(name: str, tasks: Sequence[Task], compares: bool, asked: Asked, *, is_judged: bool = True) -> Row:
    unit = unit_of(name)
    sums = [([one.of(name) for one in task.baseline], [one.of(name) for one in task.current]) for task in tasks]
    if compares:
        found = difference(sums)
        between = _bounded(unit, found.between)
        found = Difference(found.a, found.b, between)
        said = decided(unit, found.a, found.b, between) if between else too_few(unit, found.a, found.b)
    else:
        found = Difference(Side(None, None, None, 0, 0), side_of([current for _, current in sums]), None)
        said = {"verdict": "", "sentence": f"{written(unit, found.b.value)}, n = {plural(found.b.whole, unit.of)}"}
    return Row(
        name, unit, found, said["verdict"], said["sentence"], _beyond(unit, found.b, asked.limit(name)), is_judged
    )


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


def _warnings(pairs: Paired, single: bool, asked: Asked) -> list[str]:
    found = []
    if single:
        times = "once" if asked.trials == 2 else f"fewer than {asked.trials} times"
        found.append(
            f"Each task was tried {times} on a side: that never fails the gate. Repeat the tasks for a verdict."
        )
    if pairs.tasks and {one.name for one in pairs.tasks} == {""}:
        found.append(
            "Nothing tells the task: all trials are compared as if they were of one. --task names what tells it."
        )
    if pairs.missing:
        found.append(
            f"{plural(len(pairs.missing), 'task')} of the baseline left out: this run has no trial of them that counts."
        )
    return found
