"""Alerting through the API, on the real routes with a real engine."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from litestar import Litestar
from litestar.datastructures import State
from litestar.testing import TestClient
from structlog.testing import capture_logs

from collector.alerts.engine import Engine
from collector.alerts.rulebook import RuleBook
from collector.alerts.rules import SEVERITIES
from collector.api.alert_routes import ALERT_ROUTES
from collector.api.guard import guard
from collector.api.refusals import exception_handlers
from collector.api.representations import ARROW
from collector.engine.duckdb.store import Store
from collector.measures.all import measure_all
from collector.settings import Settings
from collector.times import iso_ns
from tests.api import tokens
from tests.recorded import MINUTE, NOW, failed, holding

YAML = {"Content-Type": "application/yaml"}

SILENCE = {
    "rule": "mistakes-in-a-row",
    "labels": {"service": "api"},
    "duration": "1h",
    "author": "ann",
    "reason": "known",
}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    store = Store.open("duckdb://:memory:")
    holding(store, [failed(number) for number in (1, 2, 3, 4)])
    book = RuleBook(tmp_path / "alerts.yaml")
    made = Engine(store, book, measure_all, lambda _: None, scrub=str, dashboard_url="http://dash", clock=lambda: NOW)
    yield made
    store.close()


@pytest.fixture
def client(engine: Engine) -> Iterator[TestClient[Litestar]]:
    application = Litestar(
        ALERT_ROUTES,
        guards=[guard],
        state=State({"alerts": engine, "scrub": str, "tokens": tokens(Settings()), "allowed_hosts": frozenset()}),
        exception_handlers=exception_handlers(),
    )
    with TestClient(application) as opened:
        yield opened


def get(client: TestClient[Litestar], path: str, **params: Any) -> Any:
    answer = client.get(path, params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_alerts_say_what_fires_and_why(engine: Engine, client: TestClient[Litestar]) -> None:
    assert get(client, "/api/v1/alerts")["evaluated"] is None
    engine.evaluate(NOW)
    answer = get(client, "/api/v1/alerts", history="true")
    (row,) = answer["rows"]
    assert row["link"].startswith("http://dash/session?session=s1&service=api")
    assert row["link"] == f"http://dash/{row['evidence']}"
    assert {
        name: row[name] for name in ("rule", "labels", "state", "value", "threshold", "since", "severity", "summary")
    } == {
        "rule": "mistakes-in-a-row",
        "labels": {"service": "api", "session": "s1"},
        "state": "firing",
        "value": 4.0,
        "threshold": 3.0,
        "since": "2026-11-21T21:41:51.123456789Z",
        "severity": "warning",
        "summary": "api: 4 mistakes in a row in one session",
    }
    assert (answer["evaluated"], answer["error"], answer["mistakes"]) == ("2026-11-21T21:41:51.123456789Z", None, [])
    (firing,) = answer["history"]
    assert (firing["rule"], firing["fired"], firing["resolved"]) == ("mistakes-in-a-row", row["fired"], None)
    assert get(client, "/api/v1/alerts", state="pending")["rows"] == []
    assert "history" not in get(client, "/api/v1/alerts", state="firing")


def test_what_is_critical_comes_first(engine: Engine, client: TestClient[Litestar]) -> None:
    assert engine.book.path is not None
    rules = [f"- {{name: {name}, measure: errors, condition: '> 1', severity: {name}}}\n" for name in SEVERITIES[::-1]]
    engine.book.path.write_text(f"rules:\n{''.join(rules)}")
    engine.evaluate(NOW)
    assert tuple(row["severity"] for row in get(client, "/api/v1/alerts")["rows"]) == SEVERITIES


def test_rules_and_their_values_over_time(engine: Engine, client: TestClient[Litestar]) -> None:
    engine.evaluate(NOW)
    rows = {row["name"]: row for row in get(client, "/api/v1/rules")["rows"]}
    streak = rows["mistakes-in-a-row"]
    assert (streak["value"], streak["threshold"], streak["state"], streak["evaluated"]) == (
        4.0,
        3.0,
        "firing",
        "2026-11-21T21:41:51.123456789Z",
    )
    assert rows["tool-broken"]["error"] is None
    (sample,) = get(client, "/api/v1/rules/mistakes-in-a-row/samples")["rows"]
    assert (sample["time"], sample["value"], sample["state"]) == ("2026-11-21T21:41:51.123456789Z", 4.0, "firing")
    assert get(client, "/api/v1/rules/mistakes-in-a-row/samples", to="-1h")["rows"] == []


def test_a_broken_file_is_told_with_its_mistakes(engine: Engine, client: TestClient[Litestar]) -> None:
    assert engine.book.path is not None
    engine.book.path.write_text("rules:\n  - {name: a, measure: errs, condition: '> 1'}\n")
    engine.evaluate(NOW)
    (mistake,) = get(client, "/api/v1/rules")["mistakes"]
    assert (mistake["line"], mistake["field"]) == (2, "measure")
    assert len(get(client, "/api/v1/rules")["rows"]) == 10


def test_a_file_that_vanishes_is_told_once_in_the_log_and_always_in_the_answers(
    engine: Engine, client: TestClient[Litestar]
) -> None:
    path = engine.book.path
    assert path is not None
    path.write_text("rules:\n  - {name: mine, measure: errors, condition: '> 1'}\n")
    engine.evaluate(NOW)
    path.unlink()
    with capture_logs() as logs:
        engine.evaluate(NOW + MINUTE)
        engine.evaluate(NOW + 2 * MINUTE)
    assert [(entry["event"], entry["log_level"], entry["path"]) for entry in logs] == [
        ("rules_not_taken", "error", str(path))
    ]
    for place in ("/api/v1/rules", "/api/v1/alerts"):
        (mistake,) = get(client, place)["mistakes"]
        assert "stays in force" in mistake["text"]
    assert [(row["rule"], row["state"]) for row in get(client, "/api/v1/alerts")["rows"]] == [("mine", "firing")]


def test_a_rule_file_is_checked_without_being_taken(client: TestClient[Litestar]) -> None:
    one = "rules:\n  - {name: a, measure: %s, condition: '> 1'}\n"
    answer = client.post("/api/v1/rules/check", content=one % "errs", headers=YAML)
    assert answer.json()["ok"] is False
    assert answer.json()["rows"][0]["text"].endswith("did you mean 'errors'?")
    answer = client.post("/api/v1/rules/check", content=one % "errors", headers=YAML)
    assert answer.json() == {"ok": True, "rows": [], "rules": ["a"]}
    assert client.post("/api/v1/rules/check", content="#" * (1 << 21), headers=YAML).status_code == 413
    assert client.post("/api/v1/rules/check", content=b"\xff\xfe", headers=YAML).json()["ok"] is False


def test_a_silence_holds_until_it_is_ended(engine: Engine, client: TestClient[Litestar]) -> None:
    engine.evaluate(NOW)
    made = client.post("/api/v1/silences", json=SILENCE)
    assert made.status_code == 201
    assert made.json()["ends"] == "2026-11-21T22:41:51.123456789Z"
    assert get(client, "/api/v1/silences")["rows"] == [made.json()]
    assert get(client, "/api/v1/alerts")["rows"][0]["silenced"] is True
    assert client.delete(f"/api/v1/silences/{made.json()['id']}?rule=a").status_code == 400
    assert client.delete(f"/api/v1/silences/{made.json()['id']}").status_code == 204
    assert get(client, "/api/v1/silences")["rows"] == []
    assert get(client, "/api/v1/alerts")["rows"][0]["silenced"] is False
    assert client.delete(f"/api/v1/silences/{made.json()['id']}").status_code == 404


def test_a_silence_may_be_meant_for_ever(client: TestClient[Litestar]) -> None:
    made = client.post("/api/v1/silences", json=SILENCE | {"duration": "99999999w"})
    assert (made.status_code, made.json()["ends"][:4]) == (201, "2126")


def test_a_silence_until_resolved_needs_an_alert(engine: Engine, client: TestClient[Litestar]) -> None:
    until = SILENCE | {"duration": "until resolved"}
    refused = client.post("/api/v1/silences", json=until)
    assert (refused.status_code, "say for how long" in refused.text) == (400, True)
    engine.evaluate(NOW)
    made = client.post("/api/v1/silences", json=until).json()
    assert made["ends"] is None
    assert get(client, "/api/v1/silences")["rows"] == [made]
    assert get(client, "/api/v1/alerts")["rows"][0]["silenced"] is True


@pytest.mark.parametrize(
    "labels", [{"owner": "ann@x.org"}, {"owner": "@x.org"}, {"event_severity": ""}, {"severity": ""}]
)
@pytest.mark.parametrize("wait", ["0s", "5m"])
def test_a_silence_takes_what_receivers_see(
    engine: Engine, client: TestClient[Litestar], labels: dict[str, str], wait: str
) -> None:
    engine.scrub = lambda text: text.replace("ann@", "@")
    assert engine.book.path is not None
    rule = f"{{name: a, measure: errors, by: [severity], condition: '> 1', labels: {{owner: ann@x.org}}, for: {wait}}}"
    engine.book.path.write_text(f"rules: [{rule}]")
    engine.evaluate(NOW)
    (row,) = get(client, "/api/v1/alerts")["rows"]
    assert (row["state"], row["silenced"]) == ("firing" if wait == "0s" else "pending", False)
    seen = {"event_severity": row["labels"]["severity"]} if "event_severity" in labels else labels
    for duration in ("1h", "until resolved"):
        asked = {"labels": {**seen, "severity": "warning"}, "duration": duration, "author": "ann", "reason": "known"}
        made = client.post("/api/v1/silences", json=asked)
        assert made.status_code == 201, made.text
        assert get(client, "/api/v1/alerts")["rows"][0]["silenced"] is True
        assert client.delete(f"/api/v1/silences/{made.json()['id']}").status_code == 204
    asked = {"labels": {"severity": row["labels"]["severity"]}, "duration": "1h", "author": "ann", "reason": "known"}
    client.post("/api/v1/silences", json=asked)  # `severity` is the rule's
    assert get(client, "/api/v1/alerts")["rows"][0]["silenced"] is False


def test_a_silence_holds_though_the_clock_is_set_back(engine: Engine, client: TestClient[Litestar]) -> None:
    engine.evaluate(NOW)
    client.post("/api/v1/silences", json=SILENCE)
    engine.clock = lambda: NOW - 40 * 60 * 10**9
    assert get(client, "/api/v1/alerts")["rows"][0]["silenced"] is True


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rule": "mistakes"}, "there is no rule 'mistakes'"),
        ({"rule": "", "labels": {}}, "name a rule, labels, or both"),
        ({"duration": "long"}, "duration is a duration such as"),
        ({"duration": "0s"}, "a silence lasts longer than nothing"),
        ({"author": ""}, "author"),
        ({"author": " "}, "author"),
        ({"reason": "\n"}, "reason"),
        ({"until": "2030"}, "until"),
        ({"labels": {"service": 1}}, "labels"),
        ({"labels": {"servce": "api"}}, "no rule has a label 'servce'"),
    ],
)
def test_a_silence_that_cannot_be_meant_is_refused(
    client: TestClient[Litestar], change: dict[str, Any], message: str
) -> None:
    answer = client.post("/api/v1/silences", json=SILENCE | change)
    assert answer.status_code == 400
    assert message in answer.text


def test_a_foreign_page_cannot_silence(client: TestClient[Litestar]) -> None:
    answer = client.post("/api/v1/silences", content=b"{}", headers={"content-type": "text/plain"})
    assert answer.status_code == 415
    assert get(client, "/api/v1/silences")["rows"] == []


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/api/v1/alerts?stat=firing", 400, "there is no parameter 'stat' here; allowed are state"),
        ("/api/v1/alerts?state=burning", 400, "state takes pending, firing, resolved"),
        ("/api/v1/alerts?history=yes", 400, "history takes true, false"),
        ("/api/v1/alerts?limit=1&limit=2", 400, "limit is given twice"),
        ("/api/v1/rules?sort=name&sort=state", 400, "sort is given twice"),
        ("/api/v1/alerts?limit=0", 400, "limit"),
        ("/api/v1/rules?x=1", 400, "there is no parameter 'x' here; allowed are sort, limit"),
        ("/api/v1/rules/nothing/samples", 404, "there is no rule"),
        ("/api/v1/rules/tool-broken/samples?from=soon", 400, "from is a time"),
        ("/api/v1/rules/tool-broken/samples?from=now&to=-1h", 400, "is after to"),
    ],
)
def test_what_cannot_be_answered_is_explained(
    client: TestClient[Litestar], path: str, status: int, message: str
) -> None:
    answer = client.get(path)
    assert answer.status_code == status
    assert message in answer.text


@pytest.mark.parametrize(
    ("path", "sort", "expected"),
    [
        ("rules", "name", sorted),
        ("rules", "-name", lambda names: sorted(names, reverse=True)),
        ("rules", "", list),
        ("rules", "value", lambda names: [*names]),
    ],
)
def test_rules_are_sorted_and_cut_as_asked(
    engine: Engine, client: TestClient[Litestar], path: str, sort: str, expected: Callable[[list[str]], list[str]]
) -> None:
    names = [rule.name for rule in engine.book.file.rules]
    found = [row["name"] for row in get(client, f"/api/v1/{path}", **({"sort": sort} if sort else {}))["rows"]]
    assert found == expected(names)
    assert [row["name"] for row in get(client, f"/api/v1/{path}", sort="name", limit=2)["rows"]] == sorted(names)[:2]


@pytest.mark.parametrize("path", ["alerts", "rules", "silences", "rules/mistakes-in-a-row/samples"])
def test_every_list_answers_the_same_rows_in_json_and_arrow(
    engine: Engine, client: TestClient[Litestar], path: str
) -> None:
    engine.evaluate(NOW)
    client.post("/api/v1/silences", json=SILENCE)
    rows = get(client, f"/api/v1/{path}")["rows"]
    answer = client.get(f"/api/v1/{path}", headers={"Accept": ARROW})
    assert answer.headers["content-type"] == ARROW
    frame = pl.read_ipc_stream(io.BytesIO(answer.content))
    assert [*rows[0]] == frame.columns
    for name, kind in frame.schema.items():
        told = [row[name] for row in rows]
        if kind == pl.Datetime("ns", "UTC"):
            assert frame[name].cast(pl.Int64).to_list() == [at and iso_ns(at) for at in told], name
        else:
            read = [
                json.loads(cell) if isinstance(one, dict | list) else cell
                for one, cell in zip(told, frame[name], strict=True)
            ]
            assert read == told, name


@pytest.mark.parametrize("path", ["alerts", "rules", "silences", "rules/a/samples"])
def test_every_list_says_whether_it_was_cut(engine: Engine, client: TestClient[Litestar], path: str) -> None:
    assert engine.book.path is not None
    rules = [f"- {{name: {name}, measure: errors, window: {window}, condition: '> 1', for: 1m}}\n" for name, window in
             (("a", "15m"), ("b", "1h"))]  # fmt: skip
    engine.book.path.write_text(f"rules:\n{''.join(rules)}")
    engine.evaluate(NOW - MINUTE)
    engine.evaluate(NOW)
    for name in "ab":
        assert client.post("/api/v1/silences", json=SILENCE | {"rule": name, "labels": {}}).is_success
    whole = get(client, f"/api/v1/{path}", limit=2)
    assert (len(whole["rows"]), whole["truncated"]) == (2, False)
    cut = get(client, f"/api/v1/{path}", limit=1)
    assert cut["truncated"] is True
    assert cut["rows"] == (whole["rows"][1:] if path.endswith("samples") else whole["rows"][:1])


def test_rules_are_sorted_by_one_column_after_another(engine: Engine, client: TestClient[Litestar]) -> None:
    rows = get(client, "/api/v1/rules", sort="-measure,name")["rows"]
    assert rows == sorted(sorted(rows, key=itemgetter("name")), key=itemgetter("measure"), reverse=True)


def test_what_no_list_is_sorted_by_is_named(engine: Engine, client: TestClient[Litestar]) -> None:
    for path in ("alerts", "rules", "silences"):
        refused = client.get(f"/api/v1/{path}", params={"sort": "-labels"})
        assert (refused.status_code, refused.json()["error"]["parameter"]) == (400, "sort")
        assert "severity" in refused.json()["error"]["allowed"] or path == "silences"


def test_alerts_and_silences_without_a_value_come_last(engine: Engine, client: TestClient[Litestar]) -> None:
    engine.evaluate(NOW)
    for duration in ("2h", "until resolved", "1h"):
        made = client.post("/api/v1/silences", json={**SILENCE, "duration": duration})
        assert made.status_code == 201, made.text
    ends = [row["ends"] for row in get(client, "/api/v1/silences", sort="-ends")["rows"]]
    assert ends == [*sorted(filter(None, ends), reverse=True), None]
    assert len(get(client, "/api/v1/alerts", sort="since", limit=1)["rows"]) == 1
