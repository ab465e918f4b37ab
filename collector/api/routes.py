"""The query API, /api/v1: one handler per row of `ENDPOINTS`, authentication, and the format of answers and errors.

Answers are JSON, or the same rows as an Arrow stream for `Accept: application/vnd.apache.arrow.stream`. A parameter
that cannot be used is a 400 with the parameter, its value and what is allowed; a question that takes too long is a
503.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from typing import Any, Protocol
from urllib.parse import unquote

import msgspec
import structlog
from litestar import Request, Response, get, patch, post
from litestar.datastructures import State
from litestar.params import FromPath
from litestar.types import ControllerRouterHandler

from collector.access.rights import READ, check_json
from collector.api import classes
from collector.api.auditing import AUDIT, detail
from collector.api.describe import operation
from collector.api.endpoints import ENDPOINTS, GROUP, LESSON, Endpoint
from collector.api.guard import RIGHT
from collector.api.parameters import LIMIT, Parameter, ParsedQuery, read
from collector.api.representations import ARROW, json_answer, list_answer, read_body, wants_arrow
from collector.api.sql_queries import answer_sql
from collector.engine import Reads
from collector.engine.duckdb.read import CALL_OFF, CallOff
from collector.errors import Rejected
from collector.projects import PROJECT
from collector.query.filters import whole_number
from collector.query.group_marks import Mark, mark
from collector.query.lesson_marks import LessonMark, mark_lesson, marks
from collector.query.queries import last_silence, newest_ns, redirected
from collector.query.statement import Answer, Row, presented
from collector.times import MINUTE, rfc3339

QUERY_SECONDS = 20.0
QUERIES = ThreadPoolExecutor(4, "query")  # more would only compete for the same cores and memory
# Longest wait of streaks and retries for the keeper. Under a load that needs longer, they do not wait at all.
SETTLE_SECONDS = 0.5
PUBLISH_SECONDS = 2.0  # the same for what a cluster lacks

log = structlog.get_logger()

HttpRequest = Request[Any, Any, Any]


class Publishes(Protocol):
    """The part of the publisher that answers need."""

    def settle(self, timeout_s: float) -> bool: ...


class Settles(Protocol):
    """The part of the writer that answers need."""

    def settle(self) -> bool: ...


def api_routes() -> list[ControllerRouterHandler]:
    """One handler per row of `ENDPOINTS`, and those that change something.

    They read `store` (what questions are asked of: a cluster, if there is one), `local`, `publisher`, `writer`,
    `keeper`, `settings`, `allowed_hosts`, `sources`, `taxonomy`, `scrub` of the state.
    """
    return [*(_handler(endpoint) for endpoint in ENDPOINTS), mark_group, mark_one_lesson, ask_sql, list_classes]


def _handler(endpoint: Endpoint) -> ControllerRouterHandler:
    async def answer(request: HttpRequest) -> Response[bytes]:
        return await answered(request, lambda: _answer(endpoint, request))

    name = endpoint.path.split("{")[0].strip("/").replace("/", "_") + ("_one" if "{" in endpoint.path else "")
    return get(
        f"/api/v1{endpoint.path}",
        name=name,
        opt={AUDIT: "read" if endpoint.raw else ""},
        summary=endpoint.summary,
        tags=["query"],
        operation_id=name,
        operation_class=operation(endpoint.takes, endpoint.filters, endpoint.one, answers=endpoint.path),
    )(answer)


async def answered(request: HttpRequest, work: Callable[[], Response[bytes]]) -> Response[bytes]:
    """Runs `work` in a thread, once everything answered before is stored; its queries are interrupted when the client
    disconnects.
    """
    writer: Settles = request.app.state.writer

    def settled() -> Response[bytes]:
        writer.settle()
        return work()

    call_off = CallOff()
    context = copy_context()
    context.run(CALL_OFF.set, call_off)
    asking = asyncio.get_running_loop().run_in_executor(QUERIES, context.run, settled)
    leaving = asyncio.create_task(_left(request))
    try:
        await asyncio.wait((asking, leaving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        if not asking.done():
            call_off.now()
    return await asking


async def _left(request: HttpRequest) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _answer(endpoint: Endpoint, request: HttpRequest) -> Response[bytes]:
    state = request.app.state
    store: Reads = state.store
    asked = _asked(request, endpoint.takes, filters=endpoint.filters, since=endpoint.since)
    arrow = wants_arrow(request.headers.get("accept", ""))
    statement = endpoint.ask(asked.selection, asked.options)
    kept = _is_whole(state, statement)
    tag = _tag(store, endpoint, asked, statement, arrow=arrow)
    headers = {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Accept"}
    if tag in request.headers.get("if-none-match", ""):
        return Response(b"", status_code=304, headers=headers)
    answer = _answer_to(endpoint, asked, statement, state, arrow=arrow, kept=kept)
    if (place := answer.headers.get("Location")) and request.scope["raw_path"].endswith(b"/"):
        answer.headers["Location"] = f"../{place}"
    if not kept:
        return answer  # without a tag: the same request runs the query again
    if answer.status_code in (None, 200):
        answer.headers |= headers
    return answer


def _is_whole(state: State, statement: Answer) -> bool:
    """Whether the answer tells of all that was answered to agents: what it reads is computed, or published by all."""
    if not statement.of_kept or (not state.local.rebuilding and state.keeper.settle(SETTLE_SECONDS)):
        published: Publishes | None = state.publisher
        return published is None or (published.settle(PUBLISH_SECONDS) and state.store.complete())
    return False


def _tag(store: Reads, endpoint: Endpoint, asked: ParsedQuery, statement: Answer, *, arrow: bool) -> str:
    """A tag that stays the same for the same request while nothing was written, and while no session whose fate it
    tells becomes silent for an hour.

    For a range that ends now, it stays for a thousandth of the range's length, at most a minute: meanwhile only the
    oldest events leave the range.
    """
    selection = asked.selection
    length = selection.end_ns - selection.start_ns
    step = min(max(1, length // 1000), MINUTE) if selection.to_now else 1
    silent_ns = last_silence(store, selection.clock_ns) if statement.of_clock else 0
    placed = replace(
        selection, start_ns=selection.start_ns // step, end_ns=selection.end_ns // step, clock_ns=silent_ns
    )
    text = repr((PROJECT.get(), store.version, endpoint.path, placed, sorted(asked.options.items()), arrow))
    return f'"{hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()}"'


def _answer_to(
    endpoint: Endpoint, asked: ParsedQuery, statement: Answer, state: State, *, arrow: bool, kept: bool
) -> Response[bytes]:
    store, seconds = state.store, state.get("query_seconds", QUERY_SECONDS)
    if arrow and not endpoint.one:
        return Response(statement.arrow(store, seconds), media_type=ARROW)
    complete = endpoint.more(state, asked.selection, asked.options)
    rows = statement.rows(store, seconds)
    if endpoint.one and not rows:
        return _gone(endpoint, store, asked)
    if arrow:
        return Response(statement.arrow(store, seconds), media_type=ARROW)
    if endpoint.one:
        one = _present(rows[0], statement, asked)
        complete(one, rows)
        return json_answer(one)
    body = _page(store, asked, statement, rows, kept)
    complete(body, rows[: statement.limit])
    return json_answer(body)


def _asked(
    request: HttpRequest, takes: Sequence[Parameter], *, filters: bool = True, since: str = "-24h"
) -> ParsedQuery:
    """The parsed parameters of a request. Raises BadParameter."""
    return read(
        request.scope["query_string"],
        takes,
        dict.fromkeys(request.path_params, _rest(request)),
        request.app.state.get("clock", time.time_ns)(),
        filters=filters,
        since=since,
        failure_only=request.app.state.failure_only,
    )


def _rest(request: HttpRequest) -> str:
    """What stands in the address for its one parameter, as it was sent: routing loses where a key had `%2F`."""
    before = str(request.scope["path_template"]).partition("{")[0]
    sent = request.scope["raw_path"].decode("latin-1").partition("?")[0]
    return unquote(sent[len(before) :].strip("/"))


@patch(
    "/api/v1/groups/{fingerprint:str}",
    opt={RIGHT: READ},
    request_max_body_size=64 << 10,
    summary="Resolves a group, ignores it for a while, opens it again, links an issue, or notes something on it",
    tags=["query"],
    operation_id="mark_group",
    operation_class=operation(GROUP.takes, False, "group", "mark", answers="/groups/{fingerprint:str}"),
)
async def mark_group(request: HttpRequest, fingerprint: FromPath[str]) -> Response[bytes]:
    """The group as it is then. The body is a `Mark` as JSON."""
    check_json(request.content_type[0])
    state, body = request.app.state, await request.body()
    number = whole_number("fingerprint", fingerprint, 0, 2**64 - 1)
    _asked(request, GROUP.takes, filters=GROUP.filters, since=GROUP.since)  # what is refused must not be marked

    detail(request, body.decode(errors="replace"))

    def work() -> Response[bytes]:
        said = read_body(body, Mark, "state (resolved, ignored or open), issue, note, or several of them,")
        mark(state.store, number, said, state.scrub)
        return _answer(GROUP, request)

    return await answered(request, work)


@patch(
    "/api/v1/lessons/{id:str}",
    opt={RIGHT: READ},
    request_max_body_size=64 << 10,
    summary="Adopts a lesson, so that its effect is measured; snoozes or dismisses it, or opens it again",
    tags=["query"],
    operation_id="mark_lesson",
    operation_class=operation(LESSON.takes, True, "lesson", "lesson", answers="/lessons/{id:str}"),
)
async def mark_one_lesson(request: HttpRequest, id: FromPath[str]) -> Response[bytes]:
    """The lesson as it is then. The body is a `LessonMark` as JSON."""
    check_json(request.content_type[0])
    state, body = request.app.state, await request.body()
    detail(request, body.decode(errors="replace"))
    asked = _asked(request, LESSON.takes, since=LESSON.since)

    def work() -> Response[bytes]:
        said = read_body(body, LessonMark, "state (adopted, snoozed, dismissed or open), and maybe time or for,")
        rows = LESSON.ask(asked.selection, asked.options).rows(state.store)
        about = rows[0] if rows else marks(state.store).get(id)
        if about is None:
            return _gone(LESSON, state.store, asked)
        mark_lesson(state.store, {**about, "id": id}, said, state.scrub, asked.selection.clock_ns)
        if said.state == "open" and not rows:  # of a lesson of which nothing fails any more
            return Response(b"", status_code=204)
        return _answer(LESSON, request)

    return await answered(request, work)


@get(
    "/api/v1/classes",
    sync_to_thread=False,
    summary="Every class of error: what it means, what follows from it, what to do",
    tags=["query"],
    operation_id="classes",
    operation_class=operation(classes.TAKEN, False, "", tagged=False),
)
def list_classes(request: HttpRequest) -> Response[bytes]:
    """The taxonomy in force, including the user's own classes."""
    options = _asked(request, classes.TAKEN, filters=False).options
    return list_answer(request, classes.rows(request.app.state.taxonomy.classes), classes.TYPES, options)


class SqlRequest(msgspec.Struct, forbid_unknown_fields=True):
    """One SELECT over `events`."""

    sql: str


@post(
    "/api/v1/sql",
    opt={RIGHT: READ, AUDIT: "sql"},
    request_max_body_size=256 << 10,
    status_code=200,
    summary="One SELECT over the events that the range and the filters choose",
    tags=["query"],
    operation_id="sql",
    operation_class=operation((LIMIT,), True, "", "sql"),
)
async def ask_sql(request: HttpRequest) -> Response[bytes]:
    """The body is a `SqlRequest` as JSON. Nothing can be written, and nothing but `events` is there."""
    check_json(request.content_type[0])
    state, body = request.app.state, await request.body()
    sql = read_body(body, SqlRequest, '{"sql": "select …"}').sql
    detail(request, sql)
    asked = _asked(request, (LIMIT,))
    arrow = wants_arrow(request.headers.get("accept", ""))

    def work() -> Response[bytes]:
        seconds, limit = state.get("query_seconds", QUERY_SECONDS), asked.options["limit"]
        outcome, rows = answer_sql(state.store, asked.selection, sql, limit, arrow=arrow, seconds=seconds)
        if arrow:
            return Response(rows, media_type=ARROW)
        return json_answer(
            {
                "rows": msgspec.Raw(rows),
                "columns": outcome.columns,
                "from": rfc3339(asked.selection.start_ns),
                "to": rfc3339(asked.selection.end_ns),
                "truncated": outcome.truncated,
                "exact": True,
            }
        )

    return await answered(request, work)


def _gone(endpoint: Endpoint, store: Reads, asked: ParsedQuery) -> Response[bytes]:
    """A redirect for an event that was merged into another; else raises Rejected 404."""
    event_id = asked.options.get("event_id")
    if event_id is not None and (now := redirected(store, event_id)) is not None:
        return Response(b"", status_code=308, headers={"Location": str(now)})  # beside it, below any prefix
    name = endpoint.takes[0].name
    reason = "it never existed, or retention has removed it"
    raise Rejected(f"there is no {endpoint.one} with {name} {asked.options[name]}: {reason}", 404)


def _page(store: Reads, asked: ParsedQuery, statement: Answer, rows: list[Row], kept: bool) -> dict[str, Any]:
    shown = rows[: statement.limit]
    body: dict[str, Any] = {
        "rows": [_present(row, statement, asked) for row in shown],
        "from": rfc3339(asked.selection.start_ns),
        "to": rfc3339(asked.selection.end_ns),
        "truncated": len(rows) > statement.limit,
        "exact": kept,
    }
    if not any(_rests_on(row) for row in shown) and (newest := newest_ns(store)) is not None:
        body["newest"] = rfc3339(newest)
    return body


def _rests_on(row: Row) -> Any:
    """The number of events behind a row, if the row has it."""
    return row["a_whole"] + row["b_whole"] if "a_whole" in row else row.get("calls", row.get("errors", 1))


def _present(row: Row, statement: Answer, asked: ParsedQuery) -> Row:
    ids = ("value",) if asked.options.get("dimension") == "fingerprint" else ()
    return presented(row, statement.times, *ids)
