"""Two selections side by side: this period and the one before, or two values of one dimension.

Each measure is a row of `COMPARED`; how sure a difference is and what to call it is in `verdicts`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

from collector.intervals import Z
from collector.query.breakdowns import QUANTILES
from collector.query.filters import BadParameter, Selection, terms_of
from collector.query.hours import Counts, counted
from collector.query.quantiles import at_place, ranked
from collector.query.retries import chains, relation
from collector.query.statement import Derived, Row, Statement, load, types_of
from collector.query.streaks import LIMITS, Scope, streak_sql
from collector.query.verdicts import VERDICTS, Gathered, Side, Unit, count, gathered, judge, per_session, rate, share

ERROR = "outcome = 'error'"
RATED = "outcome in ('ok', 'error') and {rated}"
IN_SESSION = "session is not null"
MOST_GROUPS = 1_000_000
TOGETHER = 4  # measures per statement, which holds counts of every session in memory
SUMS = {  # the columns of `Gathered`
    "sessions": 'count(*) filter ("whole {i}" > 0)', "part": 'sum("part {i}")', "whole": 'sum("whole {i}")',
    "parts2": 'sum("part {i}" * "part {i}")', "cross": 'sum("part {i}" * "whole {i}")',
    "wholes2": 'sum("whole {i}" * "whole {i}")',
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Compared:
    """A measure as a part of a whole, as conditions over `events`; what is not of the whole is no part of it either.

    `once` names which of both count a session once, however many of its events meet them. `of_chains` asks what became
    of errors, which only `chains` know. `beside_all`: the whole is the side's, not that of what it is broken down by: a
    class of errors has no calls of its own.
    """

    unit: Unit
    part: str = "false"
    whole: str = "true"
    once: tuple[str, ...] = ()
    of_chains: bool = False
    beside_all: bool = False
    about: tuple[str, ...] = ()  # dimensions that its conditions name, beyond those of `hourly_sessions`


COMPARED = {
    "error_rate": Compared(Unit("rate", 1), ERROR, RATED),
    "mistake_rate": Compared(Unit("rate", 1), f"{ERROR} and mistake", RATED),
    # A success is known at once, its absence only when the chain's window has closed: of younger errors, a share would
    # be that of the fast ones.
    "lasting_rate": Compared(Unit("rate", 1, "settled error"), "not recovered", "closed and {rated}", of_chains=True),
    "recovery_rate": Compared(Unit("rate", -1, "retried error"), "recovered", "retried and {rated}", of_chains=True),
    "unclassified_rate": Compared(
        Unit("rate", 1, "error"), "error_class = 'UnknownError'", ERROR, about=("error_class",)
    ),
    "hit_rate": Compared(Unit("rate", 1, "session"), ERROR, IN_SESSION, ("part", "whole")),
    # Its part is counted from the streaks.
    "streak_rate": Compared(
        Unit("rate", 1, "session"), whole=f"operation = 'tool' and {IN_SESSION}", once=("part", "whole")
    ),
    "cancelled_rate": Compared(Unit("rate", 0), "outcome = 'cancelled'"),
    "denied_rate": Compared(Unit("rate", 0), "outcome = 'denied'"),
    "unknown_rate": Compared(Unit("rate", 0), "outcome = 'unknown'"),
    "calls": Compared(Unit("count", 0), "true"),
    "errors": Compared(Unit("count", 1, "error"), ERROR),
    "mistakes": Compared(Unit("count", 1, "mistake"), f"{ERROR} and mistake"),
    "lasting": Compared(Unit("count", 1, "error"), "not recovered", of_chains=True),
    "not_known_yet": Compared(Unit("count", 0, "error"), "recovered is null", of_chains=True),
    "sessions": Compared(Unit("count", 0, "session"), IN_SESSION, once=("part",)),
    "errors_per_session": Compared(Unit("per_session", 1, "session"), ERROR, IN_SESSION, ("whole",)),
    "mistakes_per_session": Compared(Unit("per_session", 1, "session"), f"{ERROR} and mistake", IN_SESSION, ("whole",)),
    "errors_per_1000": Compared(Unit("per_1000", 1), ERROR, RATED, beside_all=True),
    "p50_ms": Compared(Unit("quantile", 1)),
    "p95_ms": Compared(Unit("quantile", 1)),
}

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


def sides_of(selection: Selection, dimension: str | None, a: str | None, b: str | None) -> Sides:
    """The period before against this one, or two values of a dimension. Raises BadParameter where a or b is missing."""
    if dimension is None:
        if a is not None or b is not None:
            raise BadParameter("dimension", "", "a and b are values of a dimension: name it, as in dimension=model")
        whole = replace(selection, start_ns=selection.previous_ns)
        return Sides(whole, "case when time_ns >= $middle_ns then 'b' else 'a' end", {"middle_ns": selection.start_ns})
    asked: list[str] = []
    bound: dict[str, object] = {}
    for side, word in (("a", a), ("b", b)):
        if word is None:
            raise BadParameter(side, "", f"{side} is missing: two values of {dimension} are compared, a with b")
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
    a: str | None = None,
    b: str | None = None,
    sort: Sequence[str] = (),
    limit: int = 100,
) -> Derived:
    """Each measure of a and b with their difference and a verdict, clear ones first, the largest difference first."""
    sides = sides_of(selection, dimension, a, b)
    names = tuple(measures) or ("error_rate",)
    parts = list(together(names))
    asked = [_statement(part, sides, by) for part in parts]
    if any(COMPARED[name].beside_all for name in names):
        asked.append(_statement(["error_rate"], sides, ()))

    def work(*answers: Sequence[Row]) -> list[Row]:
        told = {name: _of(place, name, rows)
                for part, rows in zip(parts, answers[: len(parts)], strict=True)
                for place, name in enumerate(part)}  # fmt: skip
        rated = {row["side"]: row["whole 0"] for rows in answers[len(parts) :] for row in rows}
        found = [row for name in names for row in _rows(name, sides, by, told[name], rated)]
        return sorted(found, key=lambda row: (names.index(row["measure"]), _clarity(row))) if by else found

    return Derived(tuple(asked), work, {"measure": "varchar", **types_of(by), **TYPES}, sort, limit)


def _clarity(row: Row) -> tuple[int, float]:
    return max(3, VERDICTS.index(row["verdict"])), -abs(row["difference"] or 0)


def together(names: Sequence[str]) -> Iterator[list[str]]:
    """The measures in lots of which each is one statement: those that are counted from the same rows."""
    rows: dict[tuple[object, ...], list[str]] = {}
    for name in names:
        if name not in QUANTILES:
            measure = COMPARED[name]
            rows.setdefault((measure.of_chains, measure.beside_all, measure.about), []).append(name)
    for same in rows.values():
        yield from (same[at : at + TOGETHER] for at in range(0, len(same), TOGETHER))
    yield from ([name] for name in names if name in QUANTILES)


def _of(place: int, name: str, rows: Sequence[Row]) -> Sequence[Row]:
    """What a statement's rows say of the measure in this place; none where a side has nothing of its whole."""
    if name in QUANTILES:
        return rows
    return [row | {column: row[f"{column} {place}"] for column in SUMS} for row in rows if row[f"sessions {place}"]]


def _statement(names: Sequence[str], sides: Sides, by: Sequence[str]) -> Statement:
    """The sums of each side by the dimensions, or a quantile; every row of them is wanted."""
    selection = sides.selection
    keys = "".join(f'"{key}", ' for key in by)
    named = [*by, *([sides.dimension] if sides.dimension else [])]
    if names[0] in QUANTILES:
        sql = _quantiles(QUANTILES[names[0]], relation(selection, *named), selection.where(), sides.sql, by)
    else:
        sql = load("compared").format(
            keys=keys,
            sums=", ".join(
                f'{sql.format(i=place)}::double as "{name} {place}"'
                for place in range(len(names))
                for name, sql in SUMS.items()
            ),
            sessions=in_sessions(names, sides, by),
        )
    asks = asks_later(names, selection, *named)
    return Statement(sql, {**selection.params(), **sides.params}, "1", MOST_GROUPS, of_kept=asks, of_clock=asks)


def asks_later(names: Sequence[str], selection: Selection, *named: str) -> bool:
    """Whether measures or columns depend on what follows an event: on derived tables, and on the clock."""
    of_chains = names[0] in COMPARED and COMPARED[names[0]].of_chains
    return of_chains or "streak_rate" in names or selection.reads_chains(*named)


def in_sessions(names: Sequence[str], sides: Sides, by: Sequence[str]) -> str:
    """What each session (`whose`) of a side has of the part and whole of measures that `together` put in one lot."""
    selection, measure = sides.selection, COMPARED[names[0]]
    named = [*by, *([sides.dimension] if sides.dimension else [])]
    # The fate of errors is only known for errors that began a retry chain.
    rows = (
        Counts(f"({chains(selection, *named)})")
        if measure.of_chains
        else counted(selection, [*named, *measure.about, "session"], cut="" if sides.dimension else "$middle_ns")
    )
    struck = "union all " + _struck(names, sides, by, "1, " if rows.table else "") if "streak_rate" in names else ""
    return load("in_sessions").format(
        keys="".join(f'"{key}", ' for key in by),
        side=sides.sql,
        marked=", ".join(_marks(names, selection)),
        events="events, " if rows.table else "",
        counts=", ".join(_counts(names, rows)),
        source=rows.source,
        where=f"{selection.where()} and {measure.part}" if measure.beside_all else selection.where(),
        struck=struck,
    )


def _marks(names: Sequence[str], selection: Selection) -> Iterator[str]:
    """Of an event, whether it is of each measure's part and whole."""
    for place, name in enumerate(names):
        part, whole = (
            text.replace("{rated}", selection.rated()) for text in (COMPARED[name].part, COMPARED[name].whole)
        )
        yield f'({part}) and {whole} as "part {place}", {whole} as "whole {place}"'


def _counts(names: Sequence[str], rows: Counts) -> Iterator[str]:
    """What a session has of each measure's part and whole."""
    for place, name in enumerate(names):
        for one in ("part", "whole"):
            many = rows.count(f'"{one} {place}"')
            yield f'{f"({many} > 0)::bigint" if one in COMPARED[name].once else many} as "{one} {place}"'


def _struck(names: Sequence[str], sides: Sides, by: Sequence[str], events: str) -> str:
    """Streaks that reached the limit, as rows of their sessions that are of nothing but the measure of streaks."""
    firsts = list(dict.fromkeys([*by, *([sides.dimension] if sides.dimension else [])]))
    return load("struck").format(
        keys="".join(f'"{key}", ' for key in by),
        side=sides.sql,
        events=events,
        marked=", ".join(f"{name == 'streak_rate'}, {name == 'streak_rate'}" for name in names),
        firsts="".join(f'"first_{key}" as "{key}", ' for key in firsts),
        streaks=streak_sql(sides.selection, Scope(), firsts),
        limit=LIMITS["session"],
    )


def _rows(name: str, sides: Sides, by: Sequence[str], found: Sequence[Row], rated: Mapping[str, float]) -> list[Row]:
    keys: dict[tuple[Any, ...], dict[str, Row]] = {} if by else {(): {}}
    for row in found:
        keys.setdefault(tuple(row[key] for key in by), {})[row["side"]] = row
    return [
        {"measure": name, **dict(zip(by, key, strict=True)), **_compared(name, sides, both, rated)}
        for key, both in keys.items()
    ]


def _compared(name: str, sides: Sides, both: Mapping[str, Row], rated: Mapping[str, float]) -> Row:
    unit = COMPARED[name].unit
    if unit.kind == "count" and sides.dimension:  # of how many calls differs, so neither more nor fewer is worse
        unit = replace(unit, worse=0)
    if name in QUANTILES:
        a, b = (_quantile(both.get(side)) for side in "ab")
    else:
        sums = [gathered(both[side]) if side in both else Gathered() for side in "ab"]
        if COMPARED[name].beside_all:
            sums = [replace(one, whole=rated.get(side, 0)) for side, one in zip("ab", sums, strict=True)]
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
        case "per_1000":
            return share(a, 1000), share(b, 1000)
    return per_session(a), per_session(b)


def _quantiles(middle: float, source: str, where: str, side: str, by: Sequence[str]) -> str:
    """A quantile of the durations of each side, with its interval of order statistics: none where that would lie beyond
    the shortest or longest one seen.
    """
    own = {**{f"key_{place}": f'"{name}"' for place, name in enumerate(by)}, "side": side}
    half = f"{Z * sqrt(middle * (1 - middle))} / sqrt(last + 1)"
    fractions = f"""case when {middle} - {half} >= 0 and {middle} + {half} <= 1
      then [{middle}, {middle} - {half}, {middle} + {half}] else [{middle}] end"""
    ends = {"value": 1, "low": 2, "high": 3}
    values = ["any_value(last + 1)::bigint as whole", *(f"{at_place(place)}) as {end}" for end, place in ends.items())]
    named = "".join(f'key_{place} as "{name}", ' for place, name in enumerate(by))
    sql = ranked(source, f"{where} and ({side}) is not null", own, fractions, values)
    return f"select {named}side, whole, value, low, high from ({sql})"


def _quantile(row: Row | None) -> Side:
    if row is None:
        return Side(None, None, None, None, 0)
    return Side(row["value"], row["low"], row["high"], None, row["whole"])
