"""Removes what was imported from agents' own files, and then copies the database file to remove the old bytes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import structlog
from litestar import Request, Response, get, post
from litestar.types import ControllerRouterHandler

from collector.access import MAINTAIN, check_json
from collector.api.guard import RIGHT, WHOLE
from collector.api.parameters import read_none
from collector.api.rewritten import rewritten
from collector.engine.duckdb.forgetting import forget_transcripts
from collector.engine.duckdb.store import Store
from collector.journal.writer import Writer
from collector.times import MAX_NS

if TYPE_CHECKING:
    from collector.cluster.errands import Errands
    from collector.cluster.reach import Reach

KEEPS = {RIGHT: MAINTAIN, WHOLE: True}
ERRAND = "forget"  # its name among the collectors of a cluster

log = structlog.get_logger()


class Forget:
    """One run over the store. `step` does a part and returns whether there is more; not thread-safe."""

    def __init__(
        self,
        store: Store,
        renamed: Callable[[], None] = lambda: None,
        reach: Reach | None = None,
        until_ns: int = MAX_NS,
        done: Callable[[], None] = lambda: None,
    ) -> None:
        """`renamed` is called once events are gone, so that what is cached of them is read again; `reach` is what only
        a cluster has; `done` is called at the end.
        """
        self._store, self._renamed, self._reach, self._until_ns = store, renamed, reach, until_ns
        self._done = done
        self._work = self._all()
        self.state = "running"  # done, failed
        self.removed = 0

    def step(self) -> bool:
        """Removes some events, and in the end the bytes."""
        try:
            next(self._work)
        except StopIteration:
            self.state = "done"
        except Exception as error:  # what is removed stays removed; the next call continues
            log.error("imported events could not be removed", kind=type(error).__name__, error=str(error)[:500])
            self.state = "failed"
        return self.state == "running"

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
        self._done()

    def _remove(self) -> None:
        self.removed += forget_transcripts(self._store, self._until_ns)
        self._renamed()


class Forgetting:
    """The run in a running collector, done by its writer between requests."""

    def __init__(
        self,
        store: Store,
        writer: Writer,
        renamed: Callable[[], None],
        reach: Callable[[], Reach | None],
        errands: Errands | None,
    ) -> None:
        """`reach` makes what reaches a cluster's rows, whose `errands` all its collectors do."""
        self._store, self._writer, self._renamed = store, writer, renamed
        self._reach, self._errands = reach, errands
        self.current: Forget | None = None
        self._lock = threading.Lock()
        if errands:
            errands.join(ERRAND, self)

    def begin(self) -> Forget:
        """The run in progress, or a new one, also of the other collectors of a cluster. Raises Unavailable."""
        with self._lock:
            if self.current is None or self.current.state != "running":
                self._begin(self._errands.ask(ERRAND) if self._errands else MAX_NS)
            assert self.current
            return self.current

    def run(self, at_ns: int) -> None:
        """Begins a run of what was imported until then, unless one is in progress."""
        with self._lock:
            if self.current is None or self.current.state != "running":
                self._begin(at_ns)

    def _begin(self, until_ns: int) -> None:
        errands = self._errands

        def done() -> None:
            if errands:
                errands.done(ERRAND, until_ns)

        self.current = Forget(self._store, self._renamed, self._reach(), until_ns, done)
        self._writer.between(self.current.step)


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
