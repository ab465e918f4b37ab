"""Decides by a file's first records which agent wrote it, where its path alone does not."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from itertools import islice

from collector.transcripts.files import records
from collector.transcripts.find import Found, in_order
from collector.transcripts.join import Joiner, Told

FIRST_RECORDS = 60


def by_content(found: Iterable[Found]) -> list[Found]:
    """Each file once, for the agent whose table takes most of its first records; without those that no table takes."""
    candidates: dict[str, list[Found]] = defaultdict(list)
    for one in found:
        candidates[os.path.realpath(one.path)].append(one)
    best = (max(some, key=_taken) for some in candidates.values())
    return in_order(one for one in best if _taken(one) > (0, 0))


def _taken(found: Found) -> tuple[int, int]:
    """How many of the first records tell of a call, and how few are unknown."""
    joiner = Joiner(found.agent, told := Told(), lambda session: frozenset())
    calls = 0
    try:
        for place, size, record in islice(records(found, 0, lambda: None), FIRST_RECORDS):
            calls += sum(1 for _ in joiner.take(place, size, record))
        calls += sum(1 for _ in joiner.end())
    except Exception:  # whatever is broken in it
        return 0, 0
    known = told.records - told.unknown.total()
    return (calls, known) if known else (0, 0)
