"""People: what their groups allow, and that a token which asks for a person never does more than it may itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collector.access.file import TokenFile
from collector.access.person import narrowed
from collector.access.rights import ADMIN, ALERTS, INGEST, MAINTAIN, READ, Access
from collector.errors import Rejected
from dashboard import launch
from dashboard.access import grants
from dashboard.access.people import Person
from tests.conftest import HTTP, RunningCollector
from tests.test_up import OWN, SHARED

SHOP = {"project": "shop", "rights": ["read"]}
PLATFORM = {"rights": ["read", "alerts", "admin"]}
ROWS = {"team-shop": SHOP, "shop-leads": {"project": "shop", "rights": ["read", "alerts"]}, "platform": PLATFORM,
        "/web": {"project": "web", "rights": ["read"]}, "wrong": {"project": "x/y", "rights": ["read"]},
        "blind": {"project": "shop", "rights": ["alerts"]}}  # fmt: skip


@pytest.mark.parametrize(
    ("claims", "claim", "allowed"),
    [
        ({"groups": ["team-shop"]}, "", {"shop": ("read",)}),
        ({"groups": "team-shop"}, "", {"shop": ("read",)}),
        ({"groups": ["team-shop", "shop-leads"]}, "", {"shop": ("read", "alerts")}),
        ({"groups": ["/web", "platform"]}, "", {"": ("read", "alerts", "admin"), "web": ("read",)}),
        ({"realm_access": {"roles": ["/web"]}}, "realm_access.roles", {"web": ("read",)}),
        ({"https://acme.example/groups": ["/web"]}, "https://acme.example/groups", {"web": ("read",)}),
        ({"groups": ["TEAM-SHOP", "team-shop ", "others", "wrong", "blind"]}, "", {}),
        ({"groups": [None, 7, ["team-shop"], {"a": 1}]}, "", {}),
        ({"groups": {"team-shop": True}}, "", {}),
        ({"groups": None}, "", {}),
        ({}, "", {}),
        ({"realm_access": "roles"}, "realm_access.roles", {}),
    ],
)
def test_groups_become_projects_and_rights(claims: Any, claim: str, allowed: dict[str, tuple[str, ...]]) -> None:
    found = grants.of_person(claims, {"groups": ROWS, "groups_claim": claim})
    assert found == allowed
    assert list(found) == sorted(allowed)


@pytest.mark.parametrize("section", [{"groups": "team-shop"}, {"groups": {"team-shop": "read"}}, {"groups": {}}])
def test_what_is_written_wrong_gives_nothing(section: Any) -> None:
    assert grants.of_person({"groups": ["team-shop"]}, section) == {}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("x = 1", "x is nothing that a group has"),
        ('project = "a/b"\nrights = ["read"]', "project is no name"),
        ('rights = "read"', "rights is no list"),
        ('rights = ["read", "ingest"]', "rights is no list of some of read, alerts, admin"),
        ('project = "shop"', "rights is no list"),
        ('rights = ["alerts"]', "rights lack read"),
    ],
)
def test_a_mistake_in_a_group_is_told_at_the_start(tmp_path: Path, row: str, said: str) -> None:
    (tmp_path / ".streamlit").mkdir()
    secrets = tmp_path / ".streamlit/secrets.toml"
    secrets.write_text(f"{SHARED}{OWN}[misstep.groups.team]\n{row}\n")
    with pytest.raises(OSError, match=r"\[misstep.groups.team\]") as refused:
        launch.sign_in_works([str(tmp_path)])
    assert said in str(refused.value)
    secrets.write_text(f'{SHARED}{OWN}[misstep.groups."/team"]\nrights = ["read"]\n')
    assert launch.sign_in_works([str(tmp_path)])


ALL = Access("dash", frozenset((READ, ALERTS, ADMIN, MAINTAIN)))
ONE = Access("dash", frozenset((READ,)), "shop")


@pytest.mark.parametrize(
    ("access", "person", "expected"),
    [
        (ALL, Person(), ALL),
        (ALL, Person("ann"), Access("ann", ALL.rights, None, "dash")),
        (ALL, Person("ann", "shop", ("read",)), Access("ann", frozenset((READ,)), "shop", "dash")),
        (ALL, Person("Zoë Ö", "", ("read", "admin")), Access("Zoë Ö", ALL.rights - {ALERTS}, None, "dash")),
        (ONE, Person("ann", "shop", ("read", "alerts", "admin")), Access("ann", ONE.rights, "shop", "dash")),
        (ONE, Person("ann"), Access("ann", ONE.rights, "shop", "dash")),
        (ONE, Person("ann", "web"), 403),
        (ALL, Person("ann", "shop", ("alerts",)), 403),
        (ALL, Person("ann", "shop", ()), 403),
        (ALL, Person("ann\n"), 400),
        (ALL, Person("a" * 201), 400),
        (ALL, Person("ann", "a b"), 400),
    ],
)
def test_a_token_that_asks_for_a_person_does_no_more(access: Access, person: Person, expected: Access | int) -> None:
    headers = {name.lower(): value for name, value in person.headers().items()}
    if isinstance(expected, Access):
        assert narrowed(access, headers, READ) == expected
        return
    with pytest.raises(Rejected) as refused:
        narrowed(access, headers, READ)
    assert refused.value.status == expected


def test_what_is_sent_is_of_the_tokens_project_whatever_the_headers_say() -> None:
    access = Access("agents", frozenset((INGEST, READ)))
    headers = {name.lower(): value for name, value in Person("ann", "shop", ("read",)).headers().items()}
    assert narrowed(access, headers, INGEST) == access
    assert narrowed(access, headers, READ).project == "shop"


def test_whoever_acts_through_the_dashboard_is_known_by_name(start_collector: Callable[..., RunningCollector]) -> None:
    running = start_collector(ADMIN_TOKENS="root")
    file = TokenFile(Path(f"{running.store}.tokens"))
    text = file.create("dash", [READ, ALERTS])[1]
    running.restart()
    token = {"authorization": f"Bearer {text}"}
    ann = {**token, **Person("ann@example.org", "shop", ("read",)).headers()}
    silence = {"labels": {"severity": "warning"}, "duration": "1h", "author": "bob", "reason": "known"}
    made = HTTP.post(f"{running.url}/api/v1/silences", json=silence, headers=ann)
    assert (made.status_code, made.json()["author"]) == (201, "ann@example.org")
    rule = HTTP.delete(f"{running.url}/api/v1/rules/x", headers=ann)
    assert (rule.status_code, "lacks the right 'alerts'" in rule.text) == (403, True)
    twice = HTTP.get(f"{running.url}/api/v1/events", headers=[*ann.items(), ("x-misstep-project", "web")])
    assert twice.status_code == 400
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "overview", "arguments": {}}}
    kinds = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    asked = HTTP.post(f"{running.url}/mcp", content=json.dumps(call), headers={**ann, **kinds})
    assert asked.status_code == 200
    HTTP.get(f"{running.url}/api/v1/events", headers=ann)
    rows = HTTP.get(f"{running.url}/api/v1/audit", headers={"authorization": "Bearer root"}).json()["rows"]
    told = {(row["who"], row["via"], row["project"], row["action"]) for row in rows}
    assert told == {("ann@example.org", "dash", "shop", "add"), ("ann@example.org", "dash", "shop", "read")}


@pytest.mark.parametrize("name", ["ann@example.org", " Ann Lee ", "Åsa\tLind", "a,b"])
def test_a_name_arrives_as_it_is_or_is_refused(name: str) -> None:
    headers = Person(name, "shop", ("read",)).headers()
    assert not any(word.isspace() for word in headers["X-Misstep-Person"]), "a header loses spaces at its ends"
    sent = {key.lower(): word for key, word in headers.items()}
    if not name.isprintable():
        with pytest.raises(Rejected, match="is no name"):
            narrowed(Access("dashboard", frozenset((READ,))), sent, READ)
        return
    assert narrowed(Access("dashboard", frozenset((READ,))), sent, READ).name == name
