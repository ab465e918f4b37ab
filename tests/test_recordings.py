"""Trimmed recordings of real agents come to the same events in whatever order and cut their records arrive."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from collector.batch import Batch
from collector.decode.record import Record, Request, Scope, SpanEvent
from collector.recent import Recent
from collector.recognise.sources import Sources
from tests.conftest import RunningCollector
from tests.doors import NOW, any_value, pairs, pipeline
from tests.memory import Memory, commit
from tests.search import EXAMPLES

FOLDER = Path(__file__).parent / "data/sources"
RECORDINGS = sorted(FOLDER.glob("*.json"))
OWN = {"event_id", "received_ns", "report_rank", "outcome_strength", "target_guessed"}


def scope(item: dict[str, Any]) -> Scope:
    """One recorded record in a scope of its own."""
    fields = {
        name: value
        for name, value in item.items()
        if name not in ("scope", "scope_version", "resource", "events", "signal")
    }
    events = [
        SpanEvent(one["name"], one.get("time_ns", 0), one.get("attributes", {})) for one in item.get("events", ())
    ]
    record = Record(item["signal"], **fields, events=events)
    return Scope(item.get("resource", {}), item.get("scope", ""), item.get("scope_version", ""), [record])


def read(requests: list[list[dict[str, Any]]]) -> Iterator[Batch]:
    """The batches of these requests, by a reader that knows nothing yet."""
    reader = replace(pipeline(), sources=Sources(pipeline().sources.sources), seen=Recent(1000))
    for number, items in enumerate(requests):
        request = Request("traces", [scope(item) for item in items], len(items))
        batch = reader.batch(request, number.to_bytes(16, "big"), NOW + number)
        yield batch
        reader.stored(batch.told_ns)


def stored(requests: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The events after these requests, one commit each, without what depends on arrival."""
    memory = Memory()
    commit(memory, ([batch] for batch in read(requests)))
    rows = memory.rows()
    return sorted(({k: v for k, v in row.items() if v is not None and k not in OWN} for row in rows), key=str)


@cache
def recorded(path: Path) -> list[dict[str, Any]]:
    """The events of a recording that arrives as one request."""
    return stored([json.loads(path.read_text())["records"]])


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_order_cut_and_repetition_change_nothing(path: Path) -> None:
    items = json.loads(path.read_text())["records"]
    expected = recorded(path)
    assert expected
    chance = random.Random(path.stem)
    for _ in range(max(2, EXAMPLES // 12)):
        shuffled = items + chance.sample(items, len(items) // 2)
        chance.shuffle(shuffled)
        size = chance.randint(1, 5)
        assert stored([shuffled[at : at + size] for at in range(0, len(shuffled), size)]) == expected


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_what_a_model_is_asked_is_not_stored(path: Path) -> None:
    events = recorded(path)
    assert [event for event in events if event["operation"] == "model" and {"params", "tool"} & event.keys()] == []


SCRIPTED = [path for path in RECORDINGS if "truth" in json.loads(path.read_text())]


@pytest.mark.parametrize("path", SCRIPTED, ids=lambda path: path.stem)
def test_calls_are_what_was_scripted(path: Path) -> None:
    recording = json.loads(path.read_text())
    events = sorted(recorded(path), key=lambda event: event["time_ns"])
    told = [event for event in events if event["operation"] == "tool" or event["outcome"] != "ok"]
    truth = recording["truth"]
    facts = [{name: event.get(name) for name in wanted} for event, wanted in zip(told, truth, strict=False)]
    for event in facts:
        if isinstance(params := event.get("params"), str):
            event["params"] = json.loads(params)
    assert facts == truth
    assert len(told) == len(truth), told[len(truth) :]


def test_a_request_told_by_langchain_and_by_its_client_is_one_event() -> None:
    items = json.loads((FOLDER / "openinference-langchain-openai-metadata.json").read_text())["records"]
    requested = [item["attributes"]["session.id"] for item in items if item["name"] == "ChatOpenAI"]
    models = [event["session"] for event in stored([items]) if event["operation"] == "model"]
    assert sorted(models) == sorted(requested)


def exports(items: list[dict[str, Any]], most: int = 50) -> Iterator[tuple[str, bytes]]:
    """The signals and OTLP/JSON requests of a recording's records, at most so many in a request."""
    sent: dict[str, list[dict[str, Any]]] = {"resourceSpans": [], "resourceLogs": []}
    for outer, resource in map(export, items):
        sent[outer].append(resource)
    for (outer, resources), signal in zip(sent.items(), ("traces", "logs"), strict=True):
        for first in range(0, len(resources), most):
            yield signal, json.dumps({outer: resources[first : first + most]}).encode()


def export(item: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """One recorded record as a resource in OTLP/JSON, and the list that it is for."""
    one = scope(item)
    record = one.records[0]
    common = {"traceId": record.trace_id, "spanId": record.span_id, "attributes": pairs(record.attributes)}
    if record.signal == "span":
        raw = common | {
            "name": record.name, "kind": record.kind, "parentSpanId": record.parent_span_id,
            "startTimeUnixNano": str(record.start_ns), "endTimeUnixNano": str(record.time_ns),
            "status": {"code": record.status, "message": record.status_message},
            "events": [{"name": each.name, "timeUnixNano": str(each.time_ns), "attributes": pairs(each.attributes)}
                       for each in record.events],
        }  # fmt: skip
        inner, outer, records = "scopeSpans", "resourceSpans", "spans"
    else:
        raw = common | {
            "eventName": record.name, "timeUnixNano": str(record.time_ns), "severityNumber": record.severity,
            "observedTimeUnixNano": str(record.observed_ns), "body": any_value(record.body),
        }  # fmt: skip
        inner, outer, records = "scopeLogs", "resourceLogs", "logRecords"
    scopes = [{"scope": {"name": one.name, "version": one.version}, records: [raw]}]
    return outer, {"resource": {"attributes": pairs(one.resource)}, inner: scopes}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("most", [50, pytest.param(1, marks=pytest.mark.deep)])
def test_a_live_collector_comes_to_the_same_calls(collector: RunningCollector, most: int) -> None:
    expected = []
    for path in RECORDINGS[:: 3 if most > 1 else 1]:
        expected += recorded(path)
        for signal, body in exports(json.loads(path.read_text())["records"], most):
            assert collector.post(f"/v1/{signal}", body).status_code == 200
    facts = ("source", "service", "operation", "tool", "call_id", "outcome", "error_class", "session", "message")
    found = [tuple(event[name] for name in facts) for event in collector.events()]
    assert sorted(found, key=str) == sorted((tuple(event.get(name) for name in facts) for event in expected), key=str)
