"""HTTP access of commands to a collector: token, error messages, and polling of long operations."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx

from collector.engine.duckdb.open import file_id, path_of
from collector.settings import without_user

TIMEOUT_S = 60
POLL_S = 0.3
ARROW = "application/vnd.apache.arrow.stream"


def bearer(token: str) -> dict[str, str]:
    """The header for a token; none without one."""
    return {"authorization": f"Bearer {token}"} if token else {}


@contextmanager
def collector(url: str, token: str) -> Iterator[httpx.Client]:
    """A client of the collector at that address, with a token. Raises OSError if it does not answer, or cannot be
    asked.
    """
    try:
        with httpx.Client(base_url=url, headers=bearer(token), timeout=TIMEOUT_S) as client:
            yield client
    except UnicodeEncodeError:
        raise OSError("what is asked is not UTF-8; write it in UTF-8") from None
    except httpx.LocalProtocolError:  # its text has the header, and so the token
        raise OSError("the token cannot be sent in a header; write printable ASCII characters only") from None
    except httpx.TransportError as error:
        remedy = "start one with misstep up, or give its address with MISSTEP_COLLECTOR_URL"
        raise ConnectionError(f"the collector at {without_user(url)} does not answer: {error}; {remedy}") from None
    except httpx.InvalidURL:
        raise OSError(f"{without_user(url)} is no address that can be asked; correct MISSTEP_COLLECTOR_URL") from None


def filters(where: Sequence[str]) -> list[tuple[str, str]]:
    """Filters of the query API as `name=value`. Raises OSError for anything else."""
    unfit = [each for each in where if "=" not in each]
    if unfit:
        raise OSError(f"{unfit[0]!r} is not a filter; write name=value, such as tool=apply_diff")
    return [(name, value) for name, _, value in (each.partition("=") for each in where)]


def followed(client: httpx.Client, path: str) -> Iterator[dict[str, Any]]:
    """Starts an operation with POST and yields its progress until it is over. Raises OSError."""
    told = _answered(client.post(path, json={}))
    yield told
    while told["state"] == "running":
        time.sleep(POLL_S)
        told = _answered(client.get(path))
        yield told


def check_store(client: httpx.Client, store: str) -> None:
    """Raises OSError if the collector has another file open than this store's."""
    path = path_of(store)
    if path and _answered(client.get("/api/v1/health"))["store"].get("id") != file_id(path):
        raise OSError(
            f"{path} is in use by another collector than the one at {without_user(str(client.base_url))}; "
            "give the address of that with MISSTEP_COLLECTOR_URL"
        )


def check(answer: httpx.Response) -> None:
    """Raises OSError with the collector's message if it refused."""
    if not answer.is_success:
        place = f"{answer.url.scheme}://{answer.url.netloc.decode()}"
        raise OSError(f"the collector at {place} answered {answer.status_code}: {said(answer)}")


def said(answer: httpx.Response) -> str:
    """The parameter, value and message of a refusal, or its text if it is not from a collector."""
    try:
        error = answer.json()["error"]
        named = f"{error['parameter']} = {error['value']!r}: " if error.get("value") else ""
        return f"{named}{error['message']}"
    except (ValueError, KeyError, TypeError):
        return answer.text[:300]


def _answered(answer: httpx.Response) -> dict[str, Any]:
    check(answer)
    found: dict[str, Any] = answer.json()
    return found
