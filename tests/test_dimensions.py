"""The user's own attributes as columns: from record and resource, sanitised, in every query, over restarts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from collector.api.reserved import reserved
from collector.commands.export import export
from collector.engine.duckdb.store import Store
from collector.settings import SettingsError, load
from tests.conftest import HTTP, RunningCollector
from tests.recorded import event, failed, holding


def span(number: int, failed: bool, resource: dict[str, str], own: dict[str, Any]) -> dict[str, Any]:
    """One tool call as a span of the GenAI conventions."""

    def attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            {"key": key, "value": {"intValue": value} if isinstance(value, int) else {"stringValue": value}}
            for key, value in values.items()
        ]

    now = time.time_ns() - 60_000_000_000 + number * 1_000_000_000
    named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "shell", "gen_ai.conversation.id": "s"}
    one = {
        "traceId": f"{number + 1:032x}", "spanId": f"{number + 1:016x}", "name": "execute_tool shell", "kind": 1,
        "startTimeUnixNano": str(now - 5_000_000), "endTimeUnixNano": str(now),
        "attributes": attributes(named | ({"error.type": "timeout"} if failed else {}) | own),
        "status": {"code": 2, "message": "timed out"} if failed else {"code": 1},
    }  # fmt: skip
    scope = {"scope": {"name": "x"}, "spans": [one]}
    return {"resource": {"attributes": attributes({"service.name": "api", **resource})}, "scopeSpans": [scope]}


def sent(collector: RunningCollector, *spans: dict[str, Any]) -> None:
    answer = collector.post("/v1/traces", json.dumps({"resourceSpans": list(spans)}))
    assert answer.is_success, answer.text


EVERYWHERE = [
    "breakdown?by=team",
    "timeseries?by=team&previous=true",
    "compare?by=team",
    "changes?by=team",
    "streaks/limits?by=team&kind=error",
    "compare?dimension=team&a=web&b=ops&measure=error_rate,streak_rate,p95_ms",
    "retries?by=team",
    "retries/curve?by=team",
    "retries/storms?by=team&least=1",
    "costs?by=team",
    "values/team",
    "breakdown?by=prompt.version&measures=recovery_rate",
    "breakdown?prompt.version=!v1,v2&team=web",
    "streaks?team=web&kind=error",
    "groups?team=web",
    "sessions?prompt.version=v1",
    "sources?team=web",
    "events?team=web",
    "values/prompt.version?contains=V",
    "streaks/signals?team=web",
]


def test_own_dimensions_are_asked_for_like_any_other(start_collector: Callable[..., RunningCollector]) -> None:
    collector = start_collector(DIMENSIONS="team,prompt.version")
    secret = "ghp_" + "a1B2c3D4e5" * 4
    web, ops = {"team": "web"}, {"team": "ops"}
    sent(
        collector,
        span(0, True, web, {"prompt.version": "v1"}), span(1, True, web, {"prompt.version": "v2"}),
        span(2, False, web, {"prompt.version": 3}), span(3, False, ops, {"team": "platform"}),
        span(4, True, ops, {"prompt.version": secret}),
    )  # fmt: skip
    rows = collector.get("/api/v1/breakdown", by="team")["rows"]
    assert {row["team"]: (row["calls"], row["errors"]) for row in rows} == {
        "web": (3, 2),
        "platform": (1, 0),
        "ops": (1, 1),
    }
    versions = {row["value"]: row["calls"] for row in collector.get("/api/v1/values/prompt.version")["rows"]}
    assert set(versions) > {"v1", "v2", "3", None}
    assert not any(secret in str(value) for value in versions)
    assert {one["team"] for one in collector.events(team="web")} == {"web"}
    for path in EVERYWHERE:
        answer = HTTP.get(f"{collector.url}/api/v1/{path}")
        assert answer.status_code == 200, f"{path}: {answer.text}"
    errors = {row["team"]: row["errors"] for row in collector.kept_up().get("/api/v1/retries", by="team")["rows"]}
    assert errors == {"web": 2, "ops": 1}
    refused = HTTP.get(f"{collector.url}/api/v1/breakdown?by=squad").json()["error"]
    assert {"team", "prompt.version"} <= set(refused["allowed"])
    described = HTTP.get(f"{collector.url}/openapi.json").json()["paths"]["/api/v1/events"]["get"]
    assert "prompt.version" in {parameter["name"] for parameter in described["parameters"]}
    question = {"sql": 'select distinct "prompt.version" v from events'}
    told = HTTP.post(f"{collector.url}/api/v1/sql", json=question)
    assert {"v": "v1"} in told.json()["rows"]
    for form, read in (("parquet", pl.read_parquet), ("csv", pl.read_csv), ("jsonl", pl.read_ndjson)):
        file = collector.folder / f"events.{form}"
        assert export(collector.url, file, form, []) == 5
        assert sorted(read(file)["team"]) == ["ops", "platform", "web", "web", "web"]
    collector.settings["DIMENSIONS"] = "prompt.version,cost.centre"
    collector.restart()
    assert "team" not in HTTP.get(f"{collector.url}/api/v1/breakdown?by=x").json()["error"]["allowed"]
    sent(collector, span(9, False, {}, {"prompt.version": "v1", "cost.centre": "c7"}))
    assert [one["cost.centre"] for one in collector.events(**{"cost.centre": "!"})] == ["c7"]
    assert len(collector.events(**{"prompt.version": "v1"})) == 2


def test_a_column_is_sanitised_like_the_attribute_that_it_shows(
    start_collector: Callable[..., RunningCollector],
) -> None:
    names = ("deploy.token", "user.id", "http.request.header.cookie", "team")
    collector = start_collector(DIMENSIONS=",".join(names))
    secret = "hunter" + "22x"
    own = {"deploy.token": secret, "user.id": "ann7", "http.request.header.cookie": f'["sid={secret}"]', "team": "[x"}
    sent(collector, span(0, False, {}, own), span(1, False, {"team": "x" * 600}, {}))
    [one] = collector.events(**{"deploy.token": "!"})
    assert [one[name] for name in names] == [
        "[redacted:token]", "[redacted:account-id]", '["sid=[redacted:cookie]"]', "[x",
    ]  # fmt: skip
    assert one["attributes"]["deploy.token"] == one["deploy.token"]
    assert {one["team"][-24:] for one in collector.events()} == {"[x", "x… [cut, 600 characters]"}


def test_what_is_stored_already_is_filled_from_its_attributes(tmp_path: Any) -> None:
    url = f"duckdb:///{tmp_path}/x.duckdb"
    store = Store.open(url)
    holding(store, [event(1, attributes='{"team": "web", "n": 7}'), failed(2, attributes='"cut"'), event(3)])
    store.close()
    store = Store.open(url, dimensions=("team", "n", "a.b-c"))
    assert store.rows('select team, n, "a.b-c" as other from events order by event_id') == [
        {"team": "web", "n": "7", "other": None}, {"team": None, "n": None, "other": None},
        {"team": None, "n": None, "other": None},
    ]  # fmt: skip
    store.close()
    Store.open(url, dimensions=("n",)).close()


def test_what_is_not_asked_for_is_there_when_it_comes_back(
    start_collector: Callable[..., RunningCollector],
) -> None:
    """Also if another report corrects the call meanwhile."""
    collector = start_collector(DIMENSIONS="team")
    told = span(0, False, {"team": "payments"}, {})
    sent(collector, told)
    assert collector.events()[0]["team"] == "payments"
    del collector.settings["DIMENSIONS"]
    collector.restart()
    sent(collector, span(0, True, {}, {}))
    assert collector.events()[0]["outcome"] == "error"
    collector.settings["DIMENSIONS"] = "team"
    collector.restart()
    assert [(one["team"], one["outcome"]) for one in collector.events()] == [("payments", "error")]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("tool", "tool"), ("Model", "Model"), ("limit", "limit"), ("calls", "calls"), ("p95_ms", "p95_ms"),
        ('a"b', "attribute name"), ("a b", "attribute name"), ("x" * 64, "attribute name"), ("a,A", "twice"),
        ("a,b,c,d,e,f,g,h,i", "at most 8"),
    ],
)  # fmt: skip
def test_names_that_cannot_be_columns_are_refused(names: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        load({}, {"MISSTEP_DIMENSIONS": names}, reserved=reserved)


def test_attributes_whose_names_look_alike_are_filtered_apart(start_collector: Callable[..., RunningCollector]) -> None:
    alike = {"a.b": "one", "a_b": "two", "a_2e_b": "three", "a-b": "four"}
    collector = start_collector(DIMENSIONS=",".join(alike))
    sent(collector, *(span(number, number % 2 == 0, {}, alike) for number in range(4)))
    assert len(collector.events(**alike)) == 4
    assert len(collector.events(**{name: f"!{value},other" for name, value in alike.items()})) == 0
    for name in alike:
        assert len(collector.events(**{**alike, name: "other"})) == 0
