"""The verdict as Markdown: for the summary of a job, and as a comment of a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from collector.gate.difference import difference
from collector.gate.trials import Task, unit_of
from collector.gate.verdict import Gate, Row
from collector.plural import plural
from collector.query.verdicts import signed, written
from collector.visible import visible

MARK = "<!-- misstep gate -->"  # by which a workflow finds its comment again
MOST_NAMED, MOST_TASKS, NAME_CHARS = 20, 100, 80


def markdown(gate: Gate) -> str:
    """One sentence, a table of the measures, what else is to be known, and a table of the tasks."""
    return "\n".join(_lines(gate)) + "\n"


def comment(gate: Gate) -> str:
    """The same with a mark by which the comment can be found and replaced."""
    return f"{MARK}\n{markdown(gate)}"


def _lines(gate: Gate) -> Iterator[str]:
    yield f"**Misstep: {gate.state}.** {gate.sentence}"
    if gate.rows:
        yield ""
        yield "| measure | baseline | this run | difference | 95 % interval | verdict |"
        yield "| --- | --: | --: | --: | --- | --- |"
        yield from map(_row, gate.rows)
    yield ""
    yield from (f"- {one}" for one in (*gate.warnings, *_notes(gate)))
    if gate.rows and gate.paired.compares:
        yield from _tasks(gate)


def _row(row: Row) -> str:
    between = row.found.between
    ends = ["", ""]
    if between:
        ends = [signed(row.unit, between[0]), f"{signed(row.unit, between[1])} to {signed(row.unit, between[2])}"]
    verdict = ", ".join(one for one in (row.verdict.replace("_", " "), row.beyond) if one)
    values = [written(row.unit, side.value) for side in (row.found.a, row.found.b)]
    name = row.measure if row.is_judged else f"{row.measure} (beside)"
    return f"| {' | '.join((name, *values, *ends, f'**{verdict}**' if row.fails else verdict))} |"


def _notes(gate: Gate) -> Iterator[str]:
    pairs = gate.paired
    for side in pairs.sides:
        if side.infrastructure:
            lost = f", which broke {plural(side.broken, 'trial')}" if side.broken else ""
            failures = plural(side.infrastructure, "failure")
            yield f"Counted apart on {side.name}: {failures} of environment or provider{lost}."
    if gate.unstable:
        yield f"Unstable on the baseline: {named(gate.unstable)}."
    if pairs.missing:
        yield f"Only on the baseline: {named(pairs.missing)}."
    if pairs.added:
        yield f"Only in this run: {named(pairs.added)}."
    if pairs.tasks:
        yield f"{plural(len(pairs.tasks), 'task')}; {_trials(pairs.tasks)} trials."


def _tasks(gate: Gate) -> Iterator[str]:
    """The tasks, those that became worse most first."""
    measure = gate.rows[0].measure
    unit = unit_of(measure)
    found = []
    for task in gate.paired.tasks:
        one = difference([([each.of(measure) for each in task.baseline], [each.of(measure) for each in task.current])])
        change = one.between[0] * (unit.worse or 1) if one.between else 0.0
        note = "unstable" if task.name in gate.unstable else ""
        values = (written(unit, one.a.value), written(unit, one.b.value))
        found.append((-change, f"| {code(task.name)} | {values[0]} | {values[1]} | {_trials([task])} | {note} |"))
    yield ""
    yield f"<details><summary>{measure} by task</summary>"
    yield ""
    yield "| task | baseline | this run | trials | |"
    yield "| --- | --: | --: | --: | --- |"
    yield from (line for _, line in sorted(found)[:MOST_TASKS])
    if len(found) > MOST_TASKS:
        yield f"| and {len(found) - MOST_TASKS} more | | | | |"
    yield ""
    yield "</details>"


def _trials(tasks: Sequence[Task]) -> str:
    """How many, on the baseline and in this run."""
    return f"{sum(len(one.baseline) for one in tasks)} and {sum(len(one.current) for one in tasks)}"


def named(tasks: Sequence[str]) -> str:
    """Names in a sentence, the first twenty."""
    more = f" and {len(tasks) - MOST_NAMED} more" if len(tasks) > MOST_NAMED else ""
    return ", ".join(map(code, tasks[:MOST_NAMED])) + more


def code(name: str) -> str:
    """Outside text as code, which Markdown leaves alone: no links, mentions, HTML or columns."""
    line = visible(" ".join(name.split()))[:NAME_CHARS].replace("`", "'").replace("|", "\\|")
    return f"`{line}`" if line else "(no task)"
