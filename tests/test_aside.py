"""What could not be stored is kept beside the store, is reported, and is stored once by a version that can."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from collector.batch import Batch
from collector.commands.refused import store_refused
from collector.correlate.changes import Changes
from collector.engine.duckdb.maintenance import Upkeep
from collector.engine.duckdb.retention import Retention
from collector.engine.duckdb.store import Store
from collector.journal import writer as writer_module
from collector.journal.dead_letters import Aside, SetAside
from collector.journal.journal import Journal, pack
from collector.journal.waiting import Waiting
from collector.journal.writer import Writer
from collector.settings import load
from tests.conftest import RunningCollector, misstep
from tests.doors import span, taken, traces


def put_aside(path: Path, *batches: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store of a collector that could not store the events of these batches."""
    monkeypatch.setattr(writer_module, "AGAIN_S", 0.02)
    store, journal = Store.open(f"duckdb:///{path}"), Journal(path)
    journal.left(store.position())
    write = store.write

    def fails(changes: Changes) -> None:
        if changes.events:
            raise ValueError("a defect")
        write(changes)

    store.write = fails  # type: ignore[method-assign]
    writer = Writer(store, journal, Upkeep(store, Retention(1 << 62)))
    writer.start()
    packed = list(map(pack, batches))
    positions = journal.append(packed)
    writer.put([Waiting(one, at, each.records) for one, at, each in zip(packed, positions, batches, strict=True)])
    until = time.monotonic() + 30
    while not writer.settle(20) and time.monotonic() < until:
        pass
    writer.close()
    journal.close()
    store.close()


BATCHES = [
    taken(traces(*(span(10 * number + each) for each in range(number + 1)), {"name": "x"}), "traces")
    for number in range(3)
]


def test_what_was_set_aside_is_told_of_and_stored_after_all(
    start_collector: Callable[..., RunningCollector], monkeypatch: pytest.MonkeyPatch
) -> None:
    running = start_collector()
    assert running.post("/v1/traces", traces(span(99))).status_code == 200
    running.stop()
    put_aside(running.store, *BATCHES, monkeypatch=monkeypatch)
    running.restart()
    health = running.get("/api/v1/health")
    assert (health["accepted"], health["stored"], health["unaccounted"]) == (10, 1, 0)
    assert (health["dropped"], health["aside"]) == ({"unstorable": 9}, {"requests": 3, "records": 9})
    settings = {"STORE": f"duckdb:///{running.store}", "COLLECTOR_URL": running.url}
    told = misstep("doctor", cwd=running.folder, settings=settings).stdout
    assert f"9 records that could not be stored, kept in {running.store}.journal.refused" in told
    assert "stop the collector once and run misstep replay --refused" in told
    refused = misstep("replay", "--refused", cwd=running.folder, settings=settings)
    assert (refused.returncode, "stop that collector" in refused.stderr) == (2, True)
    running.stop()
    done = misstep("replay", "--refused", cwd=running.folder, settings=settings)
    assert (done.returncode, done.stdout) == (0, "3 requests, 9 records stored, 0 still refused\n")
    again = misstep("replay", "--refused", cwd=running.folder, settings=settings)
    assert again.stdout == "0 requests, 0 records stored, 0 still refused\n"
    running.restart()
    assert len(running.events()) == 7
    health = running.get("/api/v1/health")
    assert (health["accepted"], health["stored"], health["unaccounted"]) == (10, 7, 0)
    assert (health["dropped"], health["aside"]) == ({"no_event": 3}, {"requests": 0, "records": 0})
    assert not list(running.folder.glob("*.refused*"))


def test_who_is_interrupted_stores_nothing_twice_and_what_still_fails_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.duckdb"
    settings = load({"store": f"duckdb:///{path}"}, {}, tmp_path / "none")
    put_aside(path, *BATCHES, monkeypatch=monkeypatch)
    aside = Aside(path)
    strange = msgspec.msgpack.encode({"records": "of another version"})
    aside.keep(5, strange)
    aside.keep(5, strange)
    whole = aside.path.read_bytes() if aside.path else b""
    aside.path.write_bytes(whole + whole[:100])  # type: ignore[union-attr]
    assert aside.counted() == SetAside(4, 9)
    with monkeypatch.context() as short:
        short.setattr(Aside, "leave", lambda *_: None)  # as if it is killed before that
        assert str(store_refused(settings)).startswith(
            "3 requests, 9 records stored, 1 still refused\n  refused: Valid"
        )
    assert aside.counted() == SetAside(4, 9)
    store_refused(settings)
    assert [(left.position, left.packed) for left in aside.batches()] == [(5, strange)]
    store = Store.open(settings.store)
    assert store.accounting() == {"accepted": 9, "stored": 6, "no_event": 3, "unstorable": 0, "duplicate": 0}
    assert store.count("events") == 6
    store.close()
