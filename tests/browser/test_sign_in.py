"""Signing in through OpenID Connect: a provider on loopback, Streamlit's own client, a person in a browser."""

from __future__ import annotations

import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from joserfc import jwk, jwt
from playwright.sync_api import expect

from tests.browser.conftest import Dashboard, Tab
from tests.conftest import RunningCollector, free_port, wait_until

pytestmark = pytest.mark.browser

CLIENT, PERSON = "misstep", "ann@example.org"


@dataclass
class Provider:
    """Signs one person in. `nonces` are what was asked by code, `exchanged` the codes that were redeemed."""

    secret: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    key: jwk.RSAKey = field(default_factory=lambda: jwk.RSAKey.generate_key(2048, {"kid": "one"}))
    nonces: dict[str, str] = field(default_factory=dict)
    exchanged: list[str] = field(default_factory=list)
    url: str = ""

    def serve(self) -> ThreadingHTTPServer:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                place, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
                if place == "/authorize":
                    self._send(provider.form(query), "text/html")
                elif place == "/jwks":
                    self._send(json.dumps({"keys": [provider.key.as_dict(private=False)]}))
                elif place == "/.well-known/openid-configuration":
                    self._send(json.dumps(provider.about()))
                else:
                    self.send_error(404)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                self._send(json.dumps(provider.tokens(parse_qs(body))))

            def _send(self, text: str, media: str = "application/json") -> None:
                self.send_response(200)
                self.send_header("Content-Type", media)
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: object) -> None:
                """Nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def about(self) -> dict[str, object]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/jwks",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
        }

    def form(self, asked: dict[str, list[str]]) -> str:
        """What a person sees at the provider: a link that says yes."""
        code = secrets.token_urlsafe(12)
        self.nonces[code] = asked["nonce"][0]
        back = f"{asked['redirect_uri'][0]}?{urlencode({'code': code, 'state': asked['state'][0]})}"
        return f'<h1>Provider</h1><a href="{back.replace("&", "&amp;")}">I am Ann</a>'

    def tokens(self, asked: dict[str, list[str]]) -> dict[str, object]:
        code = asked["code"][0]
        self.exchanged.append(code)
        now = int(time.time())
        groups = ["team-shop", "everybody"]
        claims = {
            "iss": self.url,
            "sub": "1",
            "aud": CLIENT,
            "email": PERSON,
            "groups": groups,
            "iat": now,
            "exp": now + 600,
        }
        token = jwt.encode({"alg": "RS256", "kid": "one"}, claims | {"nonce": self.nonces.pop(code)}, self.key)
        return {"access_token": secrets.token_urlsafe(12), "token_type": "Bearer", "expires_in": 600, "id_token": token}


@pytest.fixture
def provider() -> Iterator[Provider]:
    one = Provider()
    server = one.serve()
    yield one
    server.shutdown()
    server.server_close()


def test_nobody_sees_a_page_before_the_provider_has_said_who_it_is(
    open_tab: Callable[..., Tab], provider: Provider, tmp_path: Path
) -> None:
    port = free_port()
    settings = {
        "redirect_uri": f"http://127.0.0.1:{port}/oauth2callback",
        "cookie_secret": secrets.token_urlsafe(24),
        "client_id": CLIENT,
        "client_secret": provider.secret,
        "server_metadata_url": f"{provider.url}/.well-known/openid-configuration",
    }
    folder = tmp_path / ".streamlit"
    folder.mkdir()
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    group = ["[misstep.groups.team-shop]", 'project = "shop"', 'rights = ["read"]']
    (folder / "secrets.toml").write_text("\n".join(["[auth]", *lines, *group]))
    running = RunningCollector(tmp_path).start()
    dashboard = Dashboard(running, port)
    page = open_tab(dashboard).page
    try:
        page.goto(f"{dashboard.url}/streaks?from=-7d")
        sign_in = page.get_by_role("button", name="Sign in")
        expect(sign_in).to_be_visible(timeout=30_000)
        assert page.get_by_test_id("stPageLink").count() == 0
        sign_in.click()
        expect(page.get_by_role("heading", name="Provider")).to_be_visible(timeout=30_000)
        assert page.url.startswith(f"{provider.url}/authorize")
        page.get_by_role("link", name="I am Ann").click()
        expect(page.locator("h1")).to_have_text("Streaks", timeout=30_000)
        assert page.url.startswith(f"{dashboard.url}/streaks?")
        assert "from=-7d" in page.url
        assert "misstep_back" not in {cookie["name"] for cookie in page.context.cookies()}
        assert len(provider.exchanged) == 1
        expect(page.get_by_text(re.compile(r"Signed in as ann@.?example\.org, project shop"))).to_be_visible()
        page.goto(f"{dashboard.url}/live?from=-7d")
        wait_until(lambda: running.get("/api/v1/audit", who=PERSON)["rows"])
        [told, *_] = running.get("/api/v1/audit", who=PERSON)["rows"]
        assert (told["action"], told["project"], told["via"]) == ("read", "shop", "unnamed")
        page.get_by_role("button", name="⋯").click()
        page.get_by_role("button", name="Sign out").click()
        expect(sign_in).to_be_visible(timeout=30_000)
        assert page.get_by_test_id("stPageLink").count() == 0
        for lose in (lambda path: path.write_text("[auth\n"), Path.unlink):
            lose(folder / "secrets.toml")
            page.wait_for_timeout(3000)  # until Streamlit has looked again
            page.reload()
            expect(page.get_by_text("Sign-in is not available")).to_be_visible(timeout=30_000)
            assert page.get_by_test_id("stPageLink").count() == 0
    finally:
        dashboard.stop()
        running.stop()
