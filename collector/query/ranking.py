"""Models, versions, agents or providers ranked by the mistakes in a hundred calls of tools, with what those cost.

Counted are calls of tools that ended as ok or as an error, of sources that report both; a filter on `operation` counts
others. At equal tools means direct standardisation: every tool has the weight that it has over all rows together, among
the tools that a row has called, so that nobody looks better for calling tools at which all make fewer mistakes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import sqrt

from collector.intervals import wilson
from collector.query.costs import costs
from collector.query.filters import Selection, terms_of
from collector.query.hours import counted
from collector.query.retries import retries
from collector.query.statement import Derived, Row, Statement, load, types_of
from collector.query.verdicts import FEW_CALLS, Gathered, gathered, rate

BY = ("model", "service_version", "agent", "provider")
MOST = 10_000  # values, and values by tool
FATES = ("errors", "lasting", "not_known_yet")
COSTS = ("streaks", "calls", "input_tokens", "output_tokens", "cost_usd")
TYPES = {
    "calls": "bigint", "sessions": "bigint", "mistakes": "bigint", "per_100": "double", "low": "double",
    "high": "double", "equal_per_100": "double", "equal_low": "double", "equal_high": "double", "covered": "double",
    **dict.fromkeys(FATES, "bigint"), "streaks": "bigint", "lost_calls": "bigint", "lost_input_tokens": "bigint",
    "lost_output_tokens": "bigint", "lost_cost_usd": "double",
}  # fmt: skip

Key = tuple[object, ...]


def ranking(selection: Selection, by: str, sort: Sequence[str] = (), limit: int = 100) -> Derived:
    """One row for each value of `by`, of each service for versions; the worst first, those of few calls last."""
    if not selection.uses("operation"):
        selection = replace(selection, terms=(*selection.terms, *terms_of("operation", "tool")))
    keys = ("service", by) if by == "service_version" else (by,)
    asked = (
        _sessions(selection, keys),
        _tools(selection, keys),
        retries(selection, keys, limit=MOST),
        costs(selection, keys, limit=MOST),
    )

    def work(sums: Sequence[Row], tools: Sequence[Row], fates: Sequence[Row], lost: Sequence[Row]) -> list[Row]:
        return _ranked(keys, sums, tools, _by_key(keys, fates), _by_key(keys, lost))

    return Derived(asked, work, {**types_of(keys), **TYPES}, sort, limit)


def _sessions(selection: Selection, keys: Sequence[str]) -> Statement:
    rows = counted(selection, [*keys, "session", "outcome", "mistake", "source"])
    listed = ", ".join(f'"{key}"' for key in keys)
    sql = load("ranking").format(
        keys=f"{listed}, ",
        keys_only=listed,
        mistakes=rows.count("missed"),
        calls=rows.count(),
        events="events, " if rows.table else "",
        source=rows.source,
        where=selection.where(),
        rated=selection.rated(),
    )
    return Statement(sql, selection.params(), "1", MOST)


def _tools(selection: Selection, keys: Sequence[str]) -> Statement:
    rows = counted(selection, [*keys, "tool", "outcome", "mistake", "source"])
    listed = ", ".join(f'"{key}"' for key in (*keys, "tool"))
    missed = rows.count("outcome = 'error'", "coalesce(mistake, false)")
    sql = f"""select {listed}, {missed} as part, {rows.count()} as whole from {rows.source}
      where {selection.where()} and outcome in ('ok', 'error') and {selection.rated()} group by {listed}"""
    return Statement(sql, selection.params(), "whole desc", MOST)


def _by_key(keys: Sequence[str], rows: Sequence[Row]) -> dict[Key, Row]:
    return {tuple(row[key] for key in keys): row for row in rows}


def _ranked(
    keys: Sequence[str],
    sums: Sequence[Row],
    tools: Sequence[Row],
    fates: Mapping[Key, Row],
    lost: Mapping[Key, Row],
) -> list[Row]:
    weights: Counter[object] = Counter()
    own: defaultdict[Key, list[Row]] = defaultdict(list)
    for row in tools:
        weights[row["tool"]] += row["whole"]
        own[tuple(row[key] for key in keys)].append(row)
    found = []
    for key, row in _by_key(keys, sums).items():
        side = rate(gathered(row), Gathered())
        widening = gathered(row).widening() or gathered(row).one_each()
        fate, cost = fates.get(key, {}), lost.get(key, {})
        found.append({
            **dict(zip(keys, key, strict=True)),
            "calls": int(row["whole"]), "sessions": row["sessions"], "mistakes": int(row["part"]),
            "per_100": _hundred(side.value), "low": _hundred(side.low), "high": _hundred(side.high),
            **_at_equal_tools(own[key], weights, widening),
            **{name: fate.get(name, 0) for name in FATES},
            "streaks": cost.get("streaks", 0), **{f"lost_{name}": cost.get(name) for name in COSTS[1:]},
        })  # fmt: skip
    return sorted(found, key=lambda row: (row["calls"] < FEW_CALLS, -row["per_100"], *map(str, row.values())))


def _hundred(value: float | None) -> float | None:
    return None if value is None else value * 100


def _at_equal_tools(own: Sequence[Row], weights: Mapping[object, int], widening: float) -> Row:
    """The mistakes in a hundred calls at the weights of all rows together, and the share of these weights it has."""
    value, low, high = at_equal([(row["tool"], row["part"], row["whole"]) for row in own], weights, widening)
    covered = sum(weights[row["tool"]] for row in own) / sum(weights.values())
    return {
        "equal_per_100": value * 100, "equal_low": low * 100, "equal_high": high * 100, "covered": covered,
    }  # fmt: skip


def at_equal(
    own: Sequence[tuple[object, float, float]], weights: Mapping[object, int], widening: float = 1
) -> tuple[float, float, float]:
    """The mean of some shares, each a (key, part, whole), at the weights of their keys, with its interval.

    The variance is that of a weighted sum of shares, `widening` times as large; a share of nothing or of all is taken
    for half a part more or less.
    """
    every = sum(weights[key] for key, *_ in own)
    value, variance = 0.0, 0.0
    for key, part, whole in own:
        weight = weights[key] / every
        value += weight * part / whole
        near = (part + 0.5) / (whole + 1)
        variance += weight**2 * near * (1 - near) / whole * widening
    near = min(max(value, sqrt(variance)), 1 - sqrt(variance)) if variance < 0.25 else 0.5
    return value, *wilson(value, max(1.0, near * (1 - near) / variance))
