"""Authentication and browser protection: bearer tokens; without tokens, the Host header and the Content-Type."""

from __future__ import annotations

import hmac
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from collector.errors import Rejected


def check_caller(headers: Mapping[str, str], tokens: Collection[str], allowed: Collection[str]) -> None:
    """Raises Rejected 401 or 403 unless the request has one of the `tokens`; without any, unless its Host and Origin
    are ours.
    """
    if tokens:
        check_token(headers.get("authorization", ""), tokens)
        return
    check_host(headers.get("host", ""), allowed)
    check_origin(headers.get("origin", ""), allowed)


def check_token(authorization: str, tokens: Collection[str]) -> None:
    """Raises Rejected 401 without a bearer token, 403 for a wrong one. Without `tokens`, anybody passes."""
    if not tokens:
        return
    scheme, _, given = authorization.partition(" ")
    if scheme.lower() != "bearer" or not given.strip():
        raise Rejected("a token is needed: send the header Authorization: Bearer <token>", 401)
    offered = given.strip().encode()
    # Every token is compared: the time taken must not depend on which one matches.
    matches = [hmac.compare_digest(offered, token.encode()) for token in tokens]
    if True not in matches:
        raise Rejected("this token is not valid here", 403)


def check_host(host: str, allowed: Collection[str]) -> None:
    """Raises Rejected 403 for a Host that is not ours, so that a web page in the same browser (DNS rebinding) cannot
    reach a collector on loopback.

    An empty `allowed` accepts any Host: the collector listens beyond loopback.
    """
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    if allowed and name.strip("[]").lower() not in allowed:
        raise Rejected(f"Host {name!r} is not allowed; add it to MISSTEP_ALLOWED_HOSTS", 403)


def check_origin(origin: str, allowed: Collection[str]) -> None:
    """Raises Rejected 403 for a request that a foreign web page sends: browsers send some without a CORS preflight.

    An empty `allowed` accepts any Origin, as does a request without one.
    """
    if allowed and origin and (urlsplit(origin).hostname or "") not in allowed:
        raise Rejected(f"requests of web pages from {origin[:100]!r} are not allowed", 403)


def check_json(content_type: str) -> None:
    """Raises Rejected 415 for other types: a foreign web page can send some without a CORS preflight, but not JSON."""
    if content_type != "application/json":
        raise Rejected("send Content-Type: application/json", 415)
