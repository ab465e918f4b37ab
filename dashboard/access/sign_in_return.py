"""The way back after signing in: Streamlit leads everybody to the first page, whatever link they had opened."""

import re
from urllib.parse import quote, unquote, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "misstep_back"
MOST = 3000  # characters of a cookie; browsers take 4096 bytes, with its name
SIGN_IN_S = 600
OURS = re.compile(r"/(?![/\\])[!-~]*")  # a path on this host: a second slash would begin the name of another


class Back:
    """Middleware that keeps the page on which somebody signs in as a cookie, and leads there afterwards."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        place = scope["path"] if scope["type"] == "http" else ""
        if not place.endswith(("/auth/login", "/oauth2callback")):
            await self._app(scope, receive, send)
            return
        asked, leaves = HTTPConnection(scope), place.endswith("/auth/login")

        async def led(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if leaves:
                    headers.append("Set-Cookie", _cookie(page_of(asked.headers.get("referer", "")), SIGN_IN_S))
                elif "location" in headers:
                    page = unquote(asked.cookies.get(COOKIE, ""))
                    if OURS.fullmatch(page):
                        headers["location"] = page
                    headers.append("Set-Cookie", _cookie("", 0))
            await send(message)

        await self._app(scope, receive, led)


def page_of(url: str) -> str:
    """Path and query of a page's address; empty if it is none."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def _cookie(page: str, seconds: int) -> str:
    value = quote(page, safe="/")
    return f"{COOKIE}={value if len(value) <= MOST else ''}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax"
