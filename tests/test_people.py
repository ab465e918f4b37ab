"""Marks on the time axis and saved views: from HTTP to the disk, bounded, without secrets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from collector.api.representations import read_body
from collector.engine.duckdb import rewrite
from collector.engine.duckdb.store import Store
from collector.errors import Rejected
from collector.query import noted
from collector.query.filters import BadParameter
from collector.query.group_marks import Mark, mark
from collector.query.noted import NewMark, NewView, add_mark, marks, remove_mark, save_view, views
from tests.conftest import HTTP, RunningCollector
from tests.recorded import HOUR, NOW, failed, holding

HOSTILE = (
    "<img src=x onerror=alert(1)> ![x](http://evil.example/a.png) :material/bolt: '); drop table views; -- \u202e\x00"
)


@pytest.fixture(autouse=True)
def unnoted(store: Store) -> None:
    store.execute_all([("delete from time_marks", {}), ("delete from views", {})])


def test_a_deploy_from_ci_is_one_mark_however_often_it_is_sent(shared: RunningCollector) -> None:
    place = f"{shared.url}/api/v1/marks"
    deploy = {"text": "deploy", "time": "2026-11-21T20:00:00+02:00", "service": "coder", "version": "1.8.0",
              "url": "https://ci.example/runs/42"}  # fmt: skip
    [first, again] = [HTTP.post(place, json=deploy) for _ in range(2)]
    assert (first.status_code, first.json()) == (201, again.json())
    assert first.json() | {"mark_id": ""} == {**deploy, "time": "2026-11-21T18:00:00.000000000Z", "mark_id": ""}
    HTTP.post(place, json={"text": "an outage", "time": "2026-11-21T19:00:00Z"})
    day = {"from": "2026-11-21T00:00:00Z", "to": "2026-11-22T00:00:00Z"}

    def told(**asked: str) -> list[str]:
        return [row["text"] for row in HTTP.get(place, params=day | asked).json()["rows"]]

    assert told() == ["deploy", "an outage"]
    assert told(sort="-time", limit="1") == ["an outage"]
    assert told(service="other") == ["an outage"]  # which concerns all
    assert told(**{"from": "2026-11-21T18:00:00.000000001Z"}) == ["an outage"]
    assert told(to="2026-11-21T18:00:00Z") == []
    assert HTTP.delete(f"{place}/{first.json()['mark_id']}").status_code == 204
    assert HTTP.delete(f"{place}/{first.json()['mark_id']}").status_code == 404
    assert told() == ["an outage"]


def test_a_mark_without_a_time_is_of_now_and_one_ahead_is_told_with_now(shared: RunningCollector) -> None:
    place = f"{shared.url}/api/v1/marks"
    HTTP.post(place, json={"text": "right now", "service": "of-now"})
    HTTP.post(place, json={"text": "next year", "service": "of-now", "time": "2125-01-01T00:00:00Z"})
    rows = HTTP.get(place, params={"service": "of-now", "from": "-1m"}).json()["rows"]
    assert [row["text"] for row in rows] == ["right now", "next year"]


@pytest.mark.parametrize(
    "body",
    [
        {}, {"text": ""}, {"text": " \n"}, {"text": "x" * 501}, {"text": 7}, {"text": "a", "time": "yesterday"},
        {"text": "a", "time": "1066-10-14"}, {"text": "a", "time": "9999-01-01"}, {"text": "a", "time": 5},
        {"text": "a", "url": "http://ci.example"}, {"text": "a", "url": "javascript:alert(1)"},
        {"text": "a", "service": "s" * 201}, {"text": "a", "colour": "red"}, [], "a",
    ],
)  # fmt: skip
def test_what_is_no_mark_is_refused(shared: RunningCollector, body: Any) -> None:
    said = HTTP.post(f"{shared.url}/api/v1/marks", json=body)
    assert said.status_code == 400, said.text
    assert said.json()["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        {}, {"name": "a"}, {"name": "", "page": "errors"}, {"name": "a", "page": "../errors"},
        {"name": "a", "page": "https://evil.example"}, {"name": "a" * 81, "page": "errors"},
        {"name": "a", "page": "errors", "query": "q" * 4001}, {"name": "a", "page": ""}, [],
    ],
)  # fmt: skip
def test_what_is_no_view_is_refused(body: Any) -> None:
    with pytest.raises(Rejected):
        read_body(json.dumps(body).encode(), NewView, "a view")


def test_the_oldest_marks_go_and_the_last_views_are_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noted, "MOST_MARKS", 3)
    monkeypatch.setattr(noted, "MOST_VIEWS", 2)
    for hour in (5, 1, 4, 2, 3):
        add_mark(store, NewMark(f"{hour}", time=f"-{hour}h"), str, NOW)
    assert [row["text"] for row in marks(store, 0, NOW, "")] == ["3", "2", "1"]
    for name in ("one", "two", "one"):
        save_view(store, NewView(name, "errors", "from=-7d"), str, NOW)
    with pytest.raises(Rejected, match="remove one"):
        save_view(store, NewView("three", "errors"), str, NOW)
    assert [row["name"] for row in views(store)] == ["one", "two"]


def test_hostile_texts_are_kept_as_texts(store: Store) -> None:
    """Texts come back as they were, but for halves of characters."""
    add_mark(store, NewMark(HOSTILE + "\ud800", service=HOSTILE, version="'"), str, NOW)
    save_view(store, NewView("'; drop table views; --", "errors", "q=%27%22<>&x=\ud83d"), str, NOW)
    [mark] = marks(store, NOW - HOUR, NOW + 1, HOSTILE)
    assert (mark["text"], mark["service"]) == (HOSTILE + "?", HOSTILE)
    assert views(store)[0]["query"] == "q=%27%22<>&x=?"
    with pytest.raises(Rejected):
        remove_mark(store, HOSTILE)
    with pytest.raises(BadParameter):
        add_mark(store, NewMark("a", time="9" * 80), str, NOW)


def test_rewriting_a_text_keeps_what_it_stands_in(store: Store) -> None:
    holding(store, [failed(5)])
    mark(store, 2**64 - 1, Mark(state="resolved", note="old", issue="https://t.example/1"), str)
    add_mark(store, NewMark("old", service="old"), str, NOW)
    save_view(store, NewView("mine", "errors", "old"), str, NOW)
    for table, column in rewrite.text_columns(store):
        if table in ("group_marks", "time_marks", "views"):
            rewrite.replace_text(store, table, column, "old", "new")
    [group] = store.rows("from group_marks")
    assert (group["note"], group["issue"], group["resolved_ns"] > 0) == ("new", "https://t.example/1", True)
    [told] = marks(store, 0, NOW + 1, "")
    assert (told["text"], told["service"]) == ("new", "new")
    assert [view["query"] for view in views(store)] == ["new"]


def test_what_people_add_wants_the_query_token_has_no_secrets_and_survives_a_restart(
    start_collector: Callable[..., RunningCollector],
) -> None:
    collector = start_collector(QUERY_TOKENS="right")
    asked: dict[str, Any] = {"headers": {"Authorization": "Bearer right"}, "timeout": 30}
    secret = "ghp_" + "a1B2c3D4e5" * 4
    bodies = {
        "marks": {"text": f"rotated {secret}"},
        "views": {"name": f"of {secret}", "page": "errors", "query": secret},
    }
    for path, body in bodies.items():
        place = f"{collector.url}/api/v1/{path}"
        for method in ("GET", "POST", "DELETE"):
            address = f"{place}/x" if method == "DELETE" else place
            assert httpx.request(method, address, json=body, timeout=30).status_code == 401
        assert httpx.post(place, content=json.dumps(body), **asked).status_code == 415
        assert httpx.post(place, json={**body, "text": "x" * (65 << 10)}, **asked).status_code == 413
        assert httpx.post(place, json=body, **asked).status_code == 201
    refused = httpx.post(
        f"{collector.url}/api/v1/marks", json={"text": "a", "url": f"https://x.example/{secret}"}, **asked
    )
    assert (refused.status_code, secret in refused.text) == (400, False)
    collector.restart()
    for path in bodies:
        rows = httpx.get(f"{collector.url}/api/v1/{path}", **asked).json()["rows"]
        assert len(rows) == 1
        assert "[redacted:" in str(rows)
    collector.stop()
    assert secret.encode() not in Path(collector.store).read_bytes()
