"""Failed and denied calls, each with the calls that followed it."""

from __future__ import annotations

from collections.abc import Mapping

from collector.engine import Reads
from collector.lessons.call import Failure, failure
from collector.query.filters import Selection
from collector.query.statement import load
from collector.streak_rules import LAST

MOST_FAILURES = 20_000  # the newest; a mistake that recurs is among them
MOST_FOLLOWING = 8


def failed_calls(
    store: Reads, selection: Selection, wanted: str, bound: Mapping[str, object], timeout_s: float = 30
) -> list[Failure]:
    """The newest of the selection that meet the condition `wanted`, with parameters `bound`; at most 20,000."""
    sql = load("failed_calls").format(
        where=selection.where(),
        wanted=wanted,
        start=selection.start,
        until=selection.until,
        last=LAST,
        most=MOST_FOLLOWING,
        rows=MOST_FAILURES,
    )
    return [failure(row) for row in store.rows(sql, {**selection.params(), **bound}, timeout_s=timeout_s)]
