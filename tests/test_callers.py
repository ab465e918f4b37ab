"""Which pages may talk to the dashboard, and which host Streamlit is told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.datastructures import Headers

from dashboard.access.host_guard import Callers, names, refusal

HERE = names("127.0.0.1", (), signs_in=False)
NAMED = names("127.0.0.1", ("Dash.Example",), signs_in=False)
ANY: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("host", "origin", "allowed", "passes"),
    [
        ("localhost:8501", None, HERE, True),
        ("localhost:8501", "http://localhost:8501", HERE, True),
        ("LOCALHOST:8501", "http://localhost:8501", HERE, True),
        ("[::1]:8501", "http://[::1]:8501", HERE, True),
        ("127.0.0.1", "http://127.0.0.1", HERE, True),
        ("localhost", "https://localhost:443", HERE, True),
        ("localhost:8501", "http://localhost:3000", HERE, False),
        ("localhost:8501", "http://localhost", HERE, False),
        ("localhost:8501", "http://127.0.0.1:8501", HERE, False),
        ("127.0.0.1:8501", "http://[::1]:8501", HERE, False),
        ("localhost", "http://localhost:8501", HERE, False),
        ("localhost:443", "http://localhost", HERE, False),
        ("localhost:8501", "", HERE, False),
        ("localhost:8501", "null", HERE, False),
        ("localhost:8501", "localhost:8501", HERE, False),
        ("localhost:8501", "//localhost:8501", HERE, False),
        ("localhost:8501", "file://localhost:8501", HERE, False),
        ("localhost:8501", "http://localhost:8501@evil.example", HERE, False),
        ("localhost:8501", "http://localhost:x", HERE, False),
        ("localhost:8501", "http://[", HERE, False),
        ("localhost:8501", "http://evil.example:8501", HERE, False),
        ("evil.example:8501", "http://evil.example:8501", HERE, False),
        # Behind a proxy: the Host passed on, passed on without its port, and replaced by the dashboard's own.
        ("dash.example", "https://dash.example", NAMED, True),
        ("dash.example:8443", "https://dash.example:8443", NAMED, True),
        ("dash.example", "https://dash.example:8443", NAMED, True),
        ("127.0.0.1:8501", "https://dash.example", NAMED, True),
        ("dash.example:8443", "https://dash.example:3000", NAMED, False),
        ("127.0.0.1:8501", "http://localhost:3000", NAMED, False),
        ("dash.example", "https://other.example", NAMED, False),
        # Beyond loopback or with sign-in any name is its own.
        ("any.example", "https://any.example", ANY, True),
        ("any.example:8501", "http://any.example:8501", ANY, True),
        ("any.example:8501", "http://any.example:3000", ANY, False),
        ("any.example", "", ANY, False),
        ("", "null", ANY, False),
        ("", "", ANY, False),
    ],
)  # fmt: skip
def test_a_page_is_known_by_host_and_port(host: str, origin: str | None, allowed: frozenset[str], passes: bool) -> None:
    headers = {"host": host} if origin is None else {"host": host, "origin": origin}
    assert (refusal(Headers(headers), allowed) == "") is passes


def test_of_two_origins_both_must_be_ours() -> None:
    own, other = (b"origin", b"http://localhost:8501"), (b"origin", b"http://evil.example")
    assert refusal(Headers(raw=[(b"host", b"localhost:8501"), own, other]), HERE)


def test_streamlit_is_told_the_host_that_the_browser_has() -> None:
    seen: list[Headers] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(Headers(scope=scope))

    def opens(kind: str, host: bytes, origin: bytes) -> str:
        scope = {"type": kind, "headers": [(b"host", host), (b"origin", origin)]}
        asyncio.run(Callers(app, NAMED)(scope, None, None))  # type: ignore[arg-type]
        return seen.pop()["host"]

    assert opens("websocket", b"127.0.0.1:8501", b"https://dash.example") == "dash.example"
    assert opens("websocket", b"localhost:80", b"http://localhost") == "localhost"
    assert opens("http", b"127.0.0.1:8501", b"https://dash.example") == "127.0.0.1:8501"
