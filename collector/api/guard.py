"""Who may ask an address: its handler names the right in `opt`; without that, GET needs `read`, all else `admin`."""

from __future__ import annotations

from typing import Any

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from collector.access.rights import ADMIN, OPEN, READ, Access
from collector.errors import Rejected
from collector.projects import PROJECT

RIGHT = "right"  # of `opt`: one of collector.access.rights
WHOLE = "whole"  # of `opt`: what the address is about is of all projects

Connection = ASGIConnection[Any, Any, Any, Any]


async def guard(connection: Connection, handler: BaseRouteHandler) -> None:
    """Admits a request, or raises Rejected 401 or 403.

    Not in a thread, whose context would not be that of the handler: from here on, it asks the store of one project.
    """
    reading = connection.scope.get("method") in ("GET", "HEAD", "OPTIONS")
    right = handler.opt.get(RIGHT, READ if reading else ADMIN)
    if right == OPEN:
        PROJECT.set(None)
        return
    access = admitted(connection, right)
    if handler.opt.get(WHOLE):
        check_whole(access)


def check_whole(access: Access) -> None:
    """Raises Rejected 403 for who sees one project alone."""
    if access.project is not None:
        said = f"this concerns all projects, and the token {access.name!r} is for {access.project!r} alone"
        raise Rejected(said, 403)


def admitted(connection: Connection, right: str) -> Access:
    """Who asks, settled once and remembered for `access_of`. Raises Rejected 401 or 403."""
    state = connection.app.state
    access: Access = state.tokens.admit(connection.headers, right, state.allowed_hosts)
    connection.scope["state"]["access"] = access
    PROJECT.set(access.project)
    return access


def access_of(connection: Connection) -> Access:
    """Who asks, as `guard` has settled it."""
    access: Access = connection.scope["state"]["access"]
    return access
