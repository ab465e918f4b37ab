"""Counts of events, from hourly counts (`schemas/kept.sql`) where these give the same result.

A query whose filters and dimensions are all columns of `hourly`, or of `hourly_sessions`, reads that table for whole
hours, and the events for the rest of the range; other queries read the events. The answer is always the same, and only
this module decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from collector.engine.duckdb.derive import COUNTED, FACTS
from collector.engine.whole_hours import between
from collector.query.filters import Selection
from collector.query.retries import relation
from collector.query.statement import load
from collector.times import HOUR, MAX_NS

OF_ALL, OF_SESSIONS = "hourly", "hourly_sessions"
LEAST = 3 * HOUR  # a shorter range has too few whole hours


@dataclass(frozen=True, slots=True)
class Counts:
    """A relation from which to count: `source` is SQL with the requested columns of events.

    `table` is the table from which it reads whole hours; if it is empty, each row is an event.
    """

    source: str
    table: str = ""

    def count(self, *conditions: str) -> str:
        """How many events meet all conditions, as SQL."""
        only = _only(conditions)
        return f"coalesce(sum(events){only}, 0)::bigint" if self.table else f"count(*){only}"

    def fact(self, name: str, *conditions: str) -> str:
        """How many events meet all conditions and the one of this name in `FACTS`, as SQL."""
        if not self.table:
            return self.count(FACTS[name], *conditions)
        return f"coalesce(sum({name}){_only(conditions)}, 0)::bigint"

    def first(self, *conditions: str) -> str:
        """Time of the first event that meets all conditions, as SQL."""
        return f"min({'first_ns' if self.table else 'time_ns'}){_only(conditions)}"

    def last(self, *conditions: str) -> str:
        """Time of the last event that meets all conditions, as SQL."""
        return f"max({'last_ns' if self.table else 'time_ns'}){_only(conditions)}"


def counted(
    selection: Selection,
    names: Iterable[str],
    *,
    previous: bool = False,
    cut: str = "",
    bucket_ns: int = 0,
    facts: bool = False,
) -> Counts:
    """A relation from which to count the selection by these columns.

    If `session` is one of the columns, `event_id` is there too, for events without a session.

    `previous`: with the period of equal length before.
    `cut`: a parameter, a time that no row may span.
    `bucket_ns`: no row may span two buckets of this length since 1970, in both periods.
    `facts`: with the columns for `Counts.fact`, which add half as much again to the time for planning.
    """
    wanted = list(dict.fromkeys(names))
    start = "$previous_ns" if previous else selection.start
    needed = {*wanted, *(term.dimension.name for term in selection.terms)}
    table = next((name for name, columns in COUNTED.items() if needed <= set(columns)), "")
    of_events = selection.text or (facts and table != OF_ALL)
    if of_events or not table or not _has_whole_hours(selection, bucket_ns, previous):
        return Counts(relation(selection, *wanted, start=start))
    cuts = [*(["$start_ns"] if previous else []), *([cut] if cut else [])]
    spans = pairwise((start, *cuts, selection.until))
    parts = (_hours(table, low, high, FACTS if facts else {}) for low, high in spans)
    return Counts(f"({' union all '.join(f'({part})' for part in parts)})", table)


def _has_whole_hours(selection: Selection, bucket_ns: int, previous: bool) -> bool:
    """Whether the range is long enough, and no bucket of either period ends within an hour."""
    if bucket_ns % HOUR or selection.end_ns - selection.start_ns < LEAST:
        return False
    return not (previous and bucket_ns and (selection.start_ns - selection.previous_ns) % HOUR)


def ever(until: str = str(MAX_NS)) -> Counts:
    """A relation from which to count all events before `until` (a parameter or number), without a selection."""
    return Counts(f"({_hours(OF_ALL, '0', until, {})})", OF_ALL)


def _hours(table: str, start: str, until: str, facts: Mapping[str, str]) -> str:
    names = ", ".join(COUNTED[table])
    alone = table == OF_SESSIONS
    low, high = between(start, until)
    return load("hours").format(
        table=table,
        start=start,
        until=until,
        low=low,
        high=high,
        names=f"{names}, event_id" if alone else names,
        counted=f"{names}, null as event_id" if alone else names,
        left_out="session is null" if alone else "false",
        facts="".join(f", {name}" for name in facts),
        told="".join(f", ({condition})::int" for condition in facts.values()),
    )


def sessions_by(
    seen: str,
    source: str,
    where: str,
    keys: Mapping[str, str],
    values: Sequence[str] = ("sum(sessions)::bigint as sessions",),
    *,
    earlier: str = "false",
) -> str:
    """The number of distinct sessions for each value of `keys` (name → expression, at least one), as SQL.

    `seen` is a relation with all values of the keys in `source`, and maybe more. `values` are aggregates of `sessions`,
    over rows that the condition `earlier` splits.
    """
    return load("sessions_by").format(
        named=", ".join(f"{expression} as {key}" for key, expression in keys.items()),
        keys=", ".join(keys),
        of_met=", ".join(f"met.{key}" for key in keys),
        of_numbers=", ".join(f"numbers.{key}" for key in keys),
        earlier=earlier,
        seen=seen,
        source=source,
        where=where,
        values=", ".join(values),
    )


def _only(conditions: Iterable[str]) -> str:
    both = " and ".join(condition for condition in conditions if condition)
    return f" filter ({both})" if both else ""
