"""Removes what was imported from agents' own files, and then copies the database file to remove the old bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from litestar import Request, Response, get, post
from litestar.types import ControllerRouterHandler

from collector.access.rights import MAINTAIN, check_json
from collector.api.guard import RIGHT, WHOLE
from collector.api.parameters import read_none
from collector.api.rewritten import rewritten
from collector.api.runs import Run
from collector.engine.duckdb.forgetting import forget_transcripts
from collector.engine.duckdb.store import Store
from collector.times import MAX_NS

if TYPE_CHECKING:
    from collector.cluster.reach import Reach

KEEPS = {RIGHT: MAINTAIN, WHOLE: True}


class Forget(Run):
    """One run over the store, some events at a time."""

    failure = "imported events could not be removed"

    def __init__(
        self,
        store: Store,
        renamed: Callable[[], None] = lambda: None,
        reach: Reach | None = None,
        until_ns: int = MAX_NS,
    ) -> None:
        """`renamed` is called once events are gone, so that what is cached of them is read again; `reach` is what only
        a cluster has.
        """
        super().__init__()
        self._store, self._renamed, self._reach, self._until_ns = store, renamed, reach, until_ns
        self.removed = 0

    def told(self) -> dict[str, Any]:
        """Progress."""
        return {"state": self.state, "removed": self.removed}

    def _all(self) -> Iterator[None]:
        for _ in self._reach.imported(self._until_ns) if self._reach else ():
            self._remove()
            yield
        self._remove()
        yield
        yield from rewritten(self._store, self._reach)

    def _remove(self) -> None:
        self.removed += forget_transcripts(self._store, self._until_ns)
        self._renamed()


@post(
    "/api/v1/forget",
    opt=KEEPS,
    status_code=202,
    sync_to_thread=True,
    summary="Remove what was imported from transcripts",
)
def begin(request: Request[Any, Any, Any]) -> Response[dict[str, Any]]:
    """Starts a run, unless one is in progress. `GET` returns its progress."""
    read_none(request.scope["query_string"])
    check_json(request.content_type[0])
    return Response(request.app.state.forgetting.begin().told(), status_code=202)


@get("/api/v1/forget", opt=KEEPS, sync_to_thread=False, summary="Progress of removing what was imported")
def told(request: Request[Any, Any, Any]) -> dict[str, Any]:
    """State (idle, running, done, failed), and the number of events removed."""
    read_none(request.scope["query_string"])
    current = request.app.state.forgetting.current
    return current.told() if current else {"state": "idle"}


FORGET_ROUTES: list[ControllerRouterHandler] = [begin, told]
