"""The query API from outside: every address in JSON and Arrow, refusals, authentication, and never a 5xx."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urljoin

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from litestar import Litestar
from litestar.testing import TestClient

from collector.api.describe import ANSWERS
from collector.api.endpoints import ENDPOINTS
from collector.api.representations import ARROW
from collector.classify.classify import load_taxonomy
from collector.engine.duckdb.store import Store
from collector.errors import QueryTooLarge
from collector.query.filters import DIMENSIONS
from collector.settings import Settings
from collector.times import rfc3339
from tests.api import application, events
from tests.recorded import HOUR, MINUTE, NOW, event, failed, holding
from tests.search import searching

DOCS = (Path(__file__).parent.parent / "docs" / "api.md").read_text(encoding="utf-8")
ALWAYS = {"from": "2026-11-20T00:00:00Z", "to": "2026-11-22T00:00:00Z"}


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    opened = Store.open("duckdb://:memory:")
    holding(opened, events())
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def client(store: Store) -> Iterator[TestClient[Litestar]]:
    with TestClient(application(store), raise_server_exceptions=False) as opened:
        yield opened


def ask(client: TestClient[Litestar], path: str, **params: str) -> Any:
    answer = client.get(f"/api/v1/{path}", params=ALWAYS | params)
    assert answer.status_code == 200, answer.text
    return answer.json()


PATHS = [
    "breakdown", "timeseries", "compare", "changes", "values/tool", "events", "streaks", "streaks/summary",
    "streaks/limits", "streaks/signals", "streaks/agreement",
    "retries", "retries/storms", "costs", "retries/curve", "groups", "sessions",
    "sessions/s1", "sources",
]  # fmt: skip
PLACES = {
    "{dimension:str}": "tool", "{event_id:str}": "9", "{fingerprint:str}": str(2**64 - 1), "{session:path}": "s1",
}  # fmt: skip
NEEDED = {"/check": {"of": "read_file"}, "/search": {"q": "read"}}
# What these events are not about: its tests look at the answers.
NOT_HERE = ("/texts/wordings", "/parameters", "/lessons", "/lessons/{id:str}")
SINGLES = ["events/9", f"groups/{2**64 - 1}"]


@pytest.mark.parametrize("path", PATHS)
def test_every_list_answers_the_same_rows_in_json_and_arrow(client: TestClient[Litestar], path: str) -> None:
    body = ask(client, path)
    answer = client.get(f"/api/v1/{path}", params=ALWAYS, headers={"Accept": ARROW})
    assert answer.headers["content-type"] == ARROW
    frame = pl.read_ipc_stream(io.BytesIO(answer.content))
    assert len(frame) == len(body["rows"]) > 0
    assert [name for name in body["rows"][0] if name not in ("remedies", "untold", "checks")] == frame.columns
    assert (body["truncated"], body["exact"]) == (False, True)
    for name, kind in frame.schema.items():
        if isinstance(kind, pl.Datetime):
            assert kind == pl.Datetime("ns", "UTC")
            stamps = [
                None if at is None else f"{at.replace('+00:00', 'Z')}" for at in frame[name].dt.to_string("iso:strict")
            ]
            assert stamps == [row[name] for row in body["rows"]]


@pytest.mark.parametrize("path", SINGLES)
def test_one_thing_answers_with_itself_whatever_its_time(client: TestClient[Litestar], path: str) -> None:
    answer = client.get(f"/api/v1/{path}")
    assert answer.status_code == 200
    assert answer.json()["fingerprint"] == str(2**64 - 1)
    frame = pl.read_ipc_stream(io.BytesIO(client.get(f"/api/v1/{path}", headers={"Accept": ARROW}).content))
    assert (len(frame), frame["fingerprint"][0]) == (1, 2**64 - 1)


def test_an_event_is_written_for_people_and_javascript(client: TestClient[Litestar]) -> None:
    row = client.get("/api/v1/events/9").json()
    assert row["time"] == "2026-11-21T21:32:51.123456789Z"
    assert (row["event_id"], row["params_hash"], row["sequence"]) == ("9", "7", 3)
    assert (row["params"], row["attributes"]) == ({"path": "~/a"}, {"k": [1]})


def test_answers_page_through_next(client: TestClient[Litestar]) -> None:
    for path in ("events", "sessions/s1"):
        whole = ask(client, path)
        found, page = [], ask(client, path, limit="2")
        while True:
            found += page["rows"]
            if page["next"] is None:
                break
            page = ask(client, path, limit="2", cursor=page["next"])
        assert found == whole["rows"]


def test_live_reading_continues_after_what_was_seen(client: TestClient[Litestar], store: Store) -> None:
    seen = ask(client, "events")["after"]
    assert ask(client, "events", after=seen)["rows"] == []
    assert ask(client, "events", after=seen)["after"] == seen
    nothing = {"service": "not yet there"}
    assert ask(client, "events", **nothing)["after"] == seen
    for params in ({"limit": "1"}, {"limit": "1", "sort": "time"}):
        assert ask(client, "events", **params)["after"] == seen
    page, found = ask(client, "events", after="0.0", limit="2"), list[Any]()
    assert page["truncated"]
    while page["rows"]:
        found += [row["event_id"] for row in page["rows"]]
        page = ask(client, "events", after=page["after"], limit="2")
    assert sorted(found) == sorted(row["event_id"] for row in ask(client, "events")["rows"])
    holding(store, [*events(), event(3, received_ns=NOW + 1)])
    assert [row["event_id"] for row in ask(client, "events", after=seen)["rows"]] == ["3"]
    holding(store, events())


def test_every_class_is_told_with_what_to_do(client: TestClient[Litestar]) -> None:
    rows = client.get("/api/v1/classes").json()["rows"]
    taxonomy = load_taxonomy().classes
    assert [row["error_class"] for row in rows] == list(taxonomy)
    assert {row["error_class"]: row["advice_person"] for row in rows} == {
        name: row.advice_person for name, row in taxonomy.items()
    }
    last = client.get("/api/v1/classes", params={"limit": "3", "sort": "-error_class"}).json()
    assert [row["error_class"] for row in last["rows"]] == sorted(taxonomy)[:-4:-1]
    assert last["truncated"] is True
    answer = client.get("/api/v1/classes", headers={"accept": ARROW})
    frame = pl.read_ipc_stream(io.BytesIO(answer.content))
    assert frame["error_class"].to_list() == list(taxonomy)
    assert frame.schema["mistake"] == pl.Boolean
    refused = client.get("/api/v1/classes", params={"sort": "advice"})
    assert (refused.status_code, refused.json()["error"]["parameter"]) == (400, "sort")
    assert client.get("/api/v1/classes", params={"tool": "x"}).status_code == 400


def test_while_streaks_are_recomputed_answers_say_so(client: TestClient[Litestar], store: Store) -> None:
    recomputing = store.rebuild()
    next(recomputing)
    for path, exact in (("streaks/summary", False), ("retries", False), ("breakdown", True)):
        answer = client.get(f"/api/v1/{path}", params=ALWAYS)
        assert (answer.json()["exact"], "etag" in answer.headers) == (exact, exact)
    assert list(recomputing)
    assert ask(client, "streaks/summary")["exact"]


def test_a_session_key_may_hold_anything(client: TestClient[Litestar]) -> None:
    rows = ask(client, f"sessions/{quote('/with//slash and ü/', safe='')}")["rows"]
    assert [row["event_id"] for row in rows] == ["5"]


def test_an_empty_range_says_where_the_newest_event_is(client: TestClient[Litestar]) -> None:
    for path in ("breakdown", "events", "streaks", "timeseries"):
        body = client.get(f"/api/v1/{path}", params={"from": "2020-01-01", "to": "2020-01-02"}).json()
        assert body["newest"] == "2026-11-21T21:37:51.123456789Z"
        assert "newest" not in ask(client, path)


def test_sources_tell_what_to_switch_on(client: TestClient[Litestar]) -> None:
    rows = {row["source"]: row for row in ask(client, "sources")["rows"]}
    assert rows["codex"]["remedies"] == {"parameters": "log_tool_arguments = true in [otel]"}
    assert rows["roo-code"]["remedies"] == {}


def test_filters_narrow_every_list(client: TestClient[Litestar]) -> None:
    assert [row["event_id"] for row in ask(client, "events", target="/a\\,b")["rows"]] == ["9"]
    mistakes = ask(client, "events", mistake="true", source="!roo-code", session="s1")
    assert [row["event_id"] for row in mistakes["rows"]] == ["9"]
    assert ask(client, "breakdown", tool="")["rows"][0]["calls"] == 1
    assert ask(client, "breakdown", q="DOES NOT")["rows"][0]["errors"] == 13


def test_a_rate_leaves_out_who_reports_only_failures(client: TestClient[Litestar]) -> None:
    row = ask(client, "breakdown")["rows"][0]
    assert (row["errors"], row["rated"], row["error_rate"]) == (13, 15, pytest.approx(12 / 15))
    assert ask(client, "breakdown", source="roo-code")["rows"][0]["error_rate"] is None


@pytest.mark.parametrize(
    ("path", "query", "parameter", "allowed"),
    [
        ("breakdown", "toool=a", "toool", "tool"),
        ("breakdown", "by=toool", "by", "tool"),
        ("breakdown", "measures=p99", "measures", "p95_ms"),
        ("breakdown", "sort=-p95_ms", "sort", "errors"),
        ("breakdown", "previous=yes", "previous", "true"),
        ("breakdown", "limit=0", "limit", "1 to 10000"),
        ("breakdown", "limit=10001", "limit", "1 to 10000"),
        ("breakdown", "mistake=1", "mistake", "true"),
        ("breakdown", "status_code=abc", "status_code", "-2147483648 to 2147483647"),
        ("breakdown", "tool=a&tool=b", "tool", None),
        ("breakdown", "from=yesterday", "from", "-24h"),
        ("breakdown", "from=-1h&to=-2h", "from", "-24h"),
        ("compare", "measure=p99", "measure", "p95_ms"),
        ("compare", "a=3.1", "dimension", None),
        ("compare", "dimension=model&a=x", "b", None),
        ("changes", "measure=calls", "measure", "errors"),
        ("timeseries", "bucket=5", "bucket", "m"),
        ("timeseries", "bucket=1ms", "bucket", None),
        ("timeseries", "bucket=0s", "bucket", None),
        ("retries/storms", "window=0m", "window", None),
        ("values/toool", "", "dimension", "tool"),
        ("events", "cursor=zzz", "cursor", None),
        ("events", "after=-1h", "after", None),
        ("events", "sort=tool", "sort", "time"),
        ("events/abc", "", "event_id", "0 to 18446744073709551615"),
        ("events/9", "tool=a", "tool", None),
        ("streaks", "scope=file", "scope", "target"),
        ("streaks", "kind=bug", "kind", "mistake"),
        ("streaks", "state=closed", "state", "ended"),
        ("streaks", "min_length=x", "min_length", "1 to 10000"),
        ("retries", "by=recovered", "by", "error_class"),
        ("streaks/limits", "by=tool,recovered", "by", "error_class"),
        ("groups", "state=old", "state", "new"),
        ("groups/-1", "", "fingerprint", "0 to 18446744073709551615"),
        ("sessions", "sort=name", "sort", "worst_streak"),
        ("sessions", "sort=-strip", "sort", "worst_streak"),
    ],
)
def test_a_parameter_that_cannot_be_used_is_named(
    client: TestClient[Litestar], path: str, query: str, parameter: str, allowed: str | None
) -> None:
    answer = client.get(f"/api/v1/{path}?{query}")
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["parameter"] == parameter
    assert parameter in error["message"] or error["value"] in error["message"]
    assert (allowed in error["allowed"]) if allowed else True
    assert error["value"] in f"{path}?{query}"


@pytest.mark.parametrize("path", ["events/12345", "groups/12345", "nothing"])
def test_what_is_not_there_is_404_with_a_reason(client: TestClient[Litestar], path: str) -> None:
    answer = client.get(f"/api/v1/{path}")
    assert answer.status_code == 404
    assert answer.json()["error"]["message"]
    assert client.get(f"/api/v1/{path}", headers={"Accept": ARROW}).status_code == 404


def test_an_address_that_is_not_there_or_takes_another_method_is_named(client: TestClient[Litestar]) -> None:
    nothing = client.get("/api/v1/brakdown").json()["error"]["message"]
    assert nothing == "there is nothing at /api/v1/brakdown; /openapi.json describes every address"
    other = client.delete("/api/v1/breakdown")
    assert (other.status_code, set(other.headers["allow"].split(", "))) == (405, {"GET", "OPTIONS"})
    assert other.json()["error"]["message"].startswith("DELETE is not allowed at /api/v1/breakdown, only ")


def test_only_of_a_filter_the_remedy_for_a_second_value_is_a_list(client: TestClient[Litestar]) -> None:
    twice = [client.get(f"/api/v1/events?{name}=1&{name}=2").json()["error"]["message"] for name in ("tool", "limit")]
    assert twice == ["tool is given twice; write tool=a,b for either of two values", "limit is given twice"]


def test_a_merged_event_redirects_to_the_one_that_is_left(client: TestClient[Litestar], store: Store) -> None:
    store.execute("insert into redirects values (1234, 9, 0)")
    answer = client.get("/api/v1/events/1234", follow_redirects=False)
    assert answer.status_code == 308
    behind_a_proxy = "https://host/below/api/v1/events/1234"
    assert urljoin(behind_a_proxy, answer.headers["location"]) == "https://host/below/api/v1/events/9"
    again = client.get("/api/v1/events/1234/", follow_redirects=False).headers["location"]
    assert urljoin(f"{behind_a_proxy}/", again) == "https://host/below/api/v1/events/9"
    assert client.get("/api/v1/events/1234").json()["event_id"] == "9"


def test_a_question_that_takes_too_long_is_a_503() -> None:
    store = Store.open("duckdb://:memory:")
    store.execute(
        "insert into events (time_ns, received_ns, event_id, session, operation, outcome, reported_streak)"
        f" select {NOW} - n, 0, n, n % 1000, 'tool', 'error', 1 from range(300_000) as numbers(n)"
    )
    with TestClient(application(store, query_seconds=0.05), raise_server_exceptions=False) as client:
        answer = client.get("/api/v1/streaks/signals", params=ALWAYS)
    store.close()
    assert answer.status_code == 503
    assert "narrow the range" in answer.json()["error"]["message"]
    assert int(answer.headers["retry-after"]) >= 1


def test_a_question_that_needs_too_much_memory_says_so() -> None:
    store = Store.open("duckdb://:memory:", {"memory_limit": "40MB", "temp_directory": ""})
    with pytest.raises(QueryTooLarge, match="more memory"):
        store.rows("select count(*) from (select distinct hash(n) from range(20_000_000) as numbers(n))")
    store.close()


def test_a_query_is_interrupted_when_its_client_goes_away() -> None:
    store = Store.open("duckdb://:memory:")
    store.execute(
        "insert into events (time_ns, received_ns, event_id, session, operation, outcome, reported_streak)"
        f" select {NOW} - n, 0, n, n % 1000, 'tool', 'error', 1 from range(1_000_000) as numbers(n)"
    )
    scope = {
        "type": "http", "method": "GET", "path": "/api/v1/streaks/signals", "raw_path": b"/api/v1/streaks/signals",
        "query_string": urlencode(ALWAYS).encode(), "headers": [], "http_version": "1.1", "scheme": "http",
        "root_path": "", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2), "extensions": {},
    }  # fmt: skip
    said: list[Any] = []

    async def ask_and_leave() -> None:
        messages = iter([{"type": "http.request", "body": b"", "more_body": False}])

        async def receive() -> Any:
            if message := next(messages, None):
                return message
            await asyncio.sleep(0.2)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            said.append(message)

        await application(store)(scope, receive, send)  # type: ignore[arg-type]

    asyncio.run(ask_and_leave())
    assert said[0]["status"] == 499
    store.close()


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("retries", lambda row: (row["lasting"], row["not_known_yet"])),
        ("retries?by=tool", lambda row: (row["lasting"], row["not_known_yet"])),
        ("compare?measure=lasting", lambda row: (int(row["b_part"]), 1 - int(row["b_part"]))),
        ("events?outcome=error", lambda row: (int(row["recovered"] is False), int(row["recovered"] is None))),
        ("events/7", lambda row: (int(row["recovered"] is False), int(row["recovered"] is None))),
        ("streaks", lambda row: (int(row["state"] == "ended"), int(row["state"] == "open"))),
    ],
)
def test_a_session_that_is_silent_for_an_hour_is_known_without_a_new_event(
    store: Store, path: str, told: Callable[[Any], tuple[int, int]]
) -> None:
    """By the collector's clock, since its last record was received; an answer's tag changes at that moment."""
    received = NOW + 5 * MINUTE
    holding(store, [failed(7, received_ns=NOW), event(6, outcome="cancelled", received_ns=received)])
    now = received + HOUR
    client = TestClient(application(store, clock=lambda: now))
    path, _, more = path.partition("?")
    asked = dict(parse_qsl(more)) | ({} if "/" in path else {"from": rfc3339(NOW - HOUR), "to": rfc3339(NOW + HOUR)})

    def get(tag: str = "") -> Any:
        return client.get(f"/api/v1/{path}", params=asked, headers={"If-None-Match": tag} if tag else {})

    def row(answer: Any) -> Any:
        return answer.json()["rows"][0] if "rows" in answer.json() else answer.json()

    first = get()
    assert told(row(first)) == (0, 1)
    tag = first.headers["etag"]
    assert get(tag).status_code == 304
    now += 1
    later = get(tag)
    assert later.status_code == 200
    assert told(row(later)) == (1, 0)
    if "to" in asked:  # else it is of a range that moves
        now += 100 * HOUR
        assert get(later.headers["etag"]).status_code == 304, "nothing changes any more"


@pytest.mark.parametrize("accept", ["application/json", ARROW])
@pytest.mark.parametrize("asked", [ALWAYS, {"from": "-7d"}])
def test_an_answer_that_has_not_changed_is_not_worked_out_again(
    store: Store, accept: str, asked: dict[str, str]
) -> None:
    holding(store, events())
    now = NOW
    client = TestClient(application(store, clock=lambda: now))

    def get(path: str, tag: str = "", **params: str) -> Any:
        headers = {"Accept": accept, **({"If-None-Match": tag} if tag else {})}
        return client.get(f"/api/v1/{path}", params=asked | params, headers=headers)

    for path in ("breakdown", "compare", "groups", "events"):
        first = get(path)
        tag = first.headers["etag"]
        assert (first.status_code, first.headers["cache-control"]) == (200, "no-cache")
        again = get(path, f'W/"x", {tag}')
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert (again.headers["vary"], again.headers["cache-control"]) == ("Accept", "no-cache")
        now += 60 * 10**9
        assert get(path, tag).status_code == (200 if "to" not in asked else 304)
        now -= 60 * 10**9
        assert get(path, tag, tool="other").status_code == 200
        assert get(path, tag, limit="7").status_code == 200
        assert client.get(f"/api/v1/{path}", params=asked, headers={"If-None-Match": tag}).status_code in (
            (304,) if accept != ARROW else (200,)
        )
        store.execute("delete from group_marks")  # a write, whatever it changes
        assert get(path, tag).status_code == 200
    assert "etag" not in get("breakdown", toool="a").headers
    ends = {get("breakdown", to=f"2026-11-20T10:00:{second}Z").headers["etag"] for second in (10, 20)}
    assert len(ends) == 2, "ranges that have ended, of more than a thousand times as long"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 403),
        ({"Authorization": "Bearer right"}, 200),
        ({"Authorization": "Basic x"}, 401),
    ],
)
def test_tokens_are_asked_for_where_there_are_any(store: Store, headers: dict[str, str], status: int) -> None:
    with TestClient(application(store, settings=Settings(query_tokens=("right",)))) as client:
        for path in [*PATHS, *SINGLES]:
            assert client.get(f"/api/v1/{path}", headers=headers).status_code == status


@pytest.mark.parametrize(("host", "status"), [("localhost:4318", 200), ("127.0.0.1", 200), ("evil.example", 403)])
def test_on_loopback_only_our_own_names_are_answered(store: Store, host: str, status: int) -> None:
    """The browser of a page that rebinds its name to 127.0.0.1 sends this name in `Host`."""
    with TestClient(application(store, allowed_hosts=frozenset({"localhost", "127.0.0.1"}))) as client:
        answer = client.get("/api/v1/breakdown", headers={"Host": host})
    assert answer.status_code == status


def test_the_description_names_every_address_and_parameter(client: TestClient[Litestar]) -> None:
    described = client.get("/openapi.json").json()["paths"]
    for endpoint in ENDPOINTS:
        path = "/api/v1" + re.sub(r":\w+}", "}", endpoint.path)
        operation = described[path]["get"]
        names = {parameter["name"] for parameter in operation["parameters"]}
        assert names >= {parameter.name for parameter in endpoint.takes}
        assert all(parameter["description"] for parameter in operation["parameters"])
        assert {"200", "400", "503"} <= set(operation["responses"])
        if endpoint.filters:
            places = {parameter.name for parameter in endpoint.takes}
            assert names >= {dimension.name for dimension in DIMENSIONS} - places


def test_the_description_shows_an_answer_of_every_address(client: TestClient[Litestar]) -> None:
    """With the columns that it has, and none that it has not, dimensions asked for aside; nulls are not shown."""
    described = client.get("/openapi.json").json()["paths"]
    dimensions = {dimension.name for dimension in DIMENSIONS}
    for endpoint in ENDPOINTS:
        operation = described["/api/v1" + re.sub(r":\w+}", "}", endpoint.path)]["get"]
        shown = operation["responses"]["200"]["content"]["application/json"]["examples"]["example"]["value"]
        row = ANSWERS[endpoint.path]
        told = {name: value for name, value in row.items() if value is not None}
        assert set(shown if endpoint.one else shown["rows"][0]) == set(told), endpoint.path
        path = endpoint.path
        for place, word in PLACES.items():
            path = path.replace(place, word)
        params = (ALWAYS if endpoint.filters else {}) | NEEDED.get(path, {})
        given = client.get(f"/api/v1{path}", params=params).json()
        schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
        assert endpoint.one or set(given) <= set(schema["properties"]), endpoint.path
        if endpoint.path in NOT_HERE:  # these events have none: the columns are compared where there are some
            assert not given.get("rows"), endpoint.path
            continue
        columns = set(given) if endpoint.one else set(given["rows"][0])
        assert columns <= set(row), endpoint.path
        assert set(row) - columns <= dimensions, endpoint.path


def test_the_documentation_names_every_address_and_dimension() -> None:
    words = {dimension.name for dimension in DIMENSIONS}
    words |= {re.sub(r":\w+}", "}", endpoint.path.lstrip("/")) for endpoint in ENDPOINTS}
    assert sorted(word for word in words if f"`{word}`" not in DOCS) == []


NAMES = sorted(
    {dimension.name for dimension in DIMENSIONS}
    | {parameter.name for endpoint in ENDPOINTS for parameter in endpoint.takes}
    | {"from", "to", "q", "unknown"}
)
LIKELY = st.sampled_from(
    [
        *(
            "true",
            "false",
            "",
            "!",
            "!a",
            "a,b",
            "\\",
            "*",
            "tool",
            "tool,model",
            "target",
            "session",
            "recovered",
            "error",
        ),
        *("ok", "open", "fingerprint", "-errors", "-time", "sessions,p95_ms", "-24h", "-9d", "now", "5m", "1", "10000"),
        *("1.2", "1.2.3", "2026-11-21"),
    ]
)


@searching(6)
@given(
    path=st.sampled_from([*PATHS, *SINGLES, "values/{}", "events/{}", "groups/{}", "sessions/{}"]),
    place=st.text(),
    params=st.dictionaries(st.sampled_from(NAMES), LIKELY | st.text(), max_size=4),
    arrow=st.booleans(),
)
def test_no_query_string_is_our_fault(
    client: TestClient[Litestar], path: str, place: str, params: dict[str, str], arrow: bool
) -> None:
    query = urlencode(params, errors="surrogatepass")
    place = quote(place, safe="", errors="surrogatepass") or "x"
    answer = client.get(f"/api/v1/{path.format(place)}?{query}", headers={"Accept": ARROW} if arrow else {})
    assert answer.status_code in (200, 400, 404), answer.text


@searching(2)
@given(st.sampled_from(PATHS), st.binary(max_size=60))
def test_no_bytes_in_a_query_string_are_our_fault(client: TestClient[Litestar], path: str, query: bytes) -> None:
    plain = "".join(chr(byte) for byte in query if 32 < byte < 127 and byte != ord("#"))
    assert client.get(f"/api/v1/{path}?{plain}").status_code in (200, 400)
