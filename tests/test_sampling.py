"""Upstream sampling is recognised by signs in records and by gaps, noted per sender, and shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from collector.correlate.correlate import Correlator
from collector.engine.duckdb.lookup import Lookup
from collector.engine.duckdb.store import Store
from collector.query.filters import Selection
from collector.query.queries import sources
from collector.recognise.sampling import READ, Signs, gaps, load_signs
from collector.tables import load_toml, schemas
from tests.doors import NOW, logs, spans, taken

ROWS = load_toml(schemas().joinpath("sampling.toml"))["signs"]
EXAMPLES = [(one, row["key"]) for row in ROWS for one in row["examples"]]
TOOL = {
    "name": "execute_tool read",
    "attributes": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "read"},
}


def read(signs: Signs, text: str) -> tuple[float | None, str]:
    return signs.read(json.loads(text)) if text[0] == "{" else signs.read({}, text)


@pytest.mark.parametrize(("example", "key"), EXAMPLES)
def test_every_sign_reads_its_examples(example: str, key: str) -> None:
    text, _, wanted = example.rpartition(" => ")
    kept, name = read(load_signs(), text)
    assert kept == {"null": None, "none": 1.0}.get(wanted) if wanted in ("null", "none") else kept == float(wanted)
    assert name.endswith(key) or wanted == "none"


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['key']} {row['says']}" for row in ROWS])
def test_no_sign_reads_its_counter_examples(row: dict[str, Any]) -> None:
    assert row["says"] in READ
    assert row.keys() <= {"key", "says", "tracestate", "where", "examples", "counter_examples"}
    assert row["examples"]
    for text in row["counter_examples"]:
        kept, name = read(load_signs(), text)
        assert kept == 1.0 or not name.endswith(row["key"]), text


GAPS = [
    ([1, 2, 3], (3, 3)),
    ([3, 1, "2", None, "x"], (3, 3)),
    ([1, 4, 4, 10], (3, 10)),
    ([5, 90_000], (2, 2)),
    ([], (0, 0)),
]


@pytest.mark.parametrize(("numbers", "expected"), GAPS)
def test_gaps_are_counted_within_a_session(numbers: list[Any], expected: tuple[int, int]) -> None:
    assert gaps(("a", number) for number in numbers) == expected
    came, were = gaps((session, number) for session in "ab" for number in numbers)
    assert (came, were) == (2 * expected[0], 2 * expected[1])


def claude(number: int) -> dict[str, Any]:
    names = {"event.name": "claude_code.tool_result", "tool_name": "Read", "success": "true", "session.id": "s"}
    return {"attributes": names | {"event.sequence": number, "tool_use_id": f"t{number}"}}


def with_attributes(**attributes: Any) -> dict[str, Any]:
    return TOOL | {"parentSpanId": "f", "attributes": TOOL["attributes"] | attributes}  # type: ignore[operator]


# A request, its signal, and what is noted of its sender: (source, service) → (kept, by).
NOTED = [
    ("nothing", spans(TOOL, service="a"), "traces", {}),
    ("the trace state", spans(TOOL | {"traceState": "ot=th:c"}, service="a"), "traces",
     {("", "a"): (0.25, "tracestate ot=th")}),
    ("everything kept", spans(TOOL | {"traceState": "ot=th:0"}, service="a"), "traces", {}),
    ("a root span that is no report", spans({"name": "GET /", "attributes": {"sampler.type": "probabilistic",
     "sampler.param": 0.5}}, service="a"), "traces", {("", "a"): (0.5, "sampler.param")}),
    ("a report in the middle", spans({"name": "x", "parentSpanId": "f"}, with_attributes(SampleRate=10), service="a"),
     "traces", {("", "a"): (0.1, "SampleRate")}),
    ("different shares", spans(with_attributes(SampleRate=19), with_attributes(SampleRate=1), service="a"), "traces",
     {("", "a"): (0.1, "SampleRate")}),
    ("a share that nobody tells", spans({"name": "x", "attributes": {"sampler.type": "ratelimiting"}}, service="a"),
     "traces", {("", "a"): (None, "sampler.type")}),
    ("records without gaps", logs(claude(7), claude(8), service="claude-code"), "logs", {}),
    ("gaps", logs(claude(7), claude(11), service="claude-code"), "logs",
     {("claude-code", "claude-code"): (0.4, "gaps in event.sequence")}),
]  # fmt: skip


@pytest.mark.parametrize(("body", "signal", "expected"), [case[1:] for case in NOTED], ids=[case[0] for case in NOTED])
def test_what_a_request_tells_of_sampling(body: bytes, signal: str, expected: dict[Any, Any]) -> None:
    batch = taken(body, signal)
    assert {sender: (kept and round(kept, 9), by) for sender, (kept, by) in batch.sampled.items()} == expected


def test_a_collectors_tail_sampler_writes_on_the_scope() -> None:
    body = json.loads(spans(TOOL, service="a"))
    body["resourceSpans"][0]["scopeSpans"][0]["scope"]["attributes"] = [
        {"key": "tailsampling.policy", "value": {"stringValue": "errors"}}
    ]
    assert taken(json.dumps(body).encode(), "traces").sampled == {("", "a"): (None, "tailsampling.policy")}


@pytest.fixture
def store() -> Iterator[Store]:
    opened = Store.open("duckdb://:memory:")
    yield opened
    opened.close()


def test_a_sampled_sender_is_marked_among_the_sources_also_after_a_restart(store: Store) -> None:
    bodies = [spans(TOOL | {"traceState": "ot=th:c", "spanId": f"{n}"}, service="a") for n in range(2)]
    bodies.append(spans(TOOL | {"traceId": "b"}, service="b"))
    for body in bodies:
        correlator = Correlator(Lookup(store), fresh=False)
        changes = correlator.plan([taken(body, "traces")])
        store.write(changes)
        correlator.learn(changes)
    rows = sources(Selection(NOW - 10**12, NOW + 10**12)).rows(store)
    marks = {row["service"]: (row["sampled"], row["kept"], row["sampled_by"]) for row in rows}
    assert marks == {"a": (True, 0.25, "tracestate ot=th"), "b": (False, None, None)}
    later = sources(Selection(NOW + 10**9, NOW + 10**12)).rows(store)
    assert later == []
    store.prune(NOW + 10**12, 1)
    assert store.rows("from sampled") == []
