"""Readers that are there only when they are needed: no request is refused or lost when one comes or goes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest

from collector.batch import Body
from collector.decode.otlp import JSON
from collector.errors import Unavailable
from collector.journal.journal import unpack
from collector.receive import on_demand
from collector.receive.on_demand import Load, OnDemand
from collector.receive.workers import SMALL
from collector.resident import give_back_code
from tests.conftest import RunningCollector, wait_until
from tests.doors import NOW, pipeline, span, traces
from tests.test_workers import children, never, send

SMALL_BODY = Body(traces(span(1, error="ValueError")), JSON, "traces")
LARGE_BODY = Body(traces(span(1, error="ValueError")) + b" " * SMALL, JSON, "traces")


@pytest.fixture
def made() -> Iterator[Callable[..., OnDemand]]:
    """Makes readers, and closes them."""
    all_made: list[OnDemand] = []

    def make(most: int, another: Callable[[], object] = pipeline, rest_s: float = 60) -> OnDemand:
        all_made.append(OnDemand(pipeline(), most, another, rest_s))  # type: ignore[arg-type]
        return all_made[-1]

    yield make
    for readers in all_made:
        readers.close()


def parents_children() -> list[str]:
    """The processes that this one has started and that still run."""
    threads = Path("/proc/self/task").glob("*/children")
    return [pid for thread in threads for pid in thread.read_text().split()]


def test_a_process_comes_under_load_and_goes_without_it_and_every_body_is_read(
    made: Callable[..., OnDemand], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = parents_children()
    monkeypatch.setattr(on_demand, "LOAD", 0)  # anything is load
    monkeypatch.setattr(on_demand, "LOAD_S", 0.02)
    readers, over = made(1, rest_s=0.4), threading.Event()
    assert parents_children() == before

    def reading(pause_s: float) -> list[str]:
        seen = []
        while not over.wait(pause_s):
            seen += [event["call_id"] for event in unpack(readers.read(SMALL_BODY, NOW).packed).reports]
        return seen

    with ThreadPoolExecutor(2) as pool:
        results = [pool.submit(reading, pause_s) for pause_s in (0.01, 0.03)]
        wait_until(lambda: bool(readers._workers))
        monkeypatch.setattr(on_demand, "LOAD", 1000)  # no load is as high
        wait_until(lambda: not readers._workers)
        over.set()
    assert {each for result in results for each in result.result()} == {"call_S_1"}
    wait_until(lambda: {*parents_children()} <= {*before})
    assert readers.read(SMALL_BODY, NOW).receipt.records == 1


def test_a_large_body_has_a_process_of_its_own_and_small_ones_do_not_wait_for_it(
    made: Callable[..., OnDemand],
) -> None:
    readers = made(2)
    with ThreadPoolExecutor(1) as pool:
        large = pool.submit(readers.read, LARGE_BODY, NOW)
        began = time.monotonic()
        assert readers.read(SMALL_BODY, NOW).receipt.records == 1
        assert not large.done() or time.monotonic() - began < 1
        assert large.result().receipt.records == 1
    [worker] = readers._workers
    os.kill(worker._process.pid or 0, 9)
    with pytest.raises(Unavailable, match="has ended"):
        readers.read(LARGE_BODY, NOW)
    assert readers._workers == []
    assert readers.read(SMALL_BODY, NOW).receipt.records == 1


def test_where_no_process_starts_the_main_process_reads_and_does_not_try_each_time(
    made: Callable[..., OnDemand], capfd: pytest.CaptureFixture[str]
) -> None:
    readers = made(1, never)
    for _ in range(3):
        assert readers.read(LARGE_BODY, NOW).receipt.records == 1
    assert capfd.readouterr().out.count("the main process does its work") == 1


def test_load_is_a_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    load = Load()
    judged = []
    for seconds, spent in ((0.5, 0.4), (0.5, 0.0), (1.0, 0.1), (1.0, 0.3), (0.2, 0.2), (0.2, 0.2)):
        now[0] += seconds
        judged.append(load.high(spent))
    assert judged == [False, True, False, True, False, False]


def test_a_collector_at_rest_is_one_process_and_gives_code_back(
    start_collector: Callable[..., RunningCollector],
) -> None:
    collector = start_collector()
    assert collector.process
    assert children(collector) == []
    assert send(collector, 0, 3) == [200] * 3
    assert children(collector) == []


def test_code_that_was_given_back_runs_again() -> None:
    assert duckdb.execute("select sum(range) from range(1000)").fetchall() == [(499_500,)]
    assert give_back_code() > 20 << 20
    assert duckdb.execute("select sum(range) from range(1000)").fetchall() == [(499_500,)]
