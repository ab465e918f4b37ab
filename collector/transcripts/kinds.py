"""Decides which agent wrote a file: by its path where that names the agent's own folder, else by its first records."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from itertools import islice
from pathlib import PurePosixPath

from collector.transcripts.files import records
from collector.transcripts.find import Found, in_order
from collector.transcripts.join import Joiner, Told

FIRST_RECORDS = 60


def by_content(found: Iterable[Found]) -> list[Found]:
    """Each file once, for the agent in whose folder it is, else whose table takes most calls from its first records;
    without those in which no table finds any.
    """
    candidates: dict[str, list[Found]] = defaultdict(list)
    for one in found:
        candidates[os.path.realpath(one.path)].append(one)
    ranked = (max(((_rank(one), one) for one in some), key=lambda of: of[0]) for some in candidates.values())
    return in_order(one for rank, one in ranked if any(rank[:2]))


def _rank(found: Found) -> tuple[bool, bool, bool, int, int, bool, bool]:
    calls, known = _taken(found)
    of = found.agent
    return calls > 0, known > 0 and _is_named(found), not of.form, calls, known, of.any_agent, not of.like


def _is_named(found: Found) -> bool:
    """Whether the path has the folder of the agent's store in it, such as `.codex` or `rooveterinaryinc.roo-cline`."""
    names = {PurePosixPath(one).name for one in found.store.folders}
    own = (name for name in names if "$" not in name and (name.startswith(found.agent.id) or "." in name[:-1]))
    return any(name in found.path.parts for name in own)


def _taken(found: Found) -> tuple[int, int]:
    """How many of the first records tell of a call, and how few are unknown."""
    joiner = Joiner(found.agent, told := Told(), lambda session: frozenset())
    calls = 0
    try:
        for place, size, record in islice(records(found, 0, lambda: None), FIRST_RECORDS):
            calls += sum(one.operation == "tool" for one in joiner.take(place, size, record))
        calls += sum(one.operation == "tool" for one in joiner.end())
    except Exception:  # whatever is broken in it
        return 0, 0
    known = told.records - told.unknown.total()
    return (calls, known) if known else (0, 0)
