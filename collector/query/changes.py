"""Explains a rise or fall in errors since the period before by the values of dimensions.

The contributions of all values of a dimension add up to the whole change. Each is the sum of two parts, one due to more
(or other) calls and one due to calls that fail more often. Both are weighted with the averages of the two periods, so
that neither period is preferred.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from collector.engine.duckdb.derive import COUNTED
from collector.query.change_sentences import amount, of_change, sentence
from collector.query.compare import COMPARED, RATED
from collector.query.filters import BY_NAME, Selection
from collector.query.hours import OF_ALL, counted, ever
from collector.query.retries import relation, unjudged
from collector.query.statement import Derived, Row, Statement, load
from collector.query.verdicts import FEW_COUNTED, VERDICTS, Gathered, Unit, judge, percent, rate, share

EXPLAINED = (
    "tool", "mcp_server", "error_class", "category", "attribution", "fingerprint", "model", "provider", "agent",
    "service", "service_version", "environment", "repository", "source", "operation",
)  # fmt: skip
MEASURES = ("errors", "mistakes", "error_rate", "mistake_rate")
VOLUME = "volume"
TOTAL, GROUPS = "*total", "*groups"  # queried beside the dimensions
# Usually the same in all calls of a session.
OF_A_SESSION = ("model", "provider", "agent", "service", "service_version", "environment", "repository", "source")
PRESENT = "time_ns >= $start_ns"
SIDE = f"case when {PRESENT} then 'b' else 'a' end"
WHOSE = "hash(project, service, session)"
LIKENESS = {"parts2": "sum(part * part)"}
SUMS = {
    "sessions": "count(*)", "part": "sum(part)", "whole": "sum(whole)", **LIKENESS,
    "cross": "sum(part * whole)", "wholes2": "sum(whole * whole)",
}  # fmt: skip
MOST_VALUES = 2_000  # of a dimension: with more, those with most errors on a side, and else with most calls
MOST_ROWS = 100_000
NOTHING = Gathered()

TYPES = {
    "dimension": "varchar", "value": "varchar", "contribution": "double", "share": "double", "expected": "double",
    "traffic": "double", "rate": "double", "a_errors": "bigint", "a_calls": "bigint", "b_errors": "bigint",
    "b_calls": "bigint", "state": "varchar", "verdict": "varchar", "sentence": "varchar",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Both:
    """Errors and calls of the period before (a) and of this one (b)."""

    a: Gathered = NOTHING
    b: Gathered = NOTHING

    def rates(self) -> tuple[float, float]:
        """Errors ÷ calls of both sides; without calls, a side gets the rate of the other: the change is all traffic."""
        return _either(self.a.part, self.a.whole, self.b.part, self.b.whole)


def changes(
    selection: Selection, measure: str, by: Sequence[str] = (), *, sort: Sequence[str] = (), limit: int = 100
) -> Derived:
    """The values whose calls fail more (or less) often, clear ones first, by the change at equal traffic.

    For counts, rows of `volume` come before them, if `by` names it or is empty.
    """
    names = tuple(name for name in by if name != VOLUME) if by else EXPLAINED
    part, whole = COMPARED[measure].part, "true"
    beside = {GROUPS: _groups(selection)} if "fingerprint" in names else {}
    of_calls: list[str] = []
    if measure.endswith("_rate"):
        whole = RATED.replace("{rated}", selection.rated())
        part = f"{part} and {whole}"
        of_calls = [name for name in names if BY_NAME[name].about == "call"]
    elif VOLUME in by or not by:
        beside = {VOLUME: _volumes(selection), **beside}
    rest = [name for name in names if name not in of_calls]
    # One after the other: all grouping sets at once would hold all their sessions in memory.
    counts = [_most(sql, "part desc, whole desc") for sql in _counts(selection, rest, part, whole)]
    likeness = [_most(sql, "parts2 desc") for sql in _sessions(selection, rest, part, chains=True)]
    sums = [_most(sql, "part desc, whole desc") for sql in _sessions(selection, of_calls, part, whole)]
    params = selection.params() | {"middle_ns": selection.start_ns}
    asks = selection.reads_chains(*names)

    def work(*answers: Sequence[Row]) -> list[Row]:
        first = len(answers) - len(beside)
        found = dict(zip(beside, answers[first:], strict=True))
        return _explained(measure, names, added(answers[:first]), found)

    def statements(texts: Iterable[str], *, of_chains: bool = False) -> Iterator[Statement]:
        for sql in texts:
            yield Statement(sql, params, "1", MOST_ROWS, of_kept=asks or of_chains, of_clock=asks)

    every = (
        *statements(counts),
        *statements(likeness, of_chains=True),
        *statements(sums),
        *statements(beside.values()),
    )
    return Derived(every, work, TYPES, sort, limit)


def _most(sql: str, order: str) -> str:
    ranked = f"row_number() over (partition by dimension, side order by {order}, value)"
    return f"select * from ({sql}) qualify {ranked} <= {MOST_VALUES}"


def _counts(selection: Selection, names: Sequence[str], part: str, whole: str) -> Iterator[str]:
    """The SQL of errors and calls, in total and of each value."""
    hourly = [name for name in names if name in COUNTED[OF_ALL]]
    for group in (hourly, *([name] for name in names if name not in hourly)):
        rows = counted(selection, group, previous=True, facts=True)
        told = [f"{{'dimension': '{name}', 'value': \"{name}\"::varchar}}" for name in group]
        if group is hourly:
            told.append(f"{{'dimension': '{TOTAL}', 'value': null}}")
        errors_alone = group is not hourly and BY_NAME[group[0]].about == "end"
        yield load("changed_counts").format(
            names="".join(f'"{name}", ' for name in group),
            told=", ".join(told),
            side=SIDE,
            part=rows.count(part),
            whole=rows.count(whole),
            alone=f"{rows.count(part)} - {rows.fact('with_session', part)}",
            counted=rows.source,
            where=selection.where("$previous_ns"),
            only=part if errors_alone else whole,
        )


def _sessions(
    selection: Selection, names: Sequence[str], part: str, whole: str = "", *, chains: bool = False
) -> Iterator[str]:
    """The SQL of the sums over the sessions of each value.

    All sums are read from the events; with `chains`, only Σ part², from the retry chains that errors began, because
    `_counts` has the others.
    """
    common = {
        "present": PRESENT,
        "session": WHOSE if chains else f"case when session is null then event_id else {WHOSE} end",
        "part": part,
        "only": part if chains else whole,
        "where": selection.where("$previous_ns"),
    }
    sums = LIKENESS if chains else SUMS
    common["sums"] = ", ".join(f'{sql}::double as "{name}"' for name, sql in sums.items())

    def source(*names: str) -> str:
        return f"({unjudged(selection, *names)})" if chains else relation(selection, *names, start="$previous_ns")

    once = [name for name in names if name in OF_A_SESSION]
    if len(once) > 1:
        yield _once(selection, once, source(*once), common, sums)
    else:
        once = []
    for name in names:
        if name not in once:
            yield load("changed").format(**common, source=source(name), name=name)


def _once(
    selection: Selection, names: Sequence[str], source: str, common: Mapping[str, str], sums: Iterable[str]
) -> str:
    """The SQL of the sums over sessions for dimensions that have one value in most sessions, in one reading."""
    return load("changed_once").format(
        **common,
        source=source,
        names=", ".join(f'"{name}"' for name in names),
        told=", ".join(f"{{'dimension': '{name}', 'value': \"{name}\"::varchar}}" for name in names),
        counted=counted(selection, names, previous=True).source,
        listed=", ".join(f'"{name}"' for name in sums),
        added=", ".join(f'sum("{name}") as "{name}"' for name in sums),
    )


def _volumes(selection: Selection) -> str:
    """The SQL of the number of sessions of each side; a call without a session counts as one."""
    session = f"case when session is null then event_id else {WHOSE} end"
    rows = counted(selection, ["session"], previous=True)
    return f"""select {SIDE} as side, count(distinct {session}) as sessions
      from {rows.source} where {selection.where("$previous_ns")} group by all"""


def _groups(selection: Selection) -> str:
    """The SQL of class, tool and template of each group in either period, and whether it was never seen before."""
    all_events, shown = ever(), counted(selection, ["fingerprint"], previous=True)
    return load("told").format(
        ever=all_events.source,
        first=all_events.first(),
        last=all_events.last(),
        shown=shown.source,
        where=selection.where("$previous_ns"),
    )


def added(answers: Iterable[Sequence[Row]]) -> dict[str, dict[str | None, Both]]:
    """The sums of each value of each dimension; each statement has some of them."""
    sums: dict[str, dict[str | None, dict[str, dict[str, Any]]]] = {}
    for row in (row for rows in answers for row in rows):
        told = sums.setdefault(row["dimension"], {}).setdefault(row["value"], {"a": {}, "b": {}})[row["side"]]
        for name in SUMS:
            if name in row:
                told[name] = told.get(name, 0) + row[name]
    return {
        dimension: {value: Both(**{side: _gathered(told) for side, told in both.items()}) for value, both in of.items()}
        for dimension, of in sums.items()
    }


def _gathered(told: Mapping[str, Any]) -> Gathered:
    least = told.get("part", 0)  # where `_most` left out the row with Σ part²
    return Gathered(**{**told, "parts2": max(told.get("parts2", 0), least)})


def _explained(
    measure: str,
    names: Sequence[str],
    found: Mapping[str, Mapping[str | None, Both]],
    beside: Mapping[str, Sequence[Row]],
) -> list[Row]:
    total = found.get(TOTAL, {}).get(None, Both())
    for row in beside.get(VOLUME, ()):
        side = replace(getattr(total, row["side"]), sessions=row["sessions"])
        total = replace(total, **{row["side"]: side})
    groups = {str(row["fingerprint"]): row for row in beside.get(GROUPS, ())}
    replaced = {name: _replaced(found.get(name, {}).values()) for name in names if BY_NAME[name].about == "call"}
    rows = [
        _row(measure, name, value, both, total, groups, replaced.get(name, NOTHING))
        for name in names
        for value, both in found.get(name, {}).items()
        if both.a.part or both.b.part or (BY_NAME[name].about == "call" and (both.a.whole or both.b.whole))
    ]
    worse = _parts(measure, total, total)[1]
    rows.sort(key=lambda row: _importance(row, worse))
    return (_volume(total) if VOLUME in beside else []) + rows


def _importance(row: Row, worse: float) -> tuple[bool, float, float, str, str]:
    """By the change at equal traffic, beyond what is no surprise of `worse`, that of all calls: who only took over
    calls of others is to blame for nothing, and what all calls have in common explains nothing.
    """
    clear = VERDICTS.index(row["verdict"]) < VERDICTS.index("unclear")
    same_way = row["rate"] if worse >= 0 else -row["rate"]
    beyond = same_way - row["expected"] * abs(worse)
    return not (clear and same_way > 0), -beyond, -abs(row["contribution"]), row["dimension"], str(row["value"])


def _replaced(values: Iterable[Both]) -> Gathered:
    """The calls of the period before whose place others took: of each value, as many as it has fewer now."""
    part = whole = parts2 = 0.0
    for both in values:
        if both.a.whole > both.b.whole:
            fewer = 1 - both.b.whole / both.a.whole
            part, whole, parts2 = (
                part + fewer * both.a.part,
                whole + fewer * both.a.whole,
                parts2 + fewer * both.a.parts2,
            )
    return Gathered(part=part, whole=whole, parts2=parts2)


def _row(
    measure: str,
    name: str,
    value: str | None,
    both: Both,
    total: Both,
    groups: Mapping[str, Row],
    replaced: Gathered,
) -> Row:
    about_call = BY_NAME[name].about == "call"
    if not about_call:  # a class or group has no calls of its own: it is taken as a share of all calls
        both = Both(_of_all(both.a, total.a), _of_all(both.b, total.b))
    traffic, worse = _parts(measure, both, total)
    change = traffic + worse
    judged = both
    if about_call and not both.a.whole and replaced.whole:  # new: compared with the calls whose place it took
        weight = both.b.whole / total.b.whole if measure.endswith("_rate") else both.b.whole
        worse = (both.b.part / both.b.whole - replaced.part / replaced.whole) * weight
        traffic, judged = change - worse, Both(replaced, both.b)
    whole = _change(measure, total)
    row: Row = {
        "dimension": name, "value": value, "contribution": change,
        "share": change / whole if whole else None, "expected": _expected(about_call, both, total),
        "traffic": traffic, "rate": worse, "a_errors": int(both.a.part), "a_calls": int(both.a.whole),
        "b_errors": int(both.b.part), "b_calls": int(both.b.whole),
        "state": _state(name, both, groups.get(str(value)) if name == "fingerprint" else None, about_call),
        "verdict": _verdict(measure, judged, about_call),
    }  # fmt: skip
    row["sentence"] = sentence(measure, row, whole, groups)
    return row


def _of_all(one: Gathered, total: Gathered) -> Gathered:
    return Gathered(one.sessions, one.part, total.whole, one.parts2, one.cross, total.wholes2)


def _parts(measure: str, both: Both, total: Both) -> tuple[float, float]:
    """The two parts of the contribution: due to more (or other) calls, and due to calls that fail more often."""
    before, after = both.rates()
    if measure.endswith("_rate"):
        old, new = (one.whole / all.whole if all.whole else 0.0 for one, all in ((both.a, total.a), (both.b, total.b)))
        usual = sum(total.rates()) / 2
        return (new - old) * ((before + after) / 2 - usual), (after - before) * (old + new) / 2
    return (
        (both.b.whole - both.a.whole) * (before + after) / 2,
        (after - before) * (both.a.whole + both.b.whole) / 2,
    )


def _change(measure: str, total: Both) -> float:
    if measure.endswith("_rate"):
        before, after = total.rates()
        return after - before
    return total.b.part - total.a.part


def _expected(about_call: bool, both: Both, total: Both) -> float:
    """The share of the change that would be no surprise: the value's share of the calls, or of the errors before."""
    if about_call:
        calls = total.a.whole + total.b.whole
        return (both.a.whole + both.b.whole) / calls if calls else 0.0
    return both.a.part / total.a.part if total.a.part else 0.0


def _verdict(measure: str, both: Both, about_call: bool) -> str:
    if not measure.endswith("_rate"):
        few = both.a.part + both.b.part < FEW_COUNTED
        return "too_few" if few else str(judge(Unit("rate", 1), share(both.a), share(both.b))["verdict"])
    if about_call:
        return str(judge(Unit("rate", 1), rate(both.a, both.b), rate(both.b, both.a))["verdict"])
    return str(judge(Unit("rate", 1), share(both.a), share(both.b))["verdict"])


def _state(name: str, both: Both, group: Row | None, about_call: bool) -> str | None:
    """`new` if the period before has none of it (a group: if nothing before has); `gone` if this period has none."""
    seen_before, seen_now = (side.whole if about_call else side.part for side in (both.a, both.b))
    if not seen_now:
        return "gone"
    if name == "fingerprint":
        return "new" if group and group["fresh"] else None
    return None if seen_before else "new"


def _volume(total: Both) -> list[Row]:
    """The change in three parts that add up to it: more sessions, more calls per session, a higher error rate.

    Each part is averaged over the orders in which the three could have changed.
    """
    a, b = total.a, total.b
    if not a.whole and not b.whole:
        return []
    factors = {
        "sessions": (float(a.sessions), float(b.sessions)),
        "calls_per_session": _either(a.whole, a.sessions, b.whole, b.sessions),
        "error_rate": total.rates(),
    }
    whole, rows = b.part - a.part, []
    for name, (old, new) in factors.items():
        (p, q), (r, s) = (ends for other, ends in factors.items() if other != name)
        part = (new - old) * ((p * r + q * s) / 3 + (p * s + q * r) / 6)
        said = {
            "sessions": f"sessions {old:,.0f} → {new:,.0f}",
            "calls_per_session": f"calls per session {old:,.1f} → {new:,.1f}",
            # Beside a rate of nothing but ok and error events, this one would be another number without a reason.
            "error_rate": f"errors per call {percent(old)} → {percent(new)} "
            "(of all calls, cancelled, denied and unknown too)",
        }
        rows.append({
            "dimension": VOLUME, "value": name, "contribution": part, "share": part / whole if whole else None,
            "expected": 0.0, "traffic": 0.0 if name == "error_rate" else part,
            "rate": part if name == "error_rate" else 0.0, "a_errors": int(a.part), "a_calls": int(a.whole),
            "b_errors": int(b.part), "b_calls": int(b.whole), "state": None, "verdict": None,
            "sentence": f"{said[name]}: {amount('errors', part)}{of_change(part, whole)}",
        })  # fmt: skip
    return rows


def _either(a: float, of_a: float, b: float, of_b: float) -> tuple[float, float]:
    before, after = a / of_a if of_a else None, b / of_b if of_b else None
    return (after or 0.0 if before is None else before), (before or 0.0 if after is None else after)
