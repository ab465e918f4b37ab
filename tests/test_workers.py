"""Reading in processes of their own: the same events as in one process, and no request lost when one of them dies."""

from __future__ import annotations

import gzip
import os
import signal
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from collector.decode.otlp import JSON, PROTOBUF
from collector.errors import Rejected
from collector.receive.workers import MOST_CHOSEN, Body, Here, chosen
from tests.conftest import RunningCollector, wait_until
from tests.test_ingest import span, traces


def children(collector: RunningCollector) -> list[int]:
    """The processes that the collector has made."""
    assert collector.process
    pid = collector.process.pid
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def gone(pid: int) -> bool:
    """Whether the process has ended, whoever still has to bury it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def send(collector: RunningCollector, first: int, last: int) -> list[int]:
    """Posts a request for each number, several at once; the statuses."""

    def post(number: int) -> int:
        return collector.post("/v1/traces", traces(span(number, error="ValueError"))).status_code

    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(post, range(first, last)))


def calls(collector: RunningCollector) -> set[str]:
    return {event["call_id"] for event in collector.events()}


def test_two_workers_read_what_one_process_would(start_collector: Callable[..., RunningCollector]) -> None:
    one, two = start_collector(WORKERS="0"), start_collector(WORKERS="2")
    assert (len(children(one)), len(children(two))) == (0, 2)
    for collector in (one, two):
        assert send(collector, 0, 20) == [200] * 20
        assert collector.post("/v1/traces", b"{").status_code == 400
        assert collector.post("/v1/events", '{"event": "tool", "tool_name": 5}').status_code == 200
    kept = ("call_id", "error_class", "classified_by", "tool", "session", "outcome", "template")
    shown = [sorted(tuple(event[name] for name in kept) for event in each.events()) for each in (one, two)]
    assert shown[0] == shown[1]
    assert len(shown[0]) >= 20


def test_a_worker_that_dies_costs_no_event(start_collector: Callable[..., RunningCollector]) -> None:
    collector = start_collector(WORKERS="1")
    assert send(collector, 0, 3) == [200] * 3
    [worker] = children(collector)
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: gone(worker), 10)
    answer = collector.post("/v1/traces", traces(span(3, error="ValueError")))
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) >= 1
    assert send(collector, 3, 6) == [200] * 3
    assert calls(collector) == {f"call_S_{number}" for number in range(6)}
    assert "has ended" in collector.logged()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_end_with_their_collector(
    start_collector: Callable[..., RunningCollector], number: signal.Signals
) -> None:
    collector = start_collector(WORKERS="3")
    workers = children(collector)
    assert len(workers) == 3
    collector.stop(number)
    wait_until(lambda: all(map(gone, workers)), 10, lambda: f"{workers} go on without a collector")
    with pytest.raises(httpx.ConnectError):
        collector.post("/v1/traces", traces(span(1)))


def message(*path: int, last: bytes) -> bytes:
    """A protobuf message inside others, each the field of the outer one that `path` names."""
    for tag in reversed(path):
        size, length = len(last), b""
        while size > 0x7F:
            length += bytes((size & 0x7F | 0x80,))
            size >>= 7
        last = bytes((tag << 3 | 2,)) + length + bytes((size,)) + last
    return last


MILLIONS = 30 << 20  # of empty ones: 60 MiB, and some 60 kB on the way
BOMBS: dict[str, tuple[str, str, Callable[[], bytes]]] = {
    "log records": ("logs", PROTOBUF, lambda: message(1, 2, last=b"\x12\0" * MILLIONS)),
    "resources": ("traces", PROTOBUF, lambda: b"\x0a\0" * MILLIONS),
    "attributes": ("logs", PROTOBUF, lambda: message(1, 2, 2, last=b"\x32\0" * MILLIONS)),
    "values": ("logs", PROTOBUF, lambda: message(1, 2, 2, 5, 5, last=b"\x0a\0" * MILLIONS)),
    "spans in JSON": (
        "traces", JSON, lambda: b'{"resourceSpans":[{"scopeSpans":[{"spans":[{}' + b",{}" * (MILLIONS // 2) + b"]}]}]}"
    ),
    "a hundred thousand spans": (
        "traces", JSON, lambda: b'{"resourceSpans":[{"scopeSpans":[{"spans":[{}' + b",{}" * 100_000 + b"]}]}]}"
    ),
    "objects": ("events", JSON, lambda: b"[{}" + b",{}" * (MILLIONS // 2) + b"]"),
    "lines": ("events", JSON, lambda: b'{"tool":"t"}\n' * 100_001),
}  # fmt: skip


@pytest.mark.parametrize("case", BOMBS)
def test_a_small_body_of_millions_is_refused_before_it_takes_gigabytes(case: str, one: RunningCollector) -> None:
    signal, media, body = BOMBS[case]
    headers = {"content-type": media, "content-encoding": "gzip"}
    answer = one.post(f"/v1/{signal}", gzip.compress(body(), 1), headers)
    assert (answer.status_code, "send smaller batches" in answer.text) == (413, True)
    assert one.process
    [worker] = children(one)
    assert peak_mib(worker) < 1800
    assert peak_mib(one.process.pid) < 600
    assert one.post("/v1/traces", traces(span(0))).status_code == 200


def test_bodies_that_were_refused_are_not_held(start_collector: Callable[..., RunningCollector]) -> None:
    collector = start_collector(WORKERS="1")
    assert collector.process
    before, body = peak_mib(collector.process.pid), b"\xff" * (8 << 20)
    with grpc.insecure_channel(collector.grpc, options=[("grpc.max_send_message_length", -1)]) as channel:
        export: Any = channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")
        for _ in range(50):
            assert collector.post("/v1/traces", body, {"content-type": PROTOBUF}).status_code == 400
            with pytest.raises(grpc.RpcError):
                export(body)
    assert peak_mib(collector.process.pid) < before + 200


def test_a_refusal_holds_nothing_of_what_was_read() -> None:
    """Who answers with it has it for a while, and then the next collection of cycles is far."""
    held: list[weakref.ref[set[int]]] = []

    class Reads:
        def process(self, *_: object) -> None:
            tree = {1, 2}
            held.append(weakref.ref(tree))
            try:
                raise ValueError("a decoder's")
            except ValueError:
                raise Rejected("malformed") from None

    reads: Any = Reads()
    with pytest.raises(Rejected) as refused:
        Here(reads).read(Body(b"{", JSON, "logs"), 1)
    assert str(refused.value) == "malformed"
    assert held[0]() is None


def peak_mib(pid: int) -> int:
    """The most memory that a process ever had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM"))


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    """A collector with one worker."""
    running = RunningCollector(tmp_path_factory.mktemp("one"), {"WORKERS": "1"}).start()
    yield running
    running.stop()


def test_workers_end_where_the_store_cannot_be_opened(
    start_collector: Callable[..., RunningCollector], tmp_path: Path
) -> None:
    broken = tmp_path / "broken.duckdb"
    broken.write_bytes(b"no database " * 1000)
    with pytest.raises(AssertionError, match="is not a DuckDB file"):
        start_collector(STORE=f"duckdb:///{broken}", WORKERS="2")


@pytest.mark.parametrize("cores", [1, 2, 3, 64])
def test_one_core_is_left_for_the_writer(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    assert chosen(None) == min(cores - 1, MOST_CHOSEN)
    assert [chosen(0), chosen(7)] == [0, 7]
