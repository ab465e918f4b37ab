"""Bearer tokens, and the headers Host and Origin."""

from __future__ import annotations

from typing import Any

import pytest

from collector.access.rights import INGEST, MAINTAIN, RIGHTS, Access, check_host
from collector.errors import Rejected
from collector.serve import allowed_hosts
from collector.setting_values import Address
from collector.settings import Settings
from tests.api import tokens


def admitted(
    headers: dict[str, str], right: str = INGEST, allowed: frozenset[str] = frozenset(), **more: Any
) -> Access:
    return tokens(Settings(**more)).admit(headers, right, allowed)


def test_no_token_is_asked_where_none_is_set() -> None:
    assert admitted({}) == Access("", frozenset((*RIGHTS, MAINTAIN)))


def test_any_of_the_tokens_opens() -> None:
    for given in ("Bearer two", "bearer  one "):
        assert admitted({"authorization": given}, ingest_tokens=("one", "two")).name == ""


@pytest.mark.parametrize(("header", "status"), [("", 401), ("Bearer ", 401), ("Basic one", 401), ("Bearer three", 403)])
def test_wrong_token(header: str, status: int) -> None:
    with pytest.raises(Rejected) as refused:
        admitted({"authorization": header}, ingest_tokens=("one", "two"))
    assert refused.value.status == status


@pytest.mark.parametrize("host", ["localhost:4318", "127.0.0.1", "[::1]:4318", "[::1]", "LOCALHOST"])
def test_own_names_are_hosts(host: str) -> None:
    check_host(host, {"localhost", "127.0.0.1", "::1"})


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example:4318", ""])
def test_other_names_are_not(host: str) -> None:
    with pytest.raises(Rejected) as refused:
        check_host(host, {"localhost", "127.0.0.1", "::1"})
    assert refused.value.status == 403


def test_beyond_loopback_any_name_is_taken() -> None:
    check_host("collector:4318", frozenset())


OURS = frozenset(("localhost", "127.0.0.1"))


@pytest.mark.parametrize(
    ("headers", "given", "status"),
    [
        ({"host": "localhost:4318"}, (), 200),
        ({"host": "evil.example"}, (), 403),
        ({"host": "localhost:4318", "origin": "http://localhost:3000"}, (), 200),
        ({"host": "localhost:4318", "origin": "https://evil.example"}, (), 403),
        ({"host": "localhost:4318", "origin": "null"}, (), 403),
        ({"host": "localhost:4318"}, ("one",), 401),
        (
            {"host": "host.docker.internal", "origin": "https://evil.example", "authorization": "Bearer one"},
            ("one",),
            200,
        ),
    ],
)
def test_without_a_token_host_and_origin_must_be_ours(
    headers: dict[str, str], given: tuple[str, ...], status: int
) -> None:
    if status == 200:
        admitted(headers, INGEST, OURS, ingest_tokens=given)
        return
    with pytest.raises(Rejected) as refused:
        admitted(headers, INGEST, OURS, ingest_tokens=given)
    assert refused.value.status == status


@pytest.mark.parametrize(
    ("place", "more", "with_tokens", "any_host"),
    [
        ("127.0.0.1", (), False, False),
        ("127.0.0.1", (), True, False),  # for what needs no token
        ("0.0.0.0", (), False, True),
        ("0.0.0.0", ("collector",), False, False),  # a port that is published on loopback
        ("0.0.0.0", ("collector",), True, True),
    ],
)
def test_beyond_loopback_hosts_are_limited_where_they_were_named(
    place: str, more: tuple[str, ...], with_tokens: bool, any_host: bool
) -> None:
    settings = Settings(http=Address(place, 4318), allowed_hosts=more, open=True)
    found = allowed_hosts(settings, with_tokens=with_tokens)
    assert found == (frozenset() if any_host else frozenset(("localhost", "127.0.0.1", "::1", *more)))
