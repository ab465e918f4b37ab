"""Removes what was imported from agents' own files, and then copies the database file to remove the old bytes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import structlog
from litestar import Request, Response, get, post
from litestar.types import ControllerRouterHandler

from collector.access import MAINTAIN, check_json
from collector.api.guard import RIGHT, WHOLE
from collector.api.parameters import read_none
from collector.engine.duckdb.forgetting import forget_transcripts
from collector.engine.duckdb.store import Store
from collector.journal.writer import Writer

KEEPS = {RIGHT: MAINTAIN, WHOLE: True}

log = structlog.get_logger()


class Forget:
    """One run over the store. `step` does a part and returns whether there is more; not thread-safe."""

    def __init__(self, store: Store, renamed: Callable[[], None] = lambda: None) -> None:
        """`renamed` is called once events are gone, so that what is cached of them is read again."""
        self._store, self._renamed = store, renamed
        self.state = "running"  # done, failed
        self.removed: int | None = None

    def step(self) -> bool:
        """Removes the events, and then the bytes."""
        try:
            if self.removed is None:
                self.removed = forget_transcripts(self._store)
                self._renamed()
            elif self._store.rewrite_file():
                self.state = "done"
        except Exception as error:  # what is removed stays removed; the next call continues
            log.error("imported events could not be removed", kind=type(error).__name__, error=str(error)[:500])
            self.state = "failed"
        return self.state == "running"

    def told(self) -> dict[str, Any]:
        """Progress."""
        return {"state": self.state, "removed": self.removed or 0}


class Forgetting:
    """The run in a running collector, done by its writer between requests."""

    def __init__(self, store: Store, writer: Writer, renamed: Callable[[], None]) -> None:
        self._store, self._writer, self._renamed = store, writer, renamed
        self.current: Forget | None = None
        self._lock = threading.Lock()

    def begin(self) -> Forget:
        """The run in progress, or a new one."""
        with self._lock:
            if self.current is None or self.current.state != "running":
                self.current = Forget(self._store, self._renamed)
                self._writer.between(self.current.step)
            return self.current


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
