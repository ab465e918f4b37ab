"""Addresses of receivers that come through the API: known services and public hosts only."""

from __future__ import annotations

from typing import Any

import pytest

from collector.alerts.addresses import kinds, receiver_of, wrong_with
from collector.alerts.rules import KINDS, receivers_of
from collector.tables import load_toml, schemas

X = "Ab3" + "d7Ef" * 7 + "9"
ROWS = load_toml(schemas().joinpath("receivers.toml"))["scheme"]


def made_up(address: str) -> str:
    return address.replace("X", X)


@pytest.mark.parametrize("address", [made_up(address) for row in ROWS for address in row["accepted"]])
def test_a_known_service_is_taken(address: str) -> None:
    from apprise import Apprise

    assert wrong_with(address, ()) == ""
    said = receiver_of(address)
    assert said.keys() - {"api_url"} <= {*KINDS, "apprise"}
    assert "apprise" not in said or len(Apprise(address)) == 1
    assert receivers_of("team", said)


HOSTILE = [
    "file:///etc/passwd", "json://127.0.0.1:4318/v1/events", "jsons://93.184.215.14", "xml://localhost", "syslog://",
    "http://93.184.215.14/hook", "https://localhost/", "https://user@127.0.0.1/", "https://[::]/", "https://0/",
    "https://2130706433/", "https://[::ffff:10.0.0.1]/", "https://[2002:7f00:1::]/", "https://nosuch.invalid/x",
    "https://:443/x", "https://93.184.215.14:99999/", "https://", "windows://", "dbus://", "ftp://93.184.215.14",
    "HTTPS://127.0.0.1/", "https://127.0.0.1\\@93.184.215.14/", "https://a b/", "https://93.184.215.14/\nx", "",
    "slack", "slack://", "https://" + "a" * 3000, "https://93.184.215.14/ https://127.0.0.1/", "https://fe80::1%25eth0/",
    "https://\uff11\uff12\uff17.0.0.1/", "mailtos://u:p@127.0.0.1?to=a@b.example", "sync://x", "o365://x", "aprs://x:y@z",
    "https://100.64.0.1/", "https://192.0.2.1/", "https://[64:ff9b::7f00:1]/", "https://[fd00::1]/",
]  # fmt: skip


@pytest.mark.parametrize("address", [*HOSTILE, *(made_up(each) for row in ROWS for each in row["refused"])])
def test_what_could_reach_inside_is_refused_without_repeating_it(address: str) -> None:
    said = wrong_with(address, ())
    assert said, address
    assert X not in said
    rest = address.partition("://")[2]
    assert len(rest) < 4 or rest not in said


def test_hosts_that_are_named_may_be_reached_without_tls() -> None:
    assert wrong_with("http://127.0.0.1:9/hook", ["127.0.0.1"]) == ""
    assert wrong_with("gotify://push.internal/AbCdEfGhIjKlMnO", ["push.internal"]) == ""
    assert wrong_with("http://127.0.0.1:9/hook", ["push.internal"]) != ""
    assert wrong_with("json://push.internal/", ["push.internal"]) != ""
    assert wrong_with("slack://push.internal/x?template=/etc/passwd", ["push.internal"]) != ""


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("pagerduty://X", {"pagerduty": X}),
        ("pagerduty://X/?region=eu", {"pagerduty": X, "api_url": "https://events.eu.pagerduty.com"}),
        ("pagerduty://route@X", {"apprise": [f"pagerduty://route@{X}"]}),
        ("opsgenie://X?region=eu", {"opsgenie": X, "api_url": "https://api.eu.opsgenie.com"}),
        ("opsgenie://X/#team", {"apprise": [f"opsgenie://{X}/#team"]}),
        ("alertmanagers://h.example:9093/am", {"alertmanager": "https://h.example:9093/am"}),
        ("alertmanager://127.0.0.1:9093", {"alertmanager": "http://127.0.0.1:9093"}),
        ("https://h.example/hook", {"webhook": "https://h.example/hook"}),
    ],
)
def test_an_address_is_the_receiver_that_the_rule_file_gets(address: str, said: dict[str, Any]) -> None:
    assert receiver_of(made_up(address)) == said


def test_every_kind_has_an_example_of_its_own_scheme() -> None:
    assert all(kind.example.startswith(f"{name}://") and kind.service for name, kind in kinds().items())
