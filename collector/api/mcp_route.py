"""`/mcp`: what agents can ask, by the Model Context Protocol; its library is loaded with the first request."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from litestar import asgi
from litestar.types import Receive, Scope, Send

from collector.access.rights import READ
from collector.api.auditing import AUDIT
from collector.api.guard import RIGHT
from collector.errors import Rejected


@asgi("/mcp", opt={RIGHT: READ, AUDIT: ""}, copy_scope=True)
async def ask_mcp(scope: Scope, receive: Receive, send: Send) -> None:
    """One request of a client, which has no session here: what it leads to is asked with its token too.

    Raises Rejected for other methods than POST.
    """
    app: Any = scope["litestar_app"]
    if scope["method"] != "POST":  # type: ignore[typeddict-item]
        raise Rejected("only POST is answered at /mcp: there is no stream to open and no session to end", 405)
    try:
        from collector.mcp.server import answer_http
    except ModuleNotFoundError:
        raise Rejected("this collector lacks what /mcp needs: install misstep[mcp]", 501) from None
    await answer_http(app, version("misstep"), scope, receive, send)
