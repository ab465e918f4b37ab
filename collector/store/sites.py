"""Calls whose log has no id, found by where they stand and what arguments they had.

Gemini CLI's log of a call knows site and arguments, its span id and site, the next model request id and arguments. Span
and request share the id; both halves together are the key of the log, whichever of the three comes last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from collector.recognise.identify import key64, site_key
from collector.store.batch import Report

SITE = "_site"
MOST = 8  # sites and arguments of one id: more of them is no call


def site_keys(told: Sequence[tuple[Sequence[int], Iterable[Report]]]) -> Iterator[list[int]]:
    """For each entry (keys, reports) the keys of logs without an id, by the halves of all entries that share a key."""
    halves: dict[int, tuple[set[str], set[str]]] = {}
    for keys, reports in told:
        for report in reports:
            for half in (halves.setdefault(key, (set(), set())) for key in keys if SITE in report):
                for known, part in zip(half, report[SITE], strict=True):
                    known.update((part,) if part else ())
    for keys, _ in told:
        found = [halves[key] for key in keys if key in halves]
        places, marks = (sorted(set().union(*(half[side] for half in found)))[:MOST] for side in (0, 1))
        yield [key64(*site_key(place, mark)) for place in places for mark in marks]
