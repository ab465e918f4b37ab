"""Records around a call in the user's own transcript: read on demand, masked, never stored."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from collector.transcripts.files import records
from collector.transcripts.find import Found, find, folders
from collector.transcripts.repository import tidy
from collector.transcripts.tables import Agent

AROUND = 2  # records before and after
EXCERPT_CHARS = 700  # of a record
READ_CHARS = 20_000  # of a record that is masked: a secret behind these is not shown either
BEFORE_BYTES = 1 << 20  # of a file of lines, in which the records before are looked for
KEPT_CHARS = 300  # of a path in an event

Mask = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Line:
    """A record of the transcript, masked and cut; `is_it` is the one that the call was found in."""

    text: str
    is_it: bool


def excerpt(found: Found, place: int, mask: Mask) -> Iterator[Line]:
    """The record at a position of a file with those around it; nothing if no record begins there. Raises OSError."""
    for is_it, record in _around(found, place):
        text = mask(msgspec.json.encode(record).decode()[:READ_CHARS])
        yield Line(text[:EXCERPT_CHARS] + ("…" if len(text) > EXCERPT_CHARS else ""), is_it)


def known_file(name: str, agents: Iterable[Agent], environ: Mapping[str, str], home: Path, mask: Mask) -> Found | None:
    """The file that an event names, if it is one of those that `misstep import` finds by itself.

    The name comes with the event, so nothing is opened by it: it is compared with the names of the files in the
    folders where these agents keep their sessions, written and masked as they are in events. A link that leads out of
    these folders is not followed.
    """
    agents = list(agents)
    for found in find(agents, environ, home):
        if mask(tidy(str(found.path))[-KEPT_CHARS:]) == name and _inside(found, environ, home):
            return found
    return None


def _inside(found: Found, environ: Mapping[str, str], home: Path) -> bool:
    real = found.path.resolve()
    return any(real.is_relative_to(folder.resolve()) for folder in folders(found.store, environ, home))


def _around(found: Found, place: int) -> Iterator[tuple[bool, Any]]:
    before: deque[Any] = deque(maxlen=AROUND)
    is_lines = found.store.form == "jsonl" and found.path.suffix != ".zst"
    reading = records(found, max(0, place - BEFORE_BYTES) if is_lines else 0, lambda: None)
    for at, _, record in reading:
        if at == place:
            yield from ((False, one) for one in before)
            yield True, record
            yield from ((False, one) for _, _, one in islice(reading, AROUND))
            return
        if is_lines and at > place:
            return
        before.append(record)
