"""What is written to the audit log: answers that showed events, and every request that changed something.

A handler may name its action in `opt`, "" for none; without that, all but GET are changes.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode

from litestar import Request
from litestar.types import Message, Scope

from collector.access.audit import AuditLog, Entry
from collector.access.rights import Access

AUDIT = "audit"  # of `opt`: the action
CHANGES = {"POST": "add", "PUT": "change", "PATCH": "change", "DELETE": "remove"}
PAGING = ("cursor", "after", "limit", "sort", "columns")  # which part of what was asked is the answer
DETAIL = "audit_detail"  # in a request's state


def sent_path(scope: Any) -> str:
    """The path of a request as it was sent, decoded: of two slashes routing makes one, and then no rule of the
    sanitiser finds the password in a URL that stands there.
    """
    return unquote(scope["raw_path"].decode("latin-1").partition("?")[0])


def detail(request: Request[Any, Any, Any], text: str) -> None:
    """Says what a request is about, where its address does not."""
    request.scope["state"][DETAIL] = text


async def note_answer(message: Message, scope: Scope) -> None:
    """Hook for answers: notes those of audited addresses that were no refusals. What is read again within a minute is
    noted once.
    """
    if message["type"] != "http.response.start" or message["status"] >= 400:
        return
    request: Any = scope
    handler, method = request.get("route_handler"), request.get("method", "")
    action = handler.opt.get(AUDIT, CHANGES.get(method, "")) if handler else ""
    if not action:
        return
    access: Access = request["state"].get("access") or Access()
    offered = any(name == b"authorization" for name, _ in request["headers"])
    audit: AuditLog = request["litestar_app"].state.audit
    audit.note(
        Entry(
            0,
            access.name or ("an unnamed token" if offered else "anybody"),
            action,
            f"{method} {sent_path(request)}",
            request["state"].get(DETAIL) or _asked(request["query_string"]),
            access.via,
            access.project,
        ),
        again=method != "GET",
    )


def _asked(query: bytes) -> str:
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    return urlencode([(name, value) for name, value in pairs if name not in PAGING], safe=",:-!")
