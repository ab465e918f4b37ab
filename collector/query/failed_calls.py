"""Failed and denied calls, and the successes that followed them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from collector.engine import Reads
from collector.lessons.call import Call, Failure, call, failure
from collector.lessons.next import WITHIN_SECONDS
from collector.query.filters import Selection
from collector.query.retries import relation
from collector.query.statement import load
from collector.streak_rules import LAST
from collector.times import SECOND

MOST_FAILURES = 20_000  # the newest; a mistake that recurs is among them
MOST_FOLLOWING = 8


def failed_calls(
    store: Reads, selection: Selection, wanted: str, bound: Mapping[str, object], timeout_s: float = 30
) -> list[Failure]:
    """The newest of the selection that meet the condition `wanted`, with parameters `bound`; at most 20,000."""
    given = {**selection.params(), **bound}
    about = {"wanted": wanted, "rows": MOST_FAILURES}
    oldest = store.rows(
        load("oldest_failure").format(source=relation(selection), where=selection.where(), **about),
        given,
        timeout_s=timeout_s,
    )
    if (oldest_ns := oldest[0]["oldest_ns"]) is None:
        return []
    sql = load("failed_calls").format(
        source=relation(selection, start="$oldest_ns"), where=selection.where("$oldest_ns"), **about
    )
    return [failure(row) for row in store.rows(sql, given | {"oldest_ns": oldest_ns}, timeout_s=timeout_s)]


def followed(store: Reads, selection: Selection, failures: Sequence[Failure], timeout_s: float = 30) -> list[Failure]:
    """These failures, each with the successes among the next calls of its session and sub-agent."""
    if not failures:
        return []
    sql = load("following").format(
        oldest="$oldest_ns", until=selection.until, last=LAST, most=MOST_FOLLOWING, within=int(WITHIN_SECONDS * SECOND)
    )
    oldest_ns = min(one.time_ns for one in failures)
    given = {"oldest_ns": oldest_ns, "failed": [one.event_id for one in failures]}
    after: defaultdict[int, list[Call]] = defaultdict(list)
    for row in store.rows(sql, {**selection.params(), **given}, timeout_s=timeout_s):
        after[row["failed_id"]].append(call(row))
    return [replace(one, following=tuple(after.get(one.event_id, ()))) for one in failures]
