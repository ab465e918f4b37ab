"""Counts of many events, from the hours that the store has counted already (store/kept.py) where that says the same.

What decides is here alone: a question whose filters and dimensions are all columns of `hourly` reads that for whole
hours and the events for the rest; any other reads the events. Both give the same answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from collector.query.filters import HOUR, Selection
from collector.query.retries import relation
from collector.query.statement import load
from collector.store.kept import FACTS, HOURLY

LEAST = 3 * HOUR  # of a shorter range too few hours are whole


@dataclass(frozen=True, slots=True)
class Counted:
    """A relation to count from, with the columns of events that were asked for; `source` is SQL."""

    source: str
    hourly: bool

    def count(self, *conditions: str) -> str:
        """How many events meet all conditions, as SQL."""
        only = _only(conditions)
        return f"coalesce(sum(events){only}, 0)::bigint" if self.hourly else f"count(*){only}"

    def fact(self, name: str, *conditions: str) -> str:
        """How many events that meet all conditions `FACTS` counts by this name, as SQL."""
        if not self.hourly:
            return self.count(FACTS[name], *conditions)
        return f"coalesce(sum({name}){_only(conditions)}, 0)::bigint"

    def first(self, *conditions: str) -> str:
        """Time of the first event that meets all conditions, as SQL."""
        return f"min({'first_ns' if self.hourly else 'time_ns'}){_only(conditions)}"

    def last(self, *conditions: str) -> str:
        """Time of the last event that meets all conditions, as SQL."""
        return f"max({'last_ns' if self.hourly else 'time_ns'}){_only(conditions)}"


def counted(
    selection: Selection,
    names: Iterable[str],
    *,
    previous: bool = False,
    bucket_ns: int = 0,
    facts: bool = False,
) -> Counted:
    """What to count the selection by these columns from; with `previous`, also the equally long period before it.

    `bucket_ns`: times matter as far as they lie in different buckets of this length since 1970, in both periods.
    `facts`: `Counted.fact` will be asked; they are a third of the time that planning takes.
    """
    wanted = list(dict.fromkeys(names))
    spans = [*([("$previous_ns", "$start_ns")] if previous else []), ("$start_ns", "$until_ns")]
    whole = bucket_ns % HOUR == 0 and selection.end_ns - selection.start_ns >= LEAST
    whole = whole and not (previous and bucket_ns and (selection.start_ns - selection.previous_ns) % HOUR)
    known = all(name in HOURLY for name in (*wanted, *(term.dimension.name for term in selection.terms)))
    if not (whole and known) or selection.text:
        return Counted(relation(selection, *wanted, start=spans[0][0]), False)
    hours = load("hours")
    told = FACTS if facts else {}
    shape = {
        "names": ", ".join(HOURLY),
        "facts": "".join(f", {name}" for name in told),
        "told": "".join(f", ({condition})::int" for condition in told.values()),
        "hour": HOUR,
    }
    parts = (hours.format(start=start, until=until, **shape) for start, until in spans)
    return Counted(f"({' union all '.join(f'({part})' for part in parts)})", True)


def sessions_by(
    seen: str,
    source: str,
    where: str,
    keys: Mapping[str, str],
    values: Sequence[str] = ("sum(sessions)::bigint as sessions",),
    *,
    earlier: str = "false",
) -> str:
    """How many sessions of the events each of `keys` (name → expression, at least one) met, as SQL with these names.

    `seen`, like `source`, tells which values there are, and perhaps more. `values` are aggregates of `sessions`;
    `earlier` splits the rows that they see.
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
