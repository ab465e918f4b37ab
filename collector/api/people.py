"""What people add, in the API: `/api/v1/marks` on the time axis, and saved `/api/v1/views`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from litestar import Request, Response, delete, get, post
from litestar.params import FromPath
from litestar.types import ControllerRouterHandler

from collector.access.rights import READ, check_json
from collector.api.auditing import detail
from collector.api.describe import operation, taking
from collector.api.guard import RIGHT
from collector.api.parameters import ALL, FROM, LIMIT, TO, Parameter, read, read_none, sort_by
from collector.api.representations import Said, list_answer, read_body
from collector.query import noted
from collector.query.filters import range_ns
from collector.times import rfc3339

MOST_BYTES = 64 << 10
OF_SERVICE = Parameter("service", "text", "only marks of this service, and those that concern all", "coder", "")
MARKS_TAKEN = (replace(FROM, example="-7d"), TO, OF_SERVICE, sort_by("-time"), ALL)
VIEWS_TAKEN = (sort_by("name"), LIMIT)
MARKS = {
    "mark_id": "varchar", "time": "timestamp", "text": "varchar", "service": "varchar", "version": "varchar",
    "url": "varchar",
}  # fmt: skip
VIEWS = {"view_id": "varchar", "name": "varchar", "page": "varchar", "query": "varchar", "saved": "timestamp"}
MARK_SHOWN = {"text": "deploy", "service": "coder", "version": "1.8.0", "url": "https://ci.example/runs/42"}
VIEW_SHOWN = {"name": "apply_diff this week", "page": "errors", "query": "from=-7d&tool=apply_diff"}

Asked = Request[Any, Any, Any]


@get(
    "/api/v1/marks",
    summary="Marks on the time axis, such as deploys, oldest first",
    operation_class=operation(MARKS_TAKEN, False, "", tagged=False),
)
async def marks(request: Asked) -> Response[bytes]:
    """Those with `from` ≤ time < `to`; where `to` is now, those ahead of it too."""
    now_ns = _now(request)
    options = read(request.scope["query_string"], MARKS_TAKEN, {}, now_ns, filters=False).options
    start_ns, end_ns = range_ns(options["from"], options["to"], now_ns)
    until_ns = noted.EVER_NS if options["to"] == "now" else end_ns
    found = await asyncio.to_thread(noted.marks, request.app.state.store, start_ns, until_ns, options["service"])
    return list_answer(request, [_shown(row) for row in found], MARKS, options)


@post(
    "/api/v1/marks",
    opt={RIGHT: READ},
    request_max_body_size=MOST_BYTES,
    summary="Marks a time, by default now: a deploy, a change of a prompt, an outage",
    operation_class=taking("application/json", MARK_SHOWN),
)
async def add_mark(request: Asked) -> dict[str, Any]:
    """The mark, with the id that removes it. The body is a `NewMark` as JSON; the same one again is the same mark."""
    wanted = await _body(request, noted.NewMark, "a mark, with text, and maybe time, service, version and url,")
    state = request.app.state
    return _shown(await asyncio.to_thread(noted.add_mark, state.store, wanted, state.scrub, _now(request)))


@delete("/api/v1/marks/{mark_id:str}", opt={RIGHT: READ}, sync_to_thread=True, summary="Removes a mark")
def remove_mark(request: Asked, mark_id: FromPath[str]) -> None:
    """404 where there is none with this id."""
    read_none(request.scope["query_string"])
    noted.remove_mark(request.app.state.store, mark_id)


@get(
    "/api/v1/views",
    sync_to_thread=True,
    summary="Views of the dashboard that people saved, by name",
    operation_class=operation(VIEWS_TAKEN, False, "", tagged=False),
)
def views(request: Asked) -> Response[bytes]:
    """`page` and `query` are those of the view's address."""
    options = read(request.scope["query_string"], VIEWS_TAKEN, {}, _now(request), filters=False).options
    return list_answer(request, [_shown(row) for row in noted.views(request.app.state.store)], VIEWS, options)


@post(
    "/api/v1/views",
    opt={RIGHT: READ},
    request_max_body_size=MOST_BYTES,
    summary="Saves a view of the dashboard under a name, instead of another one of this name",
    operation_class=taking("application/json", VIEW_SHOWN),
)
async def save_view(request: Asked) -> dict[str, Any]:
    """The view, with the id that removes it. The body is a `NewView` as JSON."""
    wanted = await _body(request, noted.NewView, "a view, with name, page and query,")
    state = request.app.state
    return _shown(await asyncio.to_thread(noted.save_view, state.store, wanted, state.scrub, _now(request)))


@delete("/api/v1/views/{view_id:str}", opt={RIGHT: READ}, sync_to_thread=True, summary="Removes a saved view")
def remove_view(request: Asked, view_id: FromPath[str]) -> None:
    """404 where there is none with this id."""
    read_none(request.scope["query_string"])
    noted.remove_view(request.app.state.store, view_id)


PEOPLE_ROUTES: list[ControllerRouterHandler] = [marks, add_mark, remove_mark, views, save_view, remove_view]


async def _body(request: Asked, kind: type[Said], what: str) -> Said:
    read_none(request.scope["query_string"])
    check_json(request.content_type[0])
    wanted = read_body(await request.body(), kind, what)
    detail(request, str(getattr(wanted, "name", "") or getattr(wanted, "text", "")))
    return wanted


def _now(request: Asked) -> int:
    now: int = request.app.state.get("clock", time.time_ns)()
    return now


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as answers have it: `…_ns` as a time."""
    return {name.removesuffix("_ns"): rfc3339(value) if name.endswith("_ns") else value for name, value in row.items()}
