"""The trials of evaluations: each session with its task, whether the task succeeded, and its part of each measure.

What failed for the environment or the provider is counted apart, and is in no measure: it is not the agent's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from collector.query.breakdowns import QUANTILES
from collector.query.compare import COMPARED, Sides, asks_later, in_sessions, together
from collector.query.filters import BY_NAME, Selection, Term
from collector.query.retries import relation
from collector.query.statement import Derived, Row, Statement, load

APART = ("environment", "provider")  # attributions
FAILED_APART = "coalesce(outcome = 'error' and attribution in ('environment', 'provider'), false)"
# Attributes that are read where none is named: the first that is told.
TASKS = ("task", "task.id", "task_id", "task.name", "task_name")
SUCCESSES = ("task.success", "task_success", "task.reward", "reward")
COLUMNS = ("repository", "turn")  # that may name a task although they are no dimensions
MEASURES = tuple(name for name in COMPARED if name != "sessions")  # each trial is one
SAME = {"errors_per_1000": "error_rate"}  # with other units
MOST_TRIALS = 100_000
TYPES = {
    "service": "varchar", "session": "varchar", "task": "varchar", "success": "varchar", "calls": "bigint",
    "infrastructure": "bigint", "cut_off": "boolean", "measure": "varchar", "part": "double", "whole": "double",
}  # fmt: skip


def trials(
    selection: Selection, measures: Sequence[str], task: str = "", success: str = "", limit: int = 10_000
) -> Derived:
    """A row for each session and measure, with its `part` and `whole`; oldest names first.

    `task` and `success` name a dimension or an attribute; by default the first of `TASKS` and `SUCCESSES` found.
    A quantile is that of the session's durations, of a whole of 1.
    """
    names = tuple(measures) or ("mistake_rate",)
    without = Term(BY_NAME["attribution"], APART, negated=True, mark="apart_")
    scored = replace(selection, terms=(*selection.terms, without))
    parts = list(together(list(dict.fromkeys(SAME.get(name, name) for name in names))))
    asked = [_sessions(selection, task, success), *(_statement(part, scored) for part in parts)]

    def work(found: Sequence[Row], *answers: Sequence[Row]) -> list[Row]:
        told = {name: {row["whose"]: (row[f"part {place}"], row[f"whole {place}"]) for row in rows}
                for part, rows in zip(parts, answers, strict=True)
                for place, name in enumerate(part)}  # fmt: skip
        return [row for one in sorted(found, key=_place) for row in _rows(one, names, told)]

    return Derived(tuple(asked), work, TYPES, (), limit)


def _place(row: Row) -> tuple[str, str, str]:
    return row["task"] or "", row["session"], row["service"] or ""


def _rows(
    one: Row, names: Sequence[str], told: Mapping[str, Mapping[int, tuple[float | None, float]]]
) -> Iterator[Row]:
    own = {name: one[name] for name in TYPES if name in one}
    for name in names:
        part, whole = told[SAME.get(name, name)].get(one["whose"], (0, 0))
        yield {**own, "measure": name, "part": float(part or 0), "whole": float(whole)}


def _sessions(selection: Selection, task: str, success: str) -> Statement:
    bound: dict[str, Any] = {}
    sql = load("trials").format(
        task=_first(task, TASKS, "task", bound),
        success=_first(success, SUCCESSES, "success", bound),
        apart=FAILED_APART,
        source=relation(selection),
        where=selection.where(),
    )
    asks = selection.reads_chains()
    return Statement(sql, {**selection.params(), **bound}, "1", MOST_TRIALS, of_kept=asks, of_clock=asks)


def _first(named: str, usual: Sequence[str], mark: str, bound: dict[str, Any]) -> str:
    """The first of these that an event tells, as SQL: columns, else attributes, whose names are bound."""
    words = []
    for place, name in enumerate([named] if named else usual):
        if name in BY_NAME or name in COLUMNS:
            words.append(f'"{name}"::varchar')
        else:
            bound[f"{mark}_{place}"] = "/" + name.replace("~", "~0").replace("/", "~1")  # a JSON pointer
            words.append(f"json_extract_string(attributes, ${mark}_{place})")
    return f"coalesce({', '.join(words)})"


def _statement(names: Sequence[str], scored: Selection) -> Statement:
    """Part and whole of measures that are counted from the same rows, in each session."""
    if names[0] in QUANTILES:
        value = f"quantile_cont(duration_ms, {QUANTILES[names[0]]})"
        sql = f"""select hash(project, service, session) as whose, {value}::double as "part 0", 1 as "whole 0"
            from {relation(scored)} where {scored.where()} and session is not null and duration_ms is not null
            group by whose"""
    else:
        sql = in_sessions(names, Sides(scored, "'b'", {}), ())
    asks = asks_later(names, scored)
    params = {**scored.params(), "middle_ns": scored.start_ns}
    return Statement(sql, params, "1", MOST_TRIALS, of_kept=asks, of_clock=asks)
