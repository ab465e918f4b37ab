"""Two collectors with a cluster answer as one without: every address that the API describes, with each parameter.

What is asked is made of the description, so that a new address or parameter is asked too. Traffic is random, or all
recordings; a session, with its traces, goes to one of the two. How many questions are drawn, MISSTEP_EXAMPLES says, of
which traffic MISSTEP_SEED.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from collector.cluster.client import Cluster
from collector.cluster.tables import Layout, make
from collector.commands.recordings import find, read
from collector.commands.shift import moved, newest_ns
from collector.query.filters import DIMENSIONS
from tests.clickhouse import Front
from tests.conftest import HTTP, RunningCollector, wait_until
from tests.search import EXAMPLES

pytestmark = [pytest.mark.deep, pytest.mark.timeout(3_000)]
KEY = "k" * 32
RECORDED = Path(os.environ.get("MISSTEP_RECORDINGS", Path(__file__).parents[2] / "shared" / "captures"))
ARROW = "application/vnd.apache.arrow.stream"
# Addresses of the collector itself, or that only change something.
OWN_ADDRESSES = (
    "/healthz", "/readyz", "/metrics", "/openapi.json", "/api/v1/backup", "/api/v1/backup/file", "/api/v1/forget",
    "/api/v1/sanitise", "/api/v1/audit", "/api/v1/tokens", "/api/v1/health", "/api/v1/events/{event_id}/excerpt",
    "/api/v1/receivers", "/api/v1/alerts", "/api/v1/silences", "/api/v1/rules", "/api/v1/rules/{name}",
)  # fmt: skip
# Of an answer, what is of the time at which something arrived or was asked.
OWN = frozenset((
    "from", "to", "after", "next", "exact", "newest", "received_time", "last_received", "since", "etag", "heard",
    "ids_from",
))  # fmt: skip
IDS = re.compile(r"(?:^|_)ids?$|^(?:event|first|last|next|request)s?_id$")
ASKED = 2 * EXAMPLES  # of thousands of questions, each of which takes half a second
SEED = int(os.environ.get("MISSTEP_SEED", "7"))  # of the random traffic
AGAIN = 5  # tries of a question that took too long on a busy machine
RULES = """rules:
  - {name: rate, measure: error_rate, by: [service], window: 1h, condition: "> 1"}
  - {name: p95, measure: p95_ms, by: [tool], window: 6h, condition: "> 1"}
  - {name: again, measure: retries, window: 6h, condition: "> 0"}
  - {name: streaks, measure: streak, by: [service], window: 24h, condition: "> 1"}
  - {name: sessions, measure: failing_sessions, window: 24h, condition: "> 0"}
  - {name: new, measure: new_groups, window: 24h, condition: "> 0"}
"""
ODD: Mapping[str, tuple[Any, ...]] = {
    "tool": ("", " ", "NULL", "\\N", "50%_off", "it's", 'a "b"', "back\\slash", "tab\tline\nend", "🙂", "İSTANBUL"),
    "target": ("", "%", "_", "'", "\\", "x" * 9_000, "ẞ/é", "e\u0301", "\u0000nul"),
    "message": ("", "null", "y" * 70_000, "'; drop table events; --", "line one\nline two", "\ud83d\ude00"),
    "error_class": ("", "null", "ÄrgerError", "404", "a.b.C"),
    "duration_ms": (0, -1, 1e-9, 1e300, 0.1 + 0.2, 2**53 + 1),
    "input_tokens": (0, -5, 2**31, 2**62, 2**70), "cost_usd": (0, -0.0, 1e-12, 1e18), "status_code": (0, -1, 99_999),
    "attempt": (0, 1, 2, 70_000), "sequence": (0, -1, 2**40), "turn": ("", "1"), "subagent": ("", "s1", "s%"),
    "params": ({}, {"a/b~c": None, "": 1}, {"deep": {"er": [1, "x", None]}}, "text", None),
}  # fmt: skip
SQL = (
    "select tool, count(*) as n, sum(duration_ms) as ms from events group by all order by all",
    "select outcome, error_class, count(distinct session) as n from events group by all order by all",
    "select date_trunc('hour', time) as hour, count(*) as n from events group by all order by all",
)  # fmt: skip


def odd(chance: random.Random, one: dict[str, Any]) -> dict[str, Any]:
    """A call with a value that engines may take for another: empty, huge, wild, at the ends of time."""
    name, values = chance.choice(list(ODD.items()))
    return one | {name: chance.choice(values)}


def imported(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same calls as an agent's own file tells them, and some that only it tells."""
    told = [each for each in calls if each["operation"] == "tool"]
    kept = ("session", "tool", "target", "outcome", "message", "time", "params", "call_id", "service")
    return [
        {name: each[name] for name in kept if name in each}
        | {"source": "transcript", "agent_id": "claude-code", "operation": "tool", "strength": 50}
        | {"same": [f"{each['session']}.{each['call_id']}"], "outcome": str(each.get("outcome") or "unknown")}
        for each in [*told, *(each | {"call_id": f"{each['call_id']}+"} for each in told[:2])]
    ]


def random_traffic(chance: random.Random, now: datetime, sessions: int) -> list[list[dict[str, Any]]]:
    """Calls of some sessions over two days, a few of them half a year ago, with whatever a plain event may say."""
    classes = ("FileNotFoundError", "RateLimitError", "DiffApplyFailedError", "TimeoutError", "unheard of", "Ünïcode")
    traffic = []
    for session in range(sessions):
        at = now - timedelta(hours=chance.choice((chance.uniform(0.5, 46), chance.uniform(0.5, 46), 4_000 + session)))
        about = {
            "service": chance.choice(("coder", "triage", "a 'quoted' \\ name")),
            "service_version": chance.choice(("1.0", "1.1", "2.0")), "session": f"s{session} é",
            "model": chance.choice(("m1", "m2", "")), "agent": chance.choice(("main", "helper", "")),
            "environment": chance.choice(("prod", "test", "")), "provider": chance.choice(("p", "")),
        }  # fmt: skip
        calls: list[dict[str, Any]] = []
        for call in range(chance.randrange(1, 14)):
            at += timedelta(seconds=chance.choice((0.5, 3, 20, 100, 4_000)))
            if at > now:  # a collector takes its own time for one that is to come
                break
            one: dict[str, Any] = {name: value for name, value in about.items() if value}
            one |= {
                "operation": chance.choice(("tool", "tool", "tool", "model")), "time": at.isoformat(),
                "outcome": chance.choice(("ok", "ok", "error", "error", "denied", "cancelled", "unknown")),
                "tool": chance.choice(("read_file", "apply_diff", "run", "list 100%_of")),
                "target": chance.choice(("a.py", "b.py", "src/ü.py")), "call_id": f"{session}.{call}",
                "duration_ms": chance.choice((1, 12.5, 900.25, 60_000)),
                "params": {"path": chance.choice(("a.py", "b.py")), "n": chance.randrange(3)},
            }  # fmt: skip
            if one["operation"] == "model":
                del one["tool"]
                one |= {"input_tokens": chance.randrange(9_000), "output_tokens": chance.randrange(900)}
                one |= {"cost_usd": chance.choice((0.001, 0.25))}
            if one["outcome"] == "error":
                kind = chance.choice(classes)
                one |= {"error_class": kind, "message": f"{kind}: line {chance.randrange(3)}"}
                one |= {"status_code": 429, "retry_after_ms": 2000} if kind == "RateLimitError" else {}
            calls.append(odd(chance, one) if chance.random() < 0.15 else one)
        traffic.append(calls)
    return traffic


class Pair(NamedTuple):
    """Two collectors with a cluster, and one alone that has what both have."""

    sharing: tuple[RunningCollector, RunningCollector]
    alone: RunningCollector

    def send(self, path: str, body: bytes | str, kind: str, session: str) -> None:
        """To one of the two by the session, and to the one alone."""
        number = hashlib.sha256(session.encode()).digest()[0] % 2
        for each in (self.sharing[number], self.alone):
            answer = each.post(path, body, {"content-type": kind})
            assert answer.status_code in (200, 202, 400), answer.text

    def settled(self) -> None:
        """Waits until all is published, and computed."""
        for each in (*self.sharing, self.alone):
            each.kept_up()
        wait_until(
            lambda: all(each.get("/api/v1/breakdown")["exact"] for each in (*self.sharing, self.alone)), seconds=120
        )

    def answers(self, method: str, path: str, **more: Any) -> tuple[Any, Any]:
        """Status and what it says, of the cluster and of the one alone."""
        first = self.sharing[len(path) % 2]
        told = [HTTP.request(method, each.url + path, timeout=90, **more) for each in (first, self.alone)]
        return tuple((each.status_code, shown(each)) for each in told)  # type: ignore[return-value]


def shown(answer: Any) -> Any:
    if answer.headers.get("content-type", "").startswith("application/json"):
        return plain(answer.json())
    return answer.headers.get("content-type") if ARROW in answer.headers.get("content-type", "") else answer.text


def plain(value: Any) -> Any:
    """Without what each collector has its own of; lists without their order, as ties have none."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items() if name not in OWN and not IDS.search(name)}
    if isinstance(value, list):
        return sorted((plain(each) for each in value), key=lambda each: json.dumps(each, sort_keys=True))
    return float(f"{value:.6g}") if isinstance(value, float) else value


def made(clickhouse: Front, folder: Path) -> Pair:
    url = clickhouse.database()
    with closing(Cluster(url)) as cluster:
        make(cluster, Layout(), 400 * 86_400)
    running = []
    for number, settings in enumerate(({"CLUSTER": url}, {"CLUSTER": url}, {})):
        (place := folder / str(number)).mkdir()
        running.append(RunningCollector(place, {"HASH_KEY": KEY, "RETENTION": "400d", **settings}).start())
    return Pair((running[0], running[1]), running[2])


@pytest.fixture(scope="module")
def pair(clickhouse: Front, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """With random traffic, some of it told twice: by telemetry and by the agents' own files, or corrected later."""
    made_pair = made(clickhouse, tmp_path_factory.mktemp("pair"))
    chance = random.Random(SEED)

    def sent(calls: list[dict[str, Any]]) -> None:
        made_pair.send("/v1/events", json.dumps(calls), "application/json", calls[0]["session"])

    traffic = random_traffic(chance, datetime.now(UTC).replace(microsecond=0), 40)
    for calls in traffic:
        sent(calls)
    made_pair.settled()
    for calls in traffic:
        if chance.random() < 0.4 and (told := imported(calls)):
            sent(told)
        if chance.random() < 0.4:
            sent([each | {"outcome": "denied", "strength": 90} for each in calls[::2]])
    made_pair.settled()
    yield made_pair
    for each in (*made_pair.sharing, made_pair.alone):
        each.stop()


def questions(pair: Pair, chance: random.Random) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Method, address and body of whatever can be asked, each parameter with each of its values."""
    one = pair.alone
    span = {"from": "-370d"}
    failed = one.get("/api/v1/events", **span, outcome="error", limit="1", operation="tool")["rows"][0]
    names = {
        "event_id": failed["event_id"], "fingerprint": failed["fingerprint"] or "1", "session": failed["session"],
        "dimension": "tool", "name": "x", "id": "none",
    }  # fmt: skip
    lessons = one.get("/api/v1/lessons")["rows"]
    if lessons:
        names["id"] = lessons[0]["id"]
    values = {
        each.name: [
            str(row["value"] or "") for row in one.get(f"/api/v1/values/{each.name}", **span, limit="5")["rows"]
        ]
        for each in DIMENSIONS
    }
    for path, verbs in HTTP.get(f"{one.url}/openapi.json").json()["paths"].items():
        if path in OWN_ADDRESSES or "get" not in verbs:
            continue
        takes = [each for each in verbs["get"].get("parameters", ()) if each["in"] == "query"]
        needed = {each["name"]: str(each.get("example", "x")) for each in takes if each.get("required")}
        known = {each["name"] for each in takes}
        plainly = needed | ({"from": "-370d"} if "from" in known else {})
        places = [path.format(**names)]
        if "{dimension}" in path:
            places = [path.format(**{**names, "dimension": each.name}) for each in DIMENSIONS]
        for place in places:
            yield "GET", place, plainly
            yield "GET", place, needed
        for each in takes:
            for value in values_of(each, values, chance):
                yield "GET", places[0], plainly | {each["name"]: value}
        for measure in (each for each in takes if each["name"] in ("measure", "measures")):
            for name in (measure["schema"].get("items") or measure["schema"]).get("enum", ()):
                yield "GET", places[0], plainly | {measure["name"]: name}
    for sql in SQL:
        yield "POST", "/api/v1/sql", {"sql": sql}


def some(pair: Pair, chance: random.Random) -> list[tuple[str, str, dict[str, Any]]]:
    every = list(questions(pair, chance))
    return chance.sample(every, min(ASKED, len(every)))


def values_of(parameter: Mapping[str, Any], values: Mapping[str, list[str]], chance: random.Random) -> list[str]:
    name, schema = parameter["name"], parameter.get("schema", {})
    if name in ("cursor", "since", "to", "after"):
        return []
    found = [str(each) for each in schema.get("enum", ())] or [
        str(each) for each in (schema.get("items") or {}).get("enum", ())
    ]
    if name in values:  # of the filters that all take, one value each
        return [chance.choice([*values[name][:3], f"!{values[name][0]}" if values[name] else "!x", ""])]
    if "example" in parameter:
        found.append(str(parameter["example"]))
    if schema.get("type") == "boolean":
        found += ["true", "false"]
    return list(dict.fromkeys(found))[:12]


def differences(pair: Pair, asked: list[tuple[str, str, dict[str, Any]]]) -> list[str]:
    """The questions of which the answers differ, with the first place where they do."""
    wrong = []
    for method, path, given in asked:
        more: dict[str, Any] = {"params": given} if method == "GET" else {"json": given, "params": {"from": "-370d"}}
        for _ in range(AGAIN):
            one, other = pair.answers(method, path, **more)
            if 503 not in (one[0], other[0]):
                break
        if one[0] >= 500 or one != other:
            wrong.append(f"{method} {path} {given}: {where(one, other)}")
    return wrong


def where(one: Any, other: Any, place: str = "") -> str:
    if isinstance(one, dict) and isinstance(other, dict):
        names = [name for name in {**one, **other} if one.get(name, "-") != other.get(name, "-")]
        return where(one.get(names[0], "-"), other.get(names[0], "-"), f"{place}.{names[0]}") if names else place
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        if len(one) != len(other):
            return f"{place}: {len(one)} and {len(other)}: {str(one)[:300]} | {str(other)[:300]}"
        for number, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            if mine != theirs:
                return where(mine, theirs, f"{place}[{number}]")
    return f"{place}: {str(one)[:300]} | {str(other)[:300]}"


def pages(pair: Pair, path: str) -> None:
    """All pages, by cursor."""
    told: list[list[Any]] = []
    for each in (pair.sharing[0], pair.alone):
        rows, cursor = [], ""
        while True:
            answer = each.get(path, limit="37", **{"from": "-370d"}, **({"cursor": cursor} if cursor else {}))
            rows += answer["rows"]
            if not (cursor := answer.get("next") or ""):
                break
        told.append(plain(rows))
    assert told[0] == told[1]
    assert len(told[0]) > 37


def test_pages_by_cursor_are_those_of_one(pair: Pair) -> None:
    pages(pair, "/api/v1/events")


def test_rules_measure_what_those_of_one_do(pair: Pair) -> None:
    yaml = {"content-type": "application/yaml"}
    one, other = pair.answers("POST", "/api/v1/rules/backtest", content=RULES, headers=yaml)
    assert one[0] == other[0] == 200, one
    assert one == other


def test_every_answer_of_two_collectors_is_that_of_one(pair: Pair) -> None:
    found = differences(pair, some(pair, random.Random(3)))
    assert not found, "\n".join(found[:200])


def test_every_answer_about_recordings(clickhouse: Front, tmp_path: Path) -> None:
    """Those of `MISSTEP_RECORDINGS`, or beside the project; without any, of the tests' own data."""
    folders = sorted(each for each in RECORDED.glob("*") if each.is_dir()) if RECORDED.is_dir() else []
    recorded = made(clickhouse, tmp_path)
    for folder in folders or [Path(__file__).parent / "data"]:
        files = find([folder])
        newest = max((newest_ns(each) for file in files for each in read(file)), default=0)
        by_ns = int(datetime.now(UTC).timestamp() * 1e9) - 3_600 * 10**9 - newest
        for file in files:
            for each in read(file):
                later = moved(each, lambda time_ns: time_ns + by_ns)  # noqa: B023
                recorded.send(f"/v1/{each.signal}", later.body, each.media_type, folder.name)
    recorded.settled()
    try:
        found = differences(recorded, some(recorded, random.Random(5)))
    finally:
        for running in (*recorded.sharing, recorded.alone):
            running.stop()
    assert not found, "\n".join(found[:200])
