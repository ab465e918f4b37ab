"""Two selections side by side: this period and the one before, or two values of one dimension.

Each measure is a row of `COMPARED`; how sure a difference is and what to call it is in `verdicts`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

from collector.query.filters import BadParameter, Selection, terms_of
from collector.query.retries import relation
from collector.query.statement import Derived, Row, Statement, Z, load, types_of
from collector.query.streaks import LIMITS, Scope, streak_sql
from collector.query.verdicts import VERDICTS, Gathered, Side, Unit, count, gathered, judge, per_session, rate

ERROR = "outcome = 'error'"
RATED = "outcome in ('ok', 'error') and {rated}"


@dataclass(frozen=True, slots=True)
class Compared:
    """A measure as a part of a whole, as conditions over `events`; what is not of the whole is no part of it either.

    `needs` is a column that only `judged` has.
    """

    unit: Unit
    part: str = ""
    whole: str = "true"
    needs: str = ""


COMPARED = {
    "error_rate": Compared(Unit("rate", 1), ERROR, RATED),
    "mistake_rate": Compared(Unit("rate", 1), f"{ERROR} and mistake", RATED),
    "lasting_rate": Compared(Unit("rate", 1, "errors"), "recovered = false", "recovered is not null", "recovered"),
    "recovery_rate": Compared(Unit("rate", -1, "retried errors"), "recovered", "retried and {rated}", "recovered"),
    "unclassified_rate": Compared(Unit("rate", 1, "errors"), "error_class = 'UnknownError'", ERROR),
    "streak_rate": Compared(Unit("rate", 1, "sessions")),
    "cancelled_rate": Compared(Unit("rate", 0), "outcome = 'cancelled'"),
    "denied_rate": Compared(Unit("rate", 0), "outcome = 'denied'"),
    "calls": Compared(Unit("count", 0), "true"),
    "errors": Compared(Unit("count", 1, "errors"), ERROR),
    "mistakes": Compared(Unit("count", 1, "mistakes"), f"{ERROR} and mistake"),
    "sessions": Compared(Unit("count", 0, "sessions"), "session is not null"),
    "errors_per_session": Compared(Unit("per_session", 1, "sessions"), ERROR),
    "mistakes_per_session": Compared(Unit("per_session", 1, "sessions"), f"{ERROR} and mistake"),
    "p50_ms": Compared(Unit("quantile", 1)),
    "p95_ms": Compared(Unit("quantile", 1)),
}
QUANTILES = {"p50_ms": 0.5, "p95_ms": 0.95}
OFFSETS = tuple(0.0002 * 1.4**step for step in range(23))  # around a quantile, up to 0.33; they are rounded outwards

SIDE_TYPES = {"": "double", "_low": "double", "_high": "double", "_part": "double", "_whole": "bigint"}
TYPES = {
    **{f"{side}{name}": kind for side in "ab" for name, kind in SIDE_TYPES.items()},
    "difference": "double", "low": "double", "high": "double", "verdict": "varchar", "sentence": "varchar",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sides:
    """Which events are a's and which are b's: `sql` is 'a', 'b' or null over an event of `selection`."""

    selection: Selection
    sql: str
    params: Mapping[str, object]
    dimension: str = ""


def sides_of(selection: Selection, dimension: str | None, a: str, b: str) -> Sides:
    """The period before against this one, or two values of a dimension. Raises BadParameter where a or b is missing."""
    if dimension is None:
        if a or b:
            raise BadParameter("dimension", "", "a and b are values of a dimension: name it, as in dimension=model")
        whole = replace(selection, start_ns=selection.previous_ns)
        return Sides(whole, "case when time_ns >= $middle_ns then 'b' else 'a' end", {"middle_ns": selection.start_ns})
    asked: list[str] = []
    bound: dict[str, object] = {}
    for side, word in (("a", a), ("b", b)):
        if not word:
            raise BadParameter(side, word, f"{side} is missing: two values of {dimension} are compared, a with b")
        try:
            terms = terms_of(dimension, word, f"{side}_")
        except BadParameter as error:
            raise BadParameter(side, error.value, f"{side}: {error.message}", error.allowed) from None
        asked.append(f"when {' and '.join(term.sql() for term in terms)} then '{side}'")
        for term in terms:
            bound |= term.params()
    return Sides(selection, f"case {' '.join(asked)} end", bound, dimension)


def compare(
    selection: Selection,
    measures: Sequence[str],
    by: Sequence[str] = (),
    *,
    dimension: str | None = None,
    a: str = "",
    b: str = "",
    sort: Sequence[str] = (),
    limit: int = 100,
) -> Derived:
    """Each measure of a and b with their difference and a verdict, clear ones first, the largest difference first."""
    sides = sides_of(selection, dimension, a, b)
    names = tuple(measures) or ("error_rate",)
    asked = tuple(_statement(name, sides, by) for name in names)

    def work(*answers: Sequence[Row]) -> list[Row]:
        found = [row for name, rows in zip(names, answers, strict=True) for row in _rows(name, sides, by, rows)]
        return sorted(found, key=lambda row: (names.index(row["measure"]), _clarity(row))) if by else found

    return Derived(asked, work, {"measure": "varchar", **types_of(by), **TYPES}, sort, limit)


def _clarity(row: Row) -> tuple[int, float]:
    return max(3, VERDICTS.index(row["verdict"])), -abs(row["difference"] or 0)


def _statement(name: str, sides: Sides, by: Sequence[str]) -> Statement:
    """The sums of each side by the dimensions, or quantiles; every row of them is wanted."""
    selection = sides.selection
    keys = "".join(f'"{key}", ' for key in by)
    measure = COMPARED[name]
    needs = [measure.needs] if measure.needs else []
    source = relation(selection, *by, *needs, *([sides.dimension] if sides.dimension else []))
    common = {"keys": keys, "side": sides.sql, "source": source, "where": selection.where()}
    if name in QUANTILES:
        sql = load("quantiles").format(**common, fractions=[*_fractions(QUANTILES[name])])
    else:
        sql = load("compared").format(keys=keys, counted=_counted(name, sides, by, common))
    return Statement(sql, {**selection.params(), **sides.params}, "1", MOST_GROUPS)


MOST_GROUPS = 1_000_000


def _counted(name: str, sides: Sides, by: Sequence[str], common: Mapping[str, str]) -> str:
    """What each session has of the measure's part and whole."""
    measure, selection = COMPARED[name], sides.selection
    if name == "streak_rate":
        firsts = [*by, *([sides.dimension] if sides.dimension and sides.dimension not in by else [])]
        return load("struck").format(
            **common,
            firsts="".join(f'"first_{key}" as "{key}", ' for key in firsts),
            streaks=streak_sql(selection, Scope(), firsts),
            limit=LIMITS["session"],
        )
    part, whole = (text.replace("{rated}", selection.rated()) for text in (measure.part, measure.whole))
    among = "session is not null" if measure.unit.kind == "per_session" else "true"
    return load("counted").format(
        **common,
        part=f"count(*) filter ({part} and {whole})"
        if name != "sessions"
        else "any_value(session is not null)::bigint",
        whole="1" if measure.unit.kind == "per_session" else f"count(*) filter ({whole})",
        among=among,
    )


def _rows(name: str, sides: Sides, by: Sequence[str], found: Sequence[Row]) -> list[Row]:
    keys: dict[tuple[Any, ...], dict[str, Row]] = {} if by else {(): {}}
    for row in found:
        keys.setdefault(tuple(row[key] for key in by), {})[row["side"]] = row
    return [
        {"measure": name, **dict(zip(by, key, strict=True)), **_compared(name, sides, both)}
        for key, both in keys.items()
    ]


def _compared(name: str, sides: Sides, both: Mapping[str, Row]) -> Row:
    unit = COMPARED[name].unit
    if unit.kind == "count" and sides.dimension:  # of how many calls differs, so neither more nor fewer is worse
        unit = replace(unit, worse=0)
    if name in QUANTILES:
        a, b = (_quantile(QUANTILES[name], both.get(side)) for side in "ab")
    else:
        sums = [gathered(both[side]) if side in both else Gathered() for side in "ab"]
        a, b = _sides(unit.kind, *sums)
    row: Row = {}
    for side, one in (("a", a), ("b", b)):
        row |= {side: one.value, f"{side}_low": one.low, f"{side}_high": one.high}
        row |= {f"{side}_part": one.part, f"{side}_whole": one.whole}
    return row | judge(unit, a, b)


def _sides(kind: str, a: Gathered, b: Gathered) -> tuple[Side, Side]:
    match kind:
        case "rate":
            return rate(a, b), rate(b, a)
        case "count":
            return count(a), count(b)
    return per_session(a), per_session(b)


def _fractions(middle: float) -> list[float]:
    """The quantile itself, then pairs around it; where one lies outside 0 to 1, the nearer end stands for it."""
    around = [end for offset in OFFSETS for end in (max(0.0, middle - offset), min(1.0, middle + offset))]
    return [middle, *around]


def _quantile(middle: float, row: Row | None) -> Side:
    """A quantile with the interval of order statistics; no interval where it would lie beyond the longest one seen."""
    if row is None:
        return Side(None, None, None, None, 0)
    half = Z * sqrt(middle * (1 - middle) / row["whole"])
    place = bisect_left(OFFSETS, half)
    if place == len(OFFSETS) or middle + half > 1 or middle - half < 0:
        return Side(row["around"][0], None, None, None, row["whole"])
    low, high = row["around"][1 + 2 * place : 3 + 2 * place]
    return Side(row["around"][0], low, high, None, row["whole"])
