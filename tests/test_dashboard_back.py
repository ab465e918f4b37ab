"""The way back after signing in leads to a page of ours, whoever wrote the cookie."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from dashboard.access.sign_in_return import COOKIE, MOST, Back


async def led(request: Request) -> Response:
    """As Streamlit: to the provider, and afterwards to the first page."""
    return RedirectResponse("https://provider/" if request.url.path == "/auth/login" else "/", 302)


class Browser:
    """Keeps cookies."""

    def __init__(self) -> None:
        routes = [Route(path, led) for path in ("/auth/login", "/oauth2callback", "/other")]
        self._door = httpx.ASGITransport(Starlette(routes=routes, middleware=[Middleware(Back)]))
        self.cookies = httpx.Cookies()

    def get(self, path: str, referer: str = "") -> httpx.Response:
        async def asked() -> httpx.Response:
            client = httpx.AsyncClient(transport=self._door, base_url="https://here.example", cookies=self.cookies)
            async with client:
                answer = await client.get(path, headers={"referer": referer} if referer else {})
                self.cookies = httpx.Cookies(client.cookies)
                return answer

        return asyncio.run(asked())


@pytest.fixture
def browser() -> Browser:
    return Browser()


@pytest.mark.parametrize("page", ["/errors?from=-7d&tool=a%2Cb;c", "/", "/prefix/errors"])
def test_it_leads_to_the_page_on_which_somebody_signed_in(browser: Browser, page: str) -> None:
    asked = browser.get("/auth/login", f"https://here.example{page}")
    assert asked.headers["location"] == "https://provider/"
    assert COOKIE not in browser.get("/other").headers.get("set-cookie", "")
    assert browser.get("/oauth2callback").headers["location"] == page
    assert browser.get("/oauth2callback").headers["location"] == "/"


@pytest.mark.parametrize("referer", ["", "https://[", f"https://here.example/{'x' * MOST}"])
def test_without_a_page_it_leads_to_the_first(browser: Browser, referer: str) -> None:
    browser.get("/auth/login", referer)
    assert browser.get("/oauth2callback").headers["location"] == "/"


@pytest.mark.parametrize("page", ["//evil.example/", "/\\evil.example", "https://evil.example", "/x\r\nSet-Cookie: a"])
def test_it_leads_nowhere_else(browser: Browser, page: str) -> None:
    browser.cookies.set(COOKIE, quote(page, safe=""))
    assert browser.get("/oauth2callback").headers["location"] == "/"
