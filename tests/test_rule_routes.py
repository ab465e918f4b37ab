"""Changing rules and receivers through the API, on the real routes with a real engine and a real file."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from litestar import Litestar
from litestar.datastructures import State
from litestar.testing import TestClient

from collector.alerts.engine import Engine
from collector.alerts.rulebook import RuleBook
from collector.api.alert_routes import ALERT_ROUTES
from collector.api.guard import guard
from collector.api.refusals import exception_handlers
from collector.api.rule_routes import RULE_ROUTES
from collector.engine.duckdb.store import Store
from collector.measures.all import measure_all
from collector.setting_values import Address
from collector.settings import Settings
from tests.api import tokens
from tests.recorded import NOW, failed, holding

YAML = {"Content-Type": "application/yaml"}
MINE = "rules:\n  # of mine\n  - name: mine  # one\n    measure: errors\n    condition: '> 9'  # nine\n"
RULE = {"name": "group-fails", "measure": "errors", "where": {"service": "api"}, "condition": "> 1"}
TOKEN = "xoxb" + "9f3a77c2d0" * 3
SLACK = f"slack://T1JJ3T3L2/A1BRTD4JD/{TOKEN[:24]}/#agents"


@pytest.fixture
def store() -> Iterator[Store]:
    opened = Store.open("duckdb://:memory:")
    holding(opened, [failed(number) for number in (1, 2, 3, 4)])
    yield opened
    opened.close()


class Served:
    """The routes over a rule file that is there or not."""

    def __init__(self, store: Store, path: Path, **settings: Any) -> None:
        self.path = path
        self.reading = {"authorization": f"Bearer {''.join(settings.get('query_tokens', ()))}"}
        self.engine = Engine(store, RuleBook(path), measure_all, lambda _: None, scrub=str, clock=lambda: NOW)
        about = {
            "alerts": self.engine, "scrub": str, "settings": Settings(**settings),
            "tokens": tokens(Settings(**settings)),
            "allowed_hosts": frozenset({"testserver.local"}),
        }  # fmt: skip
        routes = [*ALERT_ROUTES, *RULE_ROUTES]
        self.client = TestClient(
            Litestar(routes, guards=[guard], state=State(about), exception_handlers=exception_handlers())
        )

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """An answer; what changes something names the file's revision, unless `if_match` is given."""
        wanted = {name.replace("_", "-"): value for name, value in headers.items()}
        if method != "GET" and "if-match" not in wanted:
            wanted["if-match"] = self.client.get("/api/v1/receivers", headers=self.reading).headers["etag"]
        sent = {"content": body} if isinstance(body, str) else {} if body is None else {"json": body}
        typed = YAML if isinstance(body, str) else {}
        return self.client.request(method, f"/api/v1{path}", headers={**typed, **wanted}, **sent)

    def names(self) -> list[str]:
        return [row["name"] for row in self.client.get("/api/v1/rules").json()["rows"]]


@pytest.fixture
def served(store: Store, tmp_path: Path) -> Served:
    path = tmp_path / "alerts.yaml"
    path.write_text(MINE)
    return Served(store, path)


def test_a_rule_is_added_changed_and_removed_and_is_in_force_at_once(served: Served) -> None:
    added = served.ask("POST", "/rules", RULE)
    assert added.status_code == 201, added.text
    assert (added.json()["rule"], added.json()["own"]) == (RULE, True)
    assert added.headers["etag"] == f'"{added.json()["revision"]}"'
    new = "  - name: group-fails\n    measure: errors\n    where: {service: api}\n    condition: '> 1'\n"
    assert served.path.read_text() == MINE + new
    assert served.names() == ["mine", "group-fails"]
    [alert] = served.client.get("/api/v1/alerts").json()["rows"]
    assert (alert["rule"], alert["state"], alert["value"]) == ("group-fails", "firing", 4)

    revision = added.headers["etag"]
    changed = served.ask("PUT", "/rules/mine", MINE.partition("- ")[2].replace("\n    ", "\n").replace("> 9", "> 8"),
                         if_match=revision)  # fmt: skip
    assert changed.status_code == 200, changed.text
    assert served.path.read_text() == MINE.replace("> 9", "> 8") + new
    assert changed.headers["etag"] != revision

    told = served.ask("GET", "/rules/mine").json()
    assert told["rule"] == {"name": "mine", "measure": "errors", "condition": "> 8"}
    assert told["text"] == "name: mine  # one\nmeasure: errors\ncondition: '> 8'"

    assert served.ask("DELETE", "/rules/group-fails").status_code == 200
    assert served.path.read_text() == MINE.replace("> 9", "> 8")
    assert served.names() == ["mine"]


def test_the_first_rule_of_a_collector_without_a_file_keeps_the_default_ones(store: Store, tmp_path: Path) -> None:
    served = Served(store, tmp_path / "new" / "alerts.yaml")
    default = served.names()
    told = served.ask("GET", "/rules/tool-broken").json()
    assert (told["own"], told["rule"]["name"]) == (False, "tool-broken")
    assert served.ask("POST", "/rules", RULE).status_code == 201
    assert served.names() == [*default, "group-fails"]
    assert served.path.stat().st_mode & 0o777 == 0o600
    changed = served.ask("PUT", "/rules/tool-broken", {**told["rule"], "severity": "info"})
    assert changed.json()["rule"]["severity"] == "info"


def test_what_is_wrong_is_named_with_file_field_and_remedy_and_nothing_is_written(served: Served) -> None:
    cases: list[tuple[str, str, Any, int, str]] = [
        ("POST", "/rules", {**RULE, "measure": "errs"}, 400, "alerts.yaml:7: rule 'group-fails', field 'measure'"),
        ("POST", "/rules", {**RULE, "measure": "errs"}, 400, "did you mean 'errors'?"),
        ("POST", "/rules", {**RULE, "notify": ["nobody"]}, 400, "is no receiver of this file"),
        ("POST", "/rules", {**RULE, "name": "mine"}, 400, "is the name of an earlier rule"),
        ("POST", "/rules", {**RULE, "name": "No: good\n"}, 400, "use small letters"),
        ("POST", "/rules", {**RULE, "where": {"fingerprint": 1.5}}, 400, "field 'where.fingerprint'"),
        ("POST", "/rules", {**RULE, "condition": "> 1e400"}, 400, "write a comparison"),
        ("POST", "/rules", [RULE], 400, "send one rule"),
        ("POST", "/rules", {"rules": [RULE]}, 400, "send one rule"),
        ("POST", "/rules", "name: !!python/object:os.system x", 400, "which rules do not use"),
        ("POST", "/rules", "a: &a [x]\nb: [" + "*a," * 30_000 + "]", 400, "the rule cannot be read"),
        ("POST", "/rules", "[" * 5_000, 400, "the rule cannot be read"),
        ("POST", "/rules", "name: a\x00b", 400, "the rule cannot be read"),
        ("POST", "/rules?x=1", RULE, 400, "there is no parameter 'x' here"),
        ("PUT", "/rules/mine", {**RULE}, 400, "a rule keeps its name: write name: mine"),
        ("PUT", "/rules/other", {**RULE, "name": "other"}, 404, "there is no rule 'other'; there are: mine"),
        ("DELETE", "/rules/other", None, 404, "there is no rule 'other'"),
        ("DELETE", "/receivers/other", None, 404, "has no receiver 'other'"),
        ("POST", "/receivers", {"name": "a/b", "address": SLACK}, 400, "name"),
        ("POST", "/receivers", {"name": "a", "address": SLACK, "x": 1}, 400, "unknown field"),
        ("POST", "/receivers", {"name": "a", "address": "json://127.0.0.1"}, 400, "address of 'a' has a scheme"),
    ]
    for method, path, body, status, said in cases:
        answer = served.ask(method, path, body)
        assert (answer.status_code, said in answer.json()["error"]["message"]) == (status, True), (body, answer.text)
    named = served.ask("POST", "/rules", {**RULE, "by": ["tol"], "window": "soon"}).json()["error"]
    assert [(one["field"], one["rule"]) for one in named["mistakes"]] == [
        ("by.1", "rule 'group-fails'"), ("window", "rule 'group-fails'"),
    ]  # fmt: skip
    assert served.path.read_text() == MINE


def test_a_change_of_what_has_changed_meanwhile_is_refused(served: Served) -> None:
    seen = served.ask("GET", "/rules/mine").headers["etag"]
    served.path.write_text(MINE + "# by hand\n")
    for method, path, body in (
        ("POST", "/rules", RULE),
        ("PUT", "/rules/mine", {"name": "mine", "measure": "calls", "condition": "> 1"}),
        ("DELETE", "/rules/mine", None),
        ("POST", "/receivers", {"name": "team", "address": SLACK}),
    ):
        refused = served.ask(method, path, body, if_match=seen)
        assert (refused.status_code, "read it again" in refused.text) == (412, True)
        assert served.ask(method, path, body, if_match="").status_code == 428
    assert served.path.read_text() == MINE + "# by hand\n"


def test_of_changes_at_the_same_time_one_wins(served: Served) -> None:
    seen = served.ask("GET", "/rules/mine").headers["etag"]
    answers: list[int] = []

    def add(number: int) -> None:
        answers.append(served.ask("POST", "/rules", {**RULE, "name": f"r{number}"}, if_match=seen).status_code)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [201, 412, 412, 412, 412, 412]
    assert len(served.names()) == 2
    assert sorted(path.name for path in served.path.parent.iterdir()) == ["alerts.yaml"]


def test_a_file_that_is_read_only_broken_or_gone_is_left_as_it_is(served: Served) -> None:
    served.path.chmod(0o444)
    refused = served.ask("POST", "/rules", RULE)
    assert (refused.status_code, "is read-only: allow the collector to write it" in refused.text) == (409, True)
    served.path.chmod(0o640)
    broken = MINE.replace("measure", "mesure")
    served.path.write_text(broken)
    refused = served.ask("POST", "/rules", RULE)
    assert (
        refused.status_code,
        "mend these first: alerts.yaml:3: rule 'mine', field 'measure': is missing" in refused.text,
    ) == (409, True)
    assert served.ask("GET", "/rules/mine").status_code == 409
    assert served.path.read_text() == broken
    served.path.write_text(MINE)
    assert served.ask("POST", "/rules", RULE).status_code == 201
    assert served.path.stat().st_mode & 0o777 == 0o640
    served.path.unlink()
    refused = served.ask("POST", "/rules", {**RULE, "name": "another"})
    assert (refused.status_code, "bring it back" in refused.text, served.path.exists()) == (409, True, False)


def test_receivers_are_added_and_removed_and_their_addresses_stay_secret(
    served: Served, capfd: pytest.CaptureFixture[str]
) -> None:
    added = served.ask("POST", "/receivers", {"name": "team", "address": SLACK})
    assert (added.status_code, added.json()["name"]) == (201, "team")
    assert served.path.read_text() == MINE + f"\nreceivers:\n  team: {{apprise: ['{SLACK}']}}\n"
    again = served.ask("POST", "/receivers", {"name": "team", "address": SLACK})
    assert (again.status_code, "there is a receiver 'team' already" in again.text) == (400, True)
    hook = served.ask("POST", "/receivers", {"name": "hook", "address": f"https://93.184.215.14/{TOKEN}"})
    assert served.path.read_text().endswith(f"  hook: {{webhook: 'https://93.184.215.14/{TOKEN}'}}\n")
    told = served.ask("GET", "/receivers")
    assert [row["name"] for row in told.json()["rows"]] == ["team", "hook"]
    assert {"slack", "https"} <= {kind["scheme"] for kind in told.json()["kinds"]}
    assert served.ask("POST", "/rules", {**RULE, "condition": "> 99", "notify": ["hook"]}).status_code == 201
    kept = served.ask("DELETE", "/receivers/hook")
    assert (kept.status_code, "is no receiver of this file" in kept.text) == (400, True)
    gone = served.ask("DELETE", "/receivers/team")
    assert gone.status_code == 200
    wrong = served.ask("POST", "/receivers", {"name": "x", "address": f"https://127.0.0.1/{TOKEN}"})
    assert (wrong.status_code, "MISSTEP_RECEIVER_HOSTS" in wrong.text) == (400, True)
    places = ("alerts", "rules", "receivers", "rules/group-fails")
    said = [served.client.get(f"/api/v1/{place}").text for place in places]
    for text in (*said, added.text, again.text, hook.text, kept.text, gone.text, wrong.text, *capfd.readouterr()):
        assert TOKEN[4:20] not in text


@pytest.mark.parametrize(
    ("settings", "sent", "status"),
    [
        ({}, "", 201),
        ({"query_tokens": ("ask",)}, "ask", 403),
        ({"query_tokens": ("ask",), "alerts_tokens": ("change",)}, "ask", 403),
        ({"query_tokens": ("ask",), "alerts_tokens": ("change",)}, "", 401),
        ({"query_tokens": ("ask",), "alerts_tokens": ("change",)}, "change", 201),
        ({"http": Address("0.0.0.0", 1), "open": True}, "", 403),
        ({"http": Address("0.0.0.0", 1), "open": True, "alerts_tokens": ("change",)}, "change", 201),
    ],
)
def test_who_may_change_rules(store: Store, tmp_path: Path, settings: Any, sent: str, status: int) -> None:
    path = tmp_path / "alerts.yaml"
    path.write_text(MINE)
    served = Served(store, path, **settings)
    headers = {"authorization": f"Bearer {sent}"} if sent else {}
    quiet = {**RULE, "notify": []}
    for place, body in (("/rules", quiet), ("/receivers", {"name": "team", "address": SLACK})):
        answer = served.ask("POST", place, body, **headers)
        assert answer.status_code == status, answer.text
    if status == 403:
        assert "MISSTEP_ALERTS_TOKENS" in answer.text or "not valid here" in answer.text
        assert served.ask("DELETE", "/rules/tool-broken", **headers).status_code == 403
        assert served.ask("PUT", "/rules/tool-broken", RULE, **headers).status_code == 403
        assert served.ask("DELETE", "/receivers/team", **headers).status_code == 403


def test_a_page_of_another_site_cannot_change_rules(served: Served) -> None:
    foreign = served.ask("POST", "/rules", RULE, origin="https://evil.example")
    assert foreign.status_code == 403
    rebound = served.ask("POST", "/rules", RULE, host="evil.example")
    assert rebound.status_code == 403
    plain = served.client.post("/api/v1/rules", content=json.dumps(RULE), headers={"content-type": "text/plain"})
    assert plain.status_code == 415
    assert served.path.read_text() == MINE
