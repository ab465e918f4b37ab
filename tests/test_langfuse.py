"""Verdicts on Langfuse's own observations: the wire of its ingestion, failures, corrections and restarts."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from collector.engine.duckdb.store import Store
from collector.forward import langfuse as module
from collector.forward.langfuse import Langfuse, score_of
from collector.settings import SettingsError, load
from tests.conftest import RunningCollector, wait_until
from tests.doors import spans
from tests.recorded import emptied, event, failed, replacing
from tests.webhook import Webhook

PUBLIC, SECRET = "pk-lf-" + "1" * 8, "sk-lf-" + "2" * 8
EVER = 2**62


class Double(Webhook):
    """Takes batches as Langfuse does, 207 with a result for each event; scores by id are what it knows then."""

    def __init__(self) -> None:
        super().__init__()
        self.scores: dict[str, dict[str, Any]] = {}
        self.seen: list[str] = []  # ids of events
        self.errors: dict[str, int] = {}  # observation → status
        self.asked: list[tuple[str, dict[str, str], int]] = []

    def keep(self, path: str, headers: dict[str, str], body: bytes) -> None:
        batch = json.loads(body)["batch"]
        self.asked.append((path, headers, len(batch)))
        errors = []
        for one in batch:
            assert one.keys() == {"id", "type", "timestamp", "body"}
            assert one["type"] == "score-create"
            if status := self.errors.get(one["body"]["observationId"]):
                errors.append({"id": one["id"], "status": status, "message": "no", "error": "no"})
            elif one["id"] not in self.seen:
                self.seen.append(one["id"])
                self.scores[one["body"]["id"]] = one["body"]
        self.body = json.dumps({"successes": [], "errors": errors}).encode()

    @property
    def verdicts(self) -> dict[str, str]:
        return {score["observationId"]: score["value"] for score in self.scores.values()}


@pytest.fixture
def double() -> Iterator[Double]:
    opened = Double()
    yield opened
    opened.close()


def call(number: int, make: Callable[..., dict[str, Any]] = event, **fields: Any) -> dict[str, Any]:
    ids = {"trace_id": f"{number:032x}", "span_id": f"{number:016x}", "source_signal": "span"}
    return make(number, **{"received_ns": EVER + number, **ids, **fields})


class Telling:
    """What tells a double of the events of a store, one turn at a time."""

    def __init__(self, store: Store, double: Double) -> None:
        self.store = store
        self.langfuse = Langfuse(store, double.url.removesuffix("/hook"), PUBLIC, SECRET, 0)

    def turn(self) -> float:
        async def once() -> float:
            async with httpx.AsyncClient(auth=self.langfuse._auth) as client:
                return await self.langfuse._turn(client)

        self.store.count_settled(EVER * 2)
        return asyncio.run(once())

    def turns(self) -> None:
        while self.turn() == 0.0:
            pass


@pytest.fixture
def telling(store: Store, double: Double, monkeypatch: pytest.MonkeyPatch) -> Iterator[Telling]:
    monkeypatch.setattr("collector.forward.langfuse.time.time_ns", lambda: EVER * 2 - 1)
    emptied(store).execute("delete from meta where name = 'langfuse'")
    made = Telling(store, double)
    made.langfuse._note(module.Place(EVER, 0))
    yield made
    store.counted.noting = False


def test_a_verdict_is_a_score_on_the_span_of_the_call(telling: Telling, double: Double) -> None:
    replacing(telling.store, [], [call(1), call(2, failed, environment="dev", message="x" * 900)])
    telling.turns()
    [(path, headers, size)] = double.asked
    assert (path, size) == ("/api/public/ingestion", 2)
    assert headers["Authorization"] == f"Basic {base64.b64encode(f'{PUBLIC}:{SECRET}'.encode()).decode()}"
    assert headers["Content-Type"] == "application/json"
    ok, error = sorted(double.scores.values(), key=lambda score: score["observationId"])
    assert (ok["value"], ok["name"], ok["dataType"]) == ("ok", "misstep", "CATEGORICAL")
    assert "comment" not in ok
    assert (error["traceId"], error["observationId"]) == (f"{2:032x}", f"{2:016x}")
    assert (error["value"], error["environment"]) == ("FileNotFoundError", "dev")
    assert len(error["comment"]) == module.COMMENT
    assert error["metadata"] == {
        "outcome": "error", "event_id": "2", "tool": "read_file", "category": "file_operation",
        "attribution": "model", "recovery": "fix_and_retry", "mistake": True, "retryable": True,
    }  # fmt: skip


def test_only_what_is_a_span_of_its_own_is_told(telling: Telling, double: Double) -> None:
    others = [
        call(1, source_signal="log"), call(2, span_id=None), call(3, trace_id=None), call(4, outcome="unknown"),
        call(5, source_signal="span_event"), call(6, received_ns=EVER - 5),
    ]  # fmt: skip
    replacing(telling.store, [], [*others, call(7, outcome="denied"), call(8, environment="Prod EU")])
    telling.turns()
    assert double.verdicts == {f"{7:016x}": "denied", f"{8:016x}": "ok"}
    assert "environment" not in double.scores[score_of(call(8))["body"]["id"]], "Langfuse would refuse the name"


def test_what_changes_is_told_again_under_the_same_id(telling: Telling, double: Double) -> None:
    replacing(telling.store, [], [call(1), call(2)])
    telling.turns()
    replacing(telling.store, [1], [call(1, failed)])
    telling.turns()
    assert double.verdicts == {f"{1:016x}": "FileNotFoundError", f"{2:016x}": "ok"}
    assert [size for _, _, size in double.asked] == [2, 1]
    assert telling.store.rows("from corrected") == []


def test_a_batch_at_a_time_and_a_restart_goes_on_where_the_last_run_stopped(
    telling: Telling, double: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST", 4)
    telling.langfuse._most = 4
    same = EVER + 1  # received in one request
    replacing(telling.store, [], [call(number, received_ns=same) for number in range(10)])
    assert telling.turn() == 0.0
    again = Telling(telling.store, double)
    again.langfuse._most = 4
    again.turns()
    assert [size for _, _, size in double.asked] == [4, 4, 2]
    assert len(double.seen) == 10


@pytest.mark.parametrize(
    ("status", "headers", "pause"), [(429, {"Retry-After": "90"}, 90.0), (503, {}, 2.0), (401, {}, 2.0), (404, {}, 2.0)]
)
def test_what_is_not_taken_is_told_later(
    status: int, headers: dict[str, str], pause: float, telling: Telling, double: Double
) -> None:
    replacing(telling.store, [], [call(1)])
    double.status, double.headers = status, headers
    assert telling.turn() == pause
    assert telling.langfuse.error == f"answered {status}"
    assert telling.turn() == max(pause, 4.0)
    double.status = 200
    telling.turns()
    assert (double.verdicts, telling.langfuse.error) == ({f"{1:016x}": "ok"}, "")


def test_a_place_that_is_down_or_is_none_is_waited_for(telling: Telling, double: Double) -> None:
    replacing(telling.store, [], [call(1)])
    double.keep = lambda *_: setattr(double, "body", b"<html>")  # type: ignore[method-assign]
    assert telling.turn() == 2.0
    assert "is the address right?" in telling.langfuse.error
    double.close()
    assert telling.turn() == 4.0
    assert telling.langfuse.error == "cannot be reached: ConnectError"
    assert SECRET not in telling.langfuse.error


def test_one_event_that_is_refused_does_not_hold_up_the_others(telling: Telling, double: Double) -> None:
    replacing(telling.store, [], [call(number) for number in range(1, 6)])
    double.errors = {f"{2:016x}": 400, f"{3:016x}": 500}
    assert telling.turn() == 2.0, "one is to be sent again"
    replacing(telling.store, [], [call(9)])
    assert telling.turn() == 4.0
    assert f"{9:016x}" in double.verdicts, "others go on"
    double.errors = {f"{2:016x}": 400}
    telling.turns()
    assert sorted(double.verdicts) == [f"{number:016x}" for number in (1, 3, 4, 5, 9)]


def test_a_batch_that_is_refused_as_a_whole_is_cut_until_it_is_taken(telling: Telling, double: Double) -> None:
    bad = call(3, tool="poison")
    replacing(telling.store, [], [*(call(number) for number in (1, 2, 4, 5)), bad])
    double.refuses = b"poison"  # is answered 422
    telling.turns()
    assert sorted(double.verdicts) == [f"{number:016x}" for number in (1, 2, 4, 5)]


def test_keys_go_together_and_are_not_shown() -> None:
    given = {"langfuse_url": "https://lf.example", "langfuse_public_key": PUBLIC, "langfuse_secret_key": SECRET}
    assert load(given, {}).langfuse_secret_key == SECRET
    for name in given:
        with pytest.raises(SettingsError, match="go together") as caught:
            load({other: value for other, value in given.items() if other != name}, {})
        assert not re.search(f"{PUBLIC}|{SECRET}", str(caught.value))


def test_a_collector_tells_and_shows_that_it_does(
    start_collector: Callable[..., RunningCollector], double: Double
) -> None:
    keys = {"LANGFUSE_PUBLIC_KEY": PUBLIC, "LANGFUSE_SECRET_KEY": SECRET, "METRICS_SETTLE": "0s"}
    collector = start_collector(LANGFUSE_URL=double.url.removesuffix("/hook"), **keys)
    wait_until(lambda: collector.get("/api/v1/health")["langfuse"])
    told = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "x", "error.type": "timeout"}
    span = {"name": "execute_tool x", "spanId": "5", "traceId": "6", "status": 2, "attributes": told}

    def sent() -> bool:
        collector.post("/v1/traces", spans(span))
        return bool(double.verdicts)

    wait_until(sent, collector.logged)
    assert double.verdicts.keys() == {"5".rjust(16, "0")}
    wait_until(lambda: collector.get("/api/v1/health")["langfuse"]["scores"].get("sent"))
    health = collector.get("/api/v1/health")["langfuse"]
    assert (health["to"], health["error"]) == ("127.0.0.1", None)
    assert SECRET not in collector.logged()
