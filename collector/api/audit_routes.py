"""`GET /api/v1/audit`: the audit log, for admins."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from itertools import islice
from typing import Any

import msgspec
from litestar import Request, Response, get
from litestar.types import ControllerRouterHandler

from collector.access.audit import AuditLog, Entry
from collector.access.rights import ADMIN
from collector.api.auditing import AUDIT
from collector.api.describe import operation
from collector.api.guard import RIGHT, access_of
from collector.api.parameters import FROM, LIMIT, TO, Parameter, read
from collector.api.representations import list_answer
from collector.query.filters import range_ns
from collector.times import rfc3339

WHO = Parameter("who", "text", "only what this person or token did", "ann@example.com", "")
ACTION = Parameter("action", "text", "only this: read, sql, copy, add, change, remove …", "sql", "")
TAKEN = (replace(FROM, example="-7d"), TO, WHO, ACTION, LIMIT)
COLUMNS = {
    "time": "timestamp", "who": "varchar", "action": "varchar", "what": "varchar", "detail": "varchar",
    "via": "varchar", "project": "varchar",
}  # fmt: skip

Asked = Request[Any, Any, Any]


@get(
    "/api/v1/audit",
    opt={RIGHT: ADMIN, AUDIT: "read"},
    summary="Who read events, asked SQL, copied the store or changed something, newest first",
    operation_class=operation(TAKEN, False, "", tagged=False),
)
async def audit(request: Asked) -> Response[bytes]:
    """An admin of one project sees what was done with that project's tokens."""
    now_ns = request.app.state.get("clock", time.time_ns)()
    options = read(request.scope["query_string"], TAKEN, {}, now_ns, filters=False).options
    start_ns, end_ns = range_ns(options["from"], options["to"], now_ns)
    log: AuditLog = request.app.state.audit
    mine = access_of(request).project

    def wanted(entry: Entry) -> bool:
        return (
            entry.who == (options["who"] or entry.who)
            and entry.action == (options["action"] or entry.action)
            and (mine is None or entry.project == mine)
        )

    def found() -> list[Entry]:
        return list(islice(filter(wanted, log.entries(start_ns, end_ns)), options["limit"] + 1))

    return list_answer(request, [row_of(entry) for entry in await asyncio.to_thread(found)], COLUMNS, options)


AUDIT_ROUTES: list[ControllerRouterHandler] = [audit]


def row_of(entry: Entry) -> dict[str, Any]:
    """An entry as answers have it."""
    row = msgspec.to_builtins(entry)
    return {"time": rfc3339(row.pop("time_ns")), **row}
