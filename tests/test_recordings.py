"""Trimmed recordings of real agents come to the same events in whatever order and cut their records arrive."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collector.decode.record import Record, Request, Scope, SpanEvent
from collector.recognise.sources import load_sources
from collector.store.correlate import Correlator, Recent
from collector.store.store import Store
from collector.tables import schemas
from tests.doors import NOW, pipeline

RECORDINGS = sorted((Path(__file__).parent / "data/sources").glob("*.json"))
OWN = {"event_id", "received_ns", "report_rank", "outcome_strength"}


def scope(item: dict[str, Any]) -> Scope:
    """One recorded record in a scope of its own."""
    fields = {name: value for name, value in item.items() if name not in ("scope", "resource", "events", "signal")}
    events = [
        SpanEvent(one["name"], one.get("time_ns", 0), one.get("attributes", {})) for one in item.get("events", ())
    ]
    record = Record(item["signal"], **fields, events=events)
    return Scope(item.get("resource", {}), item.get("scope", ""), "", [record])


def stored(requests: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The events after these requests, one commit each, without what depends on arrival."""
    store = Store.open("duckdb://:memory:")
    correlator = Correlator(store, fresh=True)
    reader = replace(pipeline(), sources=load_sources(schemas() / "sources"), seen=Recent(1000))  # knows nothing yet
    for number, items in enumerate(requests):
        request = Request("traces", [scope(item) for item in items], len(items))
        batch = reader.batch(request, number.to_bytes(16, "big"), NOW + number)
        changes = correlator.plan([batch])
        store.write(changes)
        correlator.learn(changes)
        reader.stored(batch)
    rows = store.rows("select * from events")
    store.close()
    return sorted(({k: v for k, v in row.items() if v is not None and k not in OWN} for row in rows), key=str)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_order_cut_and_repetition_change_nothing(path: Path) -> None:
    items = json.loads(path.read_text())["records"]
    expected = stored([items])
    assert expected
    chance = random.Random(path.stem)
    for _ in range(4):
        shuffled = items + chance.sample(items, len(items) // 2)
        chance.shuffle(shuffled)
        size = chance.randint(1, 5)
        assert stored([shuffled[at : at + size] for at in range(0, len(shuffled), size)]) == expected
