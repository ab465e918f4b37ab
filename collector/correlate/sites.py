"""Matches a log without a call id by its site (its place in the trace) and its arguments.

Gemini CLI reports a call three times: a log with site and arguments, a span with id and site, and the next model
request with id and arguments. Span and request share the id, so that together they give the site and arguments by which
the log is found, whichever of the three comes last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from collector.recognise.identify import key64, site_key
from collector.report import Report

MOST = 8  # sites, or arguments, of one id; with more it cannot be one call


def site_keys(told: Sequence[tuple[Sequence[int], Iterable[Report]]]) -> Iterator[list[int]]:
    """For each entry (keys, reports), the keys that a log without an id would have, from all entries sharing a key."""
    halves: dict[int, tuple[set[str], set[str]]] = {}
    for keys, reports in told:
        for report in reports:
            for half in (halves.setdefault(key, (set(), set())) for key in keys if "_site" in report):
                for known, part in zip(half, report["_site"], strict=True):
                    known.update((part,) if part else ())
    for keys, _ in told:
        found = [halves[key] for key in keys if key in halves]
        places, marks = (sorted(set().union(*(half[side] for half in found)))[:MOST] for side in (0, 1))
        yield [key64(*site_key(place, mark)) for place in places for mark in marks]
