"""`/api/v1/tokens`: named tokens are made, listed with what they used, and revoked."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from litestar import Request, Response, delete, get, post
from litestar.params import FromPath
from litestar.types import ControllerRouterHandler

from collector.access.file import Token
from collector.access.meter import Limits
from collector.access.rights import ADMIN, check_json
from collector.access.tokens import Tokens
from collector.api.auditing import detail
from collector.api.describe import operation, taking
from collector.api.guard import RIGHT, access_of
from collector.api.parameters import ALL, read, read_none, sort_by
from collector.api.representations import json_answer, list_answer, read_body
from collector.errors import Rejected
from collector.times import rfc3339

NEEDS = {RIGHT: ADMIN}
MOST_BYTES = 64 << 10
TAKEN = (sort_by("created"), ALL)
TOKENS = {
    "name": "varchar", "rights": "json", "project": "varchar", "created": "timestamp", "revoked": "timestamp",
    "limits": "json", "requests": "bigint", "bytes": "bigint", "events": "bigint", "refused": "bigint",
}  # fmt: skip
SHOWN = {"name": "shop-agents", "rights": ["ingest"], "project": "shop", "limits": {"events": 60000}}

Asked = Request[Any, Any, Any]


class NewToken(msgspec.Struct, forbid_unknown_fields=True):
    """A token to make; `project` empty: of all projects. `collector.access.file` checks the names."""

    name: str
    rights: list[str]
    project: str = ""
    limits: Limits = Limits()


@get("/api/v1/tokens", opt=NEEDS, summary="Named tokens, and what each has used since the collector started",
     operation_class=operation(TAKEN, False, "", tagged=False))  # fmt: skip
async def tokens(request: Asked) -> Response[bytes]:
    """Never a token itself. An admin of one project sees that project's."""
    options = read(request.scope["query_string"], TAKEN, {}, 0, filters=False).options
    rows = [row_of(_tokens(request), token) for token in _visible(request)]
    return list_answer(request, rows, TOKENS, options)


@post(
    "/api/v1/tokens",
    opt=NEEDS,
    request_max_body_size=MOST_BYTES,
    summary="Makes a token, whose text is in this answer and in no other",
    operation_class=taking("application/json", SHOWN),
)
async def make_token(request: Asked) -> Response[bytes]:
    """The body is a `NewToken` as JSON. An admin of one project makes tokens of that project."""
    read_none(request.scope["query_string"])
    check_json(request.content_type[0])
    wanted = read_body(await request.body(), NewToken, "a token, with name, rights, and maybe project and limits,")
    detail(request, f"{wanted.name}: {', '.join(wanted.rights)}; project {wanted.project or '-'}")
    access = access_of(request)
    project = wanted.project or access.project
    if access.project is not None and project != access.project:
        raise Rejected(f"the token {access.name!r} makes tokens for {access.project!r} alone", 403)
    make = _tokens(request).create
    token, text = await asyncio.to_thread(make, wanted.name, wanted.rights, project, wanted.limits)
    row = row_of(_tokens(request), token)
    return json_answer({**row, "token": text}, 201, {"Cache-Control": "no-store"})


@delete("/api/v1/tokens/{name:str}", opt=NEEDS, status_code=200, summary="Revokes a token: it is refused at once")
async def revoke_token(request: Asked, name: FromPath[str]) -> Response[bytes]:
    """404 where no token of this name is in force."""
    read_none(request.scope["query_string"])
    if not any(token.name == name and not token.revoked_ns for token in _visible(request)):
        raise Rejected(f"there is no token {name!r} in force", 404)
    gone = await asyncio.to_thread(_tokens(request).revoke, name)
    return json_answer(row_of(_tokens(request), gone))


TOKEN_ROUTES: list[ControllerRouterHandler] = [tokens, make_token, revoke_token]


def row_of(tokens: Tokens, token: Token) -> dict[str, Any]:
    """A token as answers have it, with what it has used since the collector started."""
    return {
        "name": token.name,
        "rights": list(token.rights),
        "project": token.project,
        "created": rfc3339(token.created_ns),
        "revoked": rfc3339(token.revoked_ns) if token.revoked_ns else None,
        "limits": msgspec.to_builtins(token.limits),
        **tokens.used(token),
    }


def _visible(request: Asked) -> list[Token]:
    mine = access_of(request).project
    return [token for token in _tokens(request).named() if mine is None or token.project == mine]


def _tokens(request: Asked) -> Tokens:
    found: Tokens = request.app.state.tokens
    return found
