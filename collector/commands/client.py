"""How commands speak to a collector: with the token of the settings, and waiting for what takes long."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx

POLL_S = 0.3


def bearer(token: str) -> dict[str, str]:
    """The header by which a token travels; none without one."""
    return {"authorization": f"Bearer {token}"} if token else {}


def followed(client: httpx.Client, path: str) -> Iterator[dict[str, Any]]:
    """Begins what a POST begins, and tells how far it is until it runs no longer. Raises OSError."""
    told = answered(client.post(path, json={}))
    yield told
    while told["state"] == "running":
        time.sleep(POLL_S)
        told = answered(client.get(path))
        yield told


def answered(answer: httpx.Response) -> dict[str, Any]:
    """The object of an answer. Raises OSError with what the collector says where it refuses."""
    if not answer.is_success:
        raise OSError(f"the collector at {answer.url.host} answered {answer.status_code}: {answer.text[:300]}")
    found: dict[str, Any] = answer.json()
    return found
