"""Every address with every kind of token: generated from the description, so that a new address is tried too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from collector.access.file import TokenFile
from collector.receive.http import OTHERS
from tests.conftest import RunningCollector

OPEN = ("/healthz", "/readyz", "/openapi.json")
# What is not described: protocols with documents of their own.
UNDESCRIBED = [("post", path) for path in ("/", "/v1/logs", "/v1/traces", "/v1/metrics", "/mcp", *OTHERS)]
TRIALS = ("/api/v1/rules/check", "/api/v1/rules/backtest", "/api/v1/rules/suggest", "/api/v1/receivers/{name}/test")
ADMINS = ("tokens", "audit", "backup", "forget", "sanitise")
RIGHTS = ("ingest", "read", "alerts", "admin")


def needed(method: str, path: str) -> str:
    """The right that an address needs; whatever nobody thought of is read with `read` and changed by admins."""
    if path in OPEN:
        return ""
    if path == "/" or path.startswith("/v1/") or path in OTHERS:
        return "ingest"
    first = path.removeprefix("/api/v1/").partition("/")[0]
    if first in ADMINS or path.endswith("/excerpt"):  # which reads a file of this machine
        return "admin"
    if first in ("rules", "receivers") and method != "get" and path not in TRIALS:
        return "alerts"
    return "read"


class Guarded:
    """A collector with a token of each right, one that is revoked, and one of a project with all rights."""

    def __init__(self, running: RunningCollector) -> None:
        self.running = running
        file = TokenFile(Path(f"{running.store}.tokens"))
        self.tokens = {right: file.create(right, [right])[1] for right in RIGHTS}
        self.tokens["revoked"] = file.create("revoked", RIGHTS)[1]
        file.revoke("revoked")
        self.tokens["project"] = file.create("project", RIGHTS, "shop")[1]
        self.tokens["wrong"] = self.tokens["read"][:-1] + "_"
        self.client = httpx.Client(base_url=running.url, timeout=30)
        described = self.client.get("/openapi.json").json()["paths"]
        self.operations = [(method, path) for path, methods in described.items() for method in methods]
        running.restart()  # reads the file now

    def status(self, method: str, path: str, kind: str) -> int:
        headers = {"authorization": f"Bearer {self.tokens[kind]}"} if kind else {}
        place = re.sub(r"{\w+}", "x", path)
        answer = self.client.request(method, place, headers=headers, params={"limit": "1"} if method == "get" else {})
        for token in self.tokens.values():
            assert token[8:] not in answer.text
        return answer.status_code


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    running = RunningCollector(tmp_path_factory.mktemp("guarded")).start()
    made = Guarded(running)
    yield made
    made.client.close()
    running.stop()


def test_every_address_asks_for_its_right(guarded: Guarded) -> None:
    operations = [*guarded.operations, *UNDESCRIBED]
    assert len(operations) > 60
    wrong: list[Any] = []
    for method, path in operations:
        right = needed(method, path)
        for kind in ("", "wrong", "revoked", *RIGHTS):
            found = guarded.status(method, path, kind)
            allowed = not right or kind == right
            expected = found not in (401, 403, 500) if allowed else found == (403 if kind else 401)
            if not expected:
                wrong.append((method, path, right, kind, found))
    assert not wrong
    assert "Traceback" not in guarded.running.logged()
    for token in guarded.tokens.values():
        assert token[8:] not in guarded.running.logged()


def test_what_concerns_all_projects_is_not_for_a_token_of_one(guarded: Guarded) -> None:
    whole = [
        (method, path)
        for method, path in guarded.operations
        if needed(method, path) == "alerts" or path.startswith(("/api/v1/backup", "/api/v1/forget", "/api/v1/sanitise"))
    ]
    whole.append(("get", "/metrics"))  # which needs a token as soon as there are projects
    assert len(whole) > 8
    assert {guarded.status(method, path, "project") for method, path in whole} == {403}
    rows = guarded.client.get(
        "/api/v1/tokens", headers={"authorization": f"Bearer {guarded.tokens['project']}"}
    ).json()["rows"]
    assert [row["name"] for row in rows] == ["project"]


def test_an_admin_of_a_project_makes_and_revokes_tokens_of_it_alone(guarded: Guarded) -> None:
    mine = {"authorization": f"Bearer {guarded.tokens['project']}"}
    made = guarded.client.post("/api/v1/tokens", json={"name": "new", "rights": ["ingest"]}, headers=mine)
    assert (made.status_code, made.json()["project"]) == (201, "shop")
    assert made.headers["cache-control"] == "no-store"
    refused = guarded.client.post(
        "/api/v1/tokens", json={"name": "more", "rights": ["ingest"], "project": "other"}, headers=mine
    )
    assert refused.status_code == 403
    assert guarded.client.delete("/api/v1/tokens/admin", headers=mine).status_code == 404
    sent = {"authorization": f"Bearer {made.json()['token']}", "content-type": "application/json"}
    assert guarded.client.post("/v1/logs", content="{}", headers=sent).status_code == 200
    assert guarded.client.delete("/api/v1/tokens/new", headers=mine).status_code == 200
    assert guarded.client.post("/v1/logs", content="{}", headers=sent).status_code == 403
    seen = guarded.client.get("/api/v1/audit", headers=mine).json()["rows"]
    assert [(row["who"], row["action"], row["project"]) for row in seen[:2]] == [
        ("project", "remove", "shop"), ("project", "add", "shop"),
    ]  # fmt: skip
    assert {row["project"] for row in seen} == {"shop"}


def test_what_was_read_and_changed_is_in_the_log(guarded: Guarded) -> None:
    reader = {"authorization": f"Bearer {guarded.tokens['read']}"}
    for _ in range(3):
        guarded.client.get("/api/v1/events", params={"tool": "x", "limit": "7"}, headers=reader)
    guarded.client.get("/api/v1/breakdown", params={"by": "tool"}, headers=reader)
    secret = "ghp_" + "a1B2c3D4e5" * 4
    guarded.client.post("/api/v1/sql", json={"sql": f"select '{secret}'"}, headers=reader)
    guarded.client.post("/api/v1/views", json={"name": "mine", "page": "errors", "query": ""}, headers=reader)
    guarded.client.post("/api/v1/views", json={"name": "", "page": "errors"}, headers=reader)  # refused
    admin = {"authorization": f"Bearer {guarded.tokens['admin']}"}
    rows = guarded.client.get("/api/v1/audit", params={"who": "read"}, headers=admin).json()["rows"]
    told = [(row["action"], row["what"], row["detail"]) for row in rows]
    assert told[0] == ("add", "POST /api/v1/views", "mine")
    assert told[1][:2] == ("sql", "POST /api/v1/sql")
    assert secret not in str(rows)
    assert "[redacted:" in told[1][2]
    assert told.count(("read", "GET /api/v1/events", "tool=x")) == 1, "read again in the same minute"
    assert not any("breakdown" in what for _, what, _ in told)
