"""Backups of a running collector: the store is copied while events are ingested, and the copy can be downloaded.

`POST` starts a copy, `GET` returns its progress, `GET …/file` returns the copy, once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import structlog
from litestar import Request, Response, get, post
from litestar.response import Stream
from litestar.types import ControllerRouterHandler

from collector.access.rights import MAINTAIN, check_json
from collector.api.auditing import AUDIT
from collector.api.guard import RIGHT, WHOLE
from collector.api.parameters import read_none
from collector.engine.duckdb.store import Store
from collector.errors import Rejected

CHUNK = 1 << 20
KEPT_S = 60  # how long a copy that nobody fetches stays on the disk
KEEPS = {RIGHT: MAINTAIN, WHOLE: True}

log = structlog.get_logger()


class Backups:
    """One copy at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._state = "idle"  # running, done, failed
        self._of = 0
        self._expiry = threading.Timer(0, self._discard)

    def begin(self) -> dict[str, Any]:
        """Starts a copy. Raises Rejected while another is made or not yet fetched, or if there is no file to copy."""
        if self._store.path is None:
            raise Rejected("a store in memory has no file to copy", 409)
        with self._lock:
            if self._state in ("running", "done"):
                raise Rejected("a copy is being made for somebody else: try again in a minute", 409)
            self._state, self._of = "running", self._store.space().used
            threading.Thread(target=self._make, name="backup", daemon=True).start()
        return self.told()

    def told(self) -> dict[str, Any]:
        """The state, the bytes copied so far and about how many there will be."""
        done = 0
        if self._store.path:
            with suppress(FileNotFoundError):  # not begun yet, fetched or discarded
                done = self._place.stat().st_size
        return {"state": self._state, "bytes": done, "of": max(self._of, done)}

    def take(self) -> IO[bytes]:
        """The finished copy as an open file, already deleted from its folder. Raises Rejected if there is none."""
        with self._lock:
            if self._state != "done":
                raise Rejected("there is no finished copy: POST /api/v1/backup makes one", 409)
            self._expiry.cancel()
            self._state = "idle"
            file = self._place.open("rb")
            self._place.unlink()
            return file

    @property
    def _place(self) -> Path:
        return Path(f"{self._store.path}.backup")

    def _make(self) -> None:
        try:
            self._store.copy_to(self._place)
        except Exception as error:  # the state shows it; the collector goes on
            log.error("the store could not be copied", kind=type(error).__name__, error=str(error)[:300])
            with self._lock:
                self._state = "failed"
        else:
            with self._lock:
                self._expiry = threading.Timer(KEPT_S, self._discard)
                self._expiry.daemon = True
                self._expiry.start()
                self._state = "done"

    def _discard(self) -> None:
        with self._lock:
            if self._state == "done":
                self._state = "idle"
                self._place.unlink(missing_ok=True)


@post("/api/v1/backup", opt=KEEPS, status_code=202, sync_to_thread=True, summary="Start a copy of the store")
def begin(request: Request[Any, Any, Any]) -> Response[dict[str, Any]]:
    """409 while another copy is made, or waits for up to a minute to be fetched."""
    read_none(request.scope["query_string"])
    check_json(request.content_type[0])
    request.app.state.writer.settle()
    return Response(request.app.state.backups.begin(), status_code=202)


@get("/api/v1/backup", opt=KEEPS, sync_to_thread=True, summary="Progress of the copy of the store")
def told(request: Request[Any, Any, Any]) -> dict[str, Any]:
    """State (idle, running, done, failed), bytes so far, and about how many there will be."""
    read_none(request.scope["query_string"])
    found: dict[str, Any] = request.app.state.backups.told()
    return found


@get(
    "/api/v1/backup/file",
    opt={**KEEPS, AUDIT: "copy"},
    sync_to_thread=True,
    media_type="application/octet-stream",
    summary="The finished copy of the store, once",
)
def file(request: Request[Any, Any, Any]) -> Stream:
    """A DuckDB file."""
    read_none(request.scope["query_string"])
    return Stream(_chunks(request.app.state.backups.take()), media_type="application/octet-stream")


def _chunks(copy: IO[bytes]) -> Iterator[bytes]:
    with copy:
        while chunk := copy.read(CHUNK):
            yield chunk


BACKUP_ROUTES: list[ControllerRouterHandler] = [begin, told, file]
