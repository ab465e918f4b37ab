"""Who may send and who may ask: bearer tokens; where no token is asked, the Host header and the type of a body."""

from __future__ import annotations

import hmac
from collections.abc import Collection

from collector.errors import Rejected


def check_token(authorization: str, tokens: Collection[str]) -> None:
    """Raises Rejected 401 without a bearer token, 403 with a wrong one; any caller passes where `tokens` is empty."""
    if not tokens:
        return
    scheme, _, given = authorization.partition(" ")
    if scheme.lower() != "bearer" or not given.strip():
        raise Rejected("a token is needed: send the header Authorization: Bearer <token>", 401)
    offered = given.strip().encode()
    matches = [
        hmac.compare_digest(offered, token.encode()) for token in tokens
    ]  # all: time must not tell which was near
    if True not in matches:
        raise Rejected("this token is not allowed here", 403)


def check_host(host: str, allowed: Collection[str]) -> None:
    """Raises Rejected 403 for a Host that is not ours: a page in the same browser must not reach a loopback collector.

    `allowed` empty: the collector listens beyond loopback and anyone may name it as they like.
    """
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    if allowed and name.strip("[]").lower() not in allowed:
        raise Rejected(f"Host {name!r} is not allowed; add it to MISSTEP_ALLOWED_HOSTS", 403)


def check_json(content_type: str) -> None:
    """Raises Rejected 415 for any other type: a foreign web page may send those without asking, and JSON not."""
    if content_type != "application/json":
        raise Rejected("send Content-Type: application/json", 415)
