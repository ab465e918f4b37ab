"""Counts of many events, from the hours that the store has counted already (store/kept.py) where that says the same.

What decides is here alone: a question whose filters and dimensions are all columns of `hourly` reads that for whole
hours and the events for the rest; any other reads the events. Both give the same answer.
"""

from __future__ import annotations

from collections.abc import Iterable
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


def counted(selection: Selection, names: Iterable[str], *, previous: bool = False, bucket_ns: int = 0) -> Counted:
    """What to count the selection by these columns from; with `previous`, also the equally long period before it.

    `bucket_ns`: times matter as far as they lie in different buckets of this length since 1970, in both periods.
    """
    wanted = list(dict.fromkeys(names))
    spans = [*([("$previous_ns", "$start_ns")] if previous else []), ("$start_ns", "$until_ns")]
    whole = bucket_ns % HOUR == 0 and selection.end_ns - selection.start_ns >= LEAST
    whole = whole and not (previous and bucket_ns and (selection.start_ns - selection.previous_ns) % HOUR)
    known = all(name in HOURLY for name in (*wanted, *(term.dimension.name for term in selection.terms)))
    if not (whole and known) or selection.text:
        return Counted(relation(selection, *wanted, start=spans[0][0]), False)
    hours = load("hours")
    told = ", ".join(f"({condition})::int" for condition in FACTS.values())
    shape = {"names": ", ".join(HOURLY), "facts": ", ".join(FACTS), "told": told, "hour": HOUR}
    parts = (hours.format(start=start, until=until, **shape) for start, until in spans)
    return Counted(f"({' union all '.join(f'({part})' for part in parts)})", True)


def _only(conditions: Iterable[str]) -> str:
    both = " and ".join(condition for condition in conditions if condition)
    return f" filter ({both})" if both else ""
