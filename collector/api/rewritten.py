"""The end of forgetting and sanitising: no byte of what was is left in the file, or in a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from collector.engine.duckdb.store import Store

if TYPE_CHECKING:
    from collector.cluster.reach import Reach


def rewritten(store: Store, reach: Reach | None) -> Iterator[None]:
    """Replaces the file by a copy. With a cluster, what is noted of places that were left has their old names until it
    is published, so that comes first.
    """
    if reach:
        for _ in store.rebuild():
            pass
        yield from reach.caught_up()
    while not store.rewrite_file():
        yield
    if reach:
        yield from reach.caught_up()
        yield from reach.tidied()
