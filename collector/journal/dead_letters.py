"""Batches that could not be stored although others could: kept in a file beside the store.

The file has the journal's format, and exists only while there is something in it. `misstep replay --refused` stores it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import msgspec
from xxhash import xxh3_128_digest

from collector.batch import Batch
from collector.files import synchronise
from collector.journal.journal import File, Left, record, records_in, unpack, whole


class SetAside(NamedTuple):
    """How much is set aside."""

    requests: int
    records: int


class Aside:
    """The batches set aside beside a store. `keep` is for one thread, `counted` for any. In memory, nothing is kept."""

    def __init__(self, store: Path | None) -> None:
        self.path = Path(f"{store}.journal.refused") if store else None
        self._counted = 0, SetAside(0, 0)  # the size of the file, and what it holds

    def keep(self, position: int, packed: bytes) -> str:
        """Adds a batch unless it is there already; returns the path of the file. Raises Unavailable or OSError."""
        if self.path is None:
            return ""
        file = File(self.path)
        try:
            if position not in dict(file.records()):
                file.append(record(position, packed), position)
        finally:
            file.close()
        return str(self.path)

    def batches(self) -> list[Left]:
        """All batches, in the order in which they were received. Raises OSError."""
        if self.path is None or not self.path.exists():
            return []
        found = {position: packed for position, packed, _ in whole(self.path)}
        return [Left(position, packed) for position, packed in sorted(found.items())]

    def leave(self, batches: Sequence[Left]) -> None:
        """Keeps only these. Raises Unavailable or OSError."""
        assert self.path
        if not batches:
            self.path.unlink(missing_ok=True)
            return
        place = Path(f"{self.path}.fresh")
        place.unlink(missing_ok=True)
        fresh = File(place)
        try:
            fresh.append(b"".join(record(*one) for one in batches), batches[-1].position)
        finally:
            fresh.close()
        place.replace(self.path)
        synchronise(self.path.parent)

    def counted(self) -> SetAside:
        """How much is set aside; reads the file again only when its size has changed."""
        try:
            size = os.path.getsize(self.path) if self.path else 0
        except OSError:
            size = 0
        if size != self._counted[0]:
            with suppress(OSError):
                found = self.batches()
                self._counted = size, SetAside(len(found), sum(records_in(left.packed) for left in found))
        return self._counted[1]


def tombstone(packed: bytes, position: int, records: int) -> Batch:
    """An empty batch with the same identity, recording that it arrived."""
    try:
        batch = unpack(packed)
        identity, received_ns, project = batch.identity, batch.received_ns, batch.project
    except msgspec.MsgspecError:
        identity, received_ns, project = xxh3_128_digest(packed), position, None
    return Batch(identity, received_ns, [], {}, Counter(unstorable=records), records, project=project)


def restored(packed: bytes, now_ns: int) -> Batch:
    """The batch that was set aside, to be stored after all. Its records are not counted as accepted again.

    It has an identity of its own, so that it is stored once. Raises MsgspecError if this version cannot read it.
    """
    batch = unpack(packed)
    dropped = batch.dropped.copy()
    dropped["unstorable"] -= batch.records
    again = xxh3_128_digest(b"again" + batch.identity)
    return replace(batch, identity=again, received_ns=now_ns, dropped=dropped, records=0)
