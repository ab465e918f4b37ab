"""Questions answered by the cluster: the same SQL as for the local store, translated, and the same rows."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

from collector.cluster.client import Cluster, ClusterError
from collector.cluster.dialect import SETTINGS, Translated, translated, types_of
from collector.engine.whole_hours import Edge
from collector.errors import Unavailable
from collector.projects import PROJECT
from collector.times import MINUTE

SILENT_NS = MINUTE  # a collector that was not heard of for longer may have more than it told
LATELY = """
  select count(*) > 0 and countIf(pending > 0 or at_ns < {now:Int64} - {silent:Int64}) = 0 as complete from collectors
"""
VERSION = "select cityHash64(arraySort(groupArray((collector, at_ns, pending)))) as told from collectors"


class ClusterReads:
    """The cluster as a store that is only read. For any thread. Raises Unavailable while the cluster is away: an answer
    from what one collector holds would look whole, and be a part.
    """

    materializes = False
    rebuilding = False

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def version(self) -> str:
        """Of all that the collectors have published."""
        with _understood():
            return str(self._cluster.rows(VERSION)[0]["told"])

    def complete(self) -> bool:
        """Whether every collector has published all that it has answered."""
        with _understood():
            told = self._cluster.rows(LATELY, {"now": time.time_ns(), "silent": SILENT_NS})
        return bool(told[0]["complete"])

    def rows(self, sql: str, params: Mapping[str, Any] | None = None, *, timeout_s: float = 30) -> list[dict[str, Any]]:
        """The result as one dict per row. Parameters are `$name`, and may be more than it uses. Raises QueryTimeout."""
        asked, given = _asked(sql, params, PROJECT.get())
        with _understood():
            return self._cluster.rows(asked.sql, given, settings=_limited(timeout_s), timeout_s=timeout_s)

    def keep(self, name: str, sql: str, params: Mapping[str, Any]) -> str:
        """Not here: what several statements need is computed by each."""
        raise Unavailable("a cluster keeps no tables of a question")

    def drop_kept(self) -> None:
        """There is nothing to drop."""

    def execute(self, sql: str, params: Mapping[str, Any] | None = None) -> None:
        """Adds, replaces or removes rows of the tables of what people add."""
        asked, given = _asked(sql, params)
        with _understood():
            self._cluster.run(asked.sql, given)

    def execute_all(self, statements: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        """The same for several, one after the other."""
        for sql, params in statements:
            self.execute(sql, params)

    def arrow(self, sql: str, params: Mapping[str, Any] | None = None, *, timeout_s: float = 30) -> bytes:
        """The result as an Arrow IPC stream. Raises QueryTimeout."""
        asked, given = _asked(sql, params, PROJECT.get())
        settings = _limited(timeout_s)
        with _understood(), self._cluster.stream(asked.sql, given, settings=settings, timeout_s=timeout_s) as parts:
            return b"".join(parts)

    def stream(self, sql: str, params: Mapping[str, Any] | None, out: IO[bytes], *, timeout_s: float = 30) -> None:
        """Writes the result to `out` as an Arrow IPC stream, as it comes. Raises QueryTimeout."""
        asked, given = _asked(sql, params, PROJECT.get())
        settings = _limited(timeout_s)
        with _understood(), self._cluster.stream(asked.sql, given, settings=settings, timeout_s=timeout_s) as parts:
            for part in parts:
                out.write(part)


def _asked(sql: str, params: Mapping[str, Any] | None, project: str | None = None) -> tuple[Translated, dict[str, Any]]:
    """A statement translated, with the parameters that it uses. Whole hours are not counted in the cluster."""
    given = {name: value for name, value in (params or {}).items() if not isinstance(value, Edge)}
    asked = translated(sql, types_of(given, sql), project)
    return asked, {name: given[name] for name in asked.names}


def _limited(timeout_s: float) -> dict[str, str]:
    return {**SETTINGS, "max_execution_time": str(max(1, int(timeout_s)))}


@contextmanager
def _understood() -> Iterator[None]:
    """A statement that the cluster refuses is no mistake of the caller's: its tables may be of another version."""
    try:
        yield
    except ClusterError as error:
        raise Unavailable(f"the cluster cannot answer this: {error}; misstep cluster check says why", 30) from error
