"""Requests generated from `/openapi.json`: the description is true, and no request causes a server error."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, status_code_conformance

from collector.api.describe import ANSWERS, TAKEN_AS_IS
from collector.api.endpoints import ENDPOINTS
from collector.api.meanings import MEANINGS, listed, row_of
from collector.engine.duckdb.store import Store
from tests.api import application, events
from tests.conftest import HTTP, RunningCollector
from tests.recorded import holding

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance]
MADE_UP = settings(
    deadline=None,
    database=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.process  # statements of the SQL door have one each
@pytest.mark.parametrize("examples", [4, pytest.param(40, marks=pytest.mark.deep)])
def test_what_is_described_is_what_is_answered(examples: int) -> None:
    store = Store.open("duckdb://:memory:")
    holding(store, events())
    schema = schemathesis.openapi.from_asgi("/openapi.json", application(store))
    answered: dict[str, set[int]] = {}
    for found in schema.get_all_operations():
        operation: Any = found.ok()  # type: ignore[union-attr]

        @settings(MADE_UP, max_examples=examples)
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            answer = case.call_and_validate(checks=CHECKS)
            answered.setdefault(f"{case.method} {case.path}", set()).add(answer.status_code)

        ask()
    store.close()
    assert len(answered) == len(ENDPOINTS) + 4  # plus the three that take a body, and the classes
    assert {200, 400} <= set().union(*answered.values())


def test_every_answer_has_an_example_that_looks_like_it(shared: RunningCollector) -> None:
    described = HTTP.get(f"{shared.url}/openapi.json").json()["paths"]
    for path, methods in described.items():
        for method, operation in methods.items():
            found = {
                media_type: content
                for status, answer in operation["responses"].items()
                for media_type, content in answer.get("content", {}).items()
                if status.startswith("2")
            }
            for media_type in found.keys() & {"application/json", "text/plain"}:
                assert found[media_type].get("examples"), f"{method} {path}"
            for content in operation.get("requestBody", {}).get("content", {}).values():
                assert content.get("examples"), f"body of {method} {path}"
    for name, example in ANSWERS.items():
        method, _, path = name.rpartition(" ")
        if method == "get" and "{" not in path and isinstance(example, dict):
            answer = HTTP.get(shared.url + path, params={"history": "true"} if path.endswith("alerts") else {})
            assert set(answer.json()) == set(example), name
    taken = shared.post("/v1/events", json.dumps(TAKEN_AS_IS["post /v1/events"]))
    assert set(taken.json()) == set(ANSWERS["post /v1/events"])


def test_the_example_of_every_parameter_can_be_asked(shared: RunningCollector) -> None:
    described = HTTP.get(f"{shared.url}/openapi.json").json()["paths"]
    together = {"dimension", "a", "b"}  # of a comparison
    asked = 0
    for path, methods in described.items():
        if not path.startswith("/api/v1/") or "{" in path or "get" not in methods:
            continue
        shown = {
            one["name"]: one["examples"]["example"]["value"]
            for one in methods["get"].get("parameters", [])
            if "examples" in one
        }
        needed = {one["name"] for one in methods["get"].get("parameters", []) if one["required"]}
        needed |= {"command"} if path == "/api/v1/check" else set()
        alone = [{name} | needed for name in shown.keys() - together]
        for names in filter(None, [*alone, together & shown.keys()]):
            said = HTTP.get(shared.url + path, params={name: shown[name] for name in names})
            assert said.status_code == 200, (path, names, said.text)
            asked += 1
    assert asked > 50


def test_every_example_of_a_parameter_has_its_type(shared: RunningCollector) -> None:
    described = HTTP.get(f"{shared.url}/openapi.json").json()["paths"]
    operations = [about for methods in described.values() for about in methods.values()]
    checked = 0
    for one in (one for about in operations for one in about.get("parameters", [])):
        for example in one.get("examples", {}).values():
            jsonschema.validate(example["value"], one["schema"])
            checked += 1
    assert checked > 100


REFUSED: list[tuple[str, str, dict[str, Any], int]] = [
    ("post", "/silences", {"content": b"{}"}, 415),
    ("post", "/silences", {"json": {"rule": "nosuch"}}, 400),
    ("delete", "/silences/nosuch", {}, 404),
    ("post", "/rules/backtest?x=1", {"content": b"rules: 1", "headers": {"content-type": "application/yaml"}}, 400),
    ("post", "/rules/suggest?x=1", {"content": b"rules: 1", "headers": {"content-type": "application/yaml"}}, 400),
    ("get", "/rules/nosuch", {}, 404),
    ("post", "/rules", {"content": b"{}"}, 415),
    ("post", "/rules", {"json": {"name": "a", "measure": "errors", "condition": "> 1"}}, 428),
    ("put", "/rules/a", {"json": {"name": "a"}, "headers": {"if-match": '"old"'}}, 412),
    ("delete", "/rules/a", {}, 428),
    ("post", "/receivers", {"json": {"name": "a", "address": "file:///etc/passwd"}}, 400),
    ("delete", "/receivers/a", {"headers": {"if-match": '"old"'}}, 412),
    ("post", "/receivers/nosuch/test", {"json": {}}, 404),
    ("post", "/receivers/nosuch/test", {}, 415),
    ("post", "/sanitise", {}, 415),
    ("post", "/sanitise?x=1", {"json": {}}, 400),
    ("post", "/backup", {}, 415),
    ("get", "/backup/file", {}, 409),
    ("get", "/sessions/nosuch?cursor=1763761311123456789.3.42", {}, 200),
    ("get", "/sessions/nosuch?cursor=x", {}, 400),
]


def test_that_a_parameter_is_unknown_is_described_everywhere(shared: RunningCollector) -> None:
    described = HTTP.get(f"{shared.url}/openapi.json").json()["paths"]
    asked = 0
    for path, methods in described.items():
        for method, about in methods.items() if path.startswith("/api/v1/") else ():
            whole = re.sub(r"\{\w+\}", "1", path.replace("{dimension}", "tool"))
            body: dict[str, Any] | None = {} if method in ("post", "patch") else None
            said = HTTP.request(method, f"{shared.url}{whole}?nosuch=1", json=body)
            assert said.status_code in (400, 404, 415), (method, path, said.text)
            assert {str(said.status_code), "401", "403"} <= about["responses"].keys(), (method, path, said.text)
            asked += 1
    assert asked > 30


def test_refusals_are_described(shared: RunningCollector) -> None:
    described = HTTP.get(f"{shared.url}/openapi.json").json()["paths"]
    patterns = {re.compile(re.sub(r"\{\w+\}", "[^/]+", path)): about for path, about in described.items()}
    for method, path, asked, status in REFUSED:
        said = HTTP.request(method, f"{shared.url}/api/v1{path}", **asked)
        assert said.status_code == status, (method, path, said.text)
        whole = f"/api/v1{path.partition('?')[0]}"
        [about] = [described[whole]] if whole in described else [
            about for pattern, about in patterns.items() if pattern.fullmatch(whole)
        ]  # fmt: skip
        answer = about[method]["responses"][str(status)]["content"]["application/json"]
        jsonschema.validate(said.json(), answer["schema"])


def test_an_accepted_event_is_answered_as_described(shared: RunningCollector) -> None:
    described = HTTP.get(f"{shared.url}/openapi.json").json()["paths"]["/v1/events"]["post"]
    answer = described["responses"]["200"]["content"]["application/json"]
    jsonschema.validate(answer["examples"]["example"]["value"], answer["schema"])
    said = shared.post("/v1/events", json.dumps(TAKEN_AS_IS["post /v1/events"]))
    jsonschema.validate(said.json(), answer["schema"])


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "backup"), ("POST", "backup"), ("GET", "sanitise"), ("POST", "sanitise"), ("POST", "silences")],
)
def test_an_address_without_parameters_takes_none(shared: RunningCollector, method: str, path: str) -> None:
    said = HTTP.request(method, f"{shared.url}/api/v1/{path}?nosuch=1", json={} if method == "POST" else None)
    assert said.status_code == 400
    assert "there is no parameter 'nosuch' here" in said.text


def test_every_column_of_an_answer_has_a_meaning_and_no_other(shared: RunningCollector) -> None:
    described = HTTP.get(f"{shared.url}/openapi.json").json()["paths"]
    explained: set[str] = set()
    for path, methods in described.items():
        for method, about in methods.items():
            name = f"{method} {path}"
            explained.add(name)
            for status, answer in about["responses"].items():
                content = answer.get("content", {}).get("application/json", {}) if status < "3" else {}
                if not (shown := content.get("examples", {}).get("example", {}).get("value")):
                    continue
                row = row_of(name, shown)
                schema = content["schema"]["properties"]
                texts = schema if row is shown else schema["rows"]["items"]["properties"]
                assert [column for column in row if not texts[column].get("description")] == [], name
                own = set() if "like" in MEANINGS.get(name, {}) else set(listed(name))
                assert own - row.keys() <= DEPENDING.get(name, set()), name
    assert {name for name in MEANINGS if " " in name} <= explained


# Columns that an answer has only in some cases.
DEPENDING = {
    "get /api/v1/rules": {"unit"},
    "get /api/v1/sanitise": {"done", "rows", "changed", "redactions"},
    "get /api/v1/forget": {"removed"},
}
