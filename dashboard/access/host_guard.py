"""Who may open the dashboard: no web page of another site, unless people sign in, which its pages cannot do for them.

A page whose name resolves to this machine (DNS rebinding) has the same origin as the dashboard for the browser and for
Streamlit, so the Host header must be one of ours. Other programs of this machine serve pages too: the port counts as
well. Streamlit would let any of them in, and look up this machine's public address at a foreign service when it sees
another origin than its host; here it never sees one.
"""

from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

LOOPBACK = ("127.0.0.1", "localhost", "::1")
PORTS = {"http": 80, "https": 443}  # where an address names none


def names(address: str, more: Collection[str], *, signs_in: bool) -> frozenset[str]:
    """The names that the Host header may have where the dashboard listens on `address`; empty: any.

    Beyond loopback others may know this machine by any name, so there only `more` limits it.
    """
    if signs_in or (address not in LOOPBACK and not more):
        return frozenset()
    return frozenset((*LOOPBACK, *(name.lower() for name in more)))


class Callers:
    """Middleware that answers 403 to foreign pages, and forbids them to show ours in a frame."""

    def __init__(self, app: ASGIApp, allowed: Collection[str]) -> None:
        self._app = app
        self._allowed = allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = MutableHeaders(scope=scope)
        if reason := refusal(headers, self._allowed):
            answer = PlainTextResponse(reason, 403) if scope["type"] == "http" else WebSocketClose(1008, reason)
            await answer(scope, receive, send)
            return
        if scope["type"] == "websocket" and "origin" in headers:
            headers["host"] = urlsplit(headers["origin"]).netloc  # which a proxy may have replaced

        async def framed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["Content-Security-Policy"] = "frame-ancestors 'self'"
            await send(message)

        await self._app(scope, receive, framed)


def refusal(headers: Headers, allowed: Collection[str]) -> str:
    """Why a request is refused; empty if it is not."""
    host, port = _place("//" + headers.get("host", ""))
    if allowed and host not in allowed:
        return f"Host {host[:100]!r} is not allowed; add it to MISSTEP_ALLOWED_HOSTS"
    for origin in headers.getlist("origin"):
        if not _is_ours(origin, host, port, allowed):
            return f"requests of web pages from {origin[:100]!r} are not allowed"
    return ""


def _is_ours(origin: str, host: str, port: int | None, allowed: Collection[str]) -> bool:
    """Whether a page is the dashboard's: of its host and port, or of a name whose port a proxy did not pass on."""
    scheme, _, _ = origin.partition("://")
    name, its_port = _place(origin)
    if not name or scheme not in PORTS:
        return False
    if name == host and (its_port or PORTS[scheme]) == (port or PORTS[scheme]):
        return True
    return name in allowed and name not in LOOPBACK and (name != host or port is None)


def _place(url: str) -> tuple[str, int | None]:
    try:
        parts = urlsplit(url)
        return parts.hostname or "", parts.port
    except ValueError:
        return "", None
