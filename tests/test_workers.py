"""Parsing in worker processes: the same events as in one process, and no request is lost when a worker dies."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from collector.batch import Batch, Body
from collector.decode.otlp import JSON, PROTOBUF
from collector.errors import Rejected, Unavailable
from collector.journal.journal import unpack
from collector.pipeline import TOLD_REMEMBERED, Pipeline
from collector.receive import workers
from collector.receive.on_demand import OnDemand
from collector.receive.workers import MOST_CHOSEN, SMALL, Here, Readers, Worker, chosen
from collector.sanitise.sanitise import FAILED
from collector.tables import TableError
from tests.conftest import RunningCollector, wait_until
from tests.doors import NOW, pipeline, span, spans, traces


def children(collector: RunningCollector) -> list[int]:
    """The processes that the collector has started."""
    assert collector.process
    threads = Path(f"/proc/{collector.process.pid}/task").glob("*/children")
    return [int(pid) for thread in threads for pid in thread.read_text().split()]


def gone(pid: int) -> bool:
    """Whether the process has ended, even if nobody has waited for it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def send(collector: RunningCollector, first: int, last: int) -> list[int]:
    """Posts a request for each number, several at once; returns the statuses."""

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


def test_a_hang_up_ends_nothing(start_collector: Callable[..., RunningCollector]) -> None:
    collector = start_collector(WORKERS="1")
    assert collector.process
    assert send(collector, 0, 3) == [200] * 3
    [worker] = children(collector)
    for process in (worker, collector.process.pid):
        os.kill(process, signal.SIGHUP)
    wait_until(lambda: "SIGHUP changes nothing" in collector.logged())
    assert send(collector, 3, 6) == [200] * 3
    assert children(collector) == [worker]


def test_another_takes_the_place_of_a_worker_that_dies_and_no_event_is_lost(
    start_collector: Callable[..., RunningCollector],
) -> None:
    collector = start_collector(WORKERS="1")
    assert collector.process
    assert send(collector, 0, 3) == [200] * 3
    [worker] = children(collector)
    for first in (3, 6):  # the second time it is a replacement
        os.kill(worker, signal.SIGKILL)
        wait_until(partial(gone, worker))
        answer = collector.post("/v1/traces", traces(span(first, error="ValueError")))
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) >= 1
        wait_until(partial(replaced, collector, 1 + first // 4))
        [worker] = spawned(collector)
        used = worker_ticks(worker)
        assert send(collector, first, first + 3) == [200] * 3
        assert collector.post("/v1/traces", traces(*[span(first, error="ValueError")] * 5_000)).status_code == 200
        assert worker_ticks(worker) > used
    assert calls(collector) == {f"call_S_{number}" for number in range(9)}
    assert len({(event["error_class"], event["params_hash"]) for event in collector.events()}) == 1
    assert collector.logged().count("another has taken its place") == 2
    collector.kill()
    wait_until(lambda: gone(worker))


def replaced(collector: RunningCollector, times: int) -> bool:
    """Whether so many new processes have taken the places of others."""
    return collector.logged().count("another has taken its place") >= times


def test_when_all_workers_are_killed_at_once_every_request_is_answered_and_none_is_lost(
    start_collector: Callable[..., RunningCollector],
) -> None:
    collector = start_collector(WORKERS="2")
    workers = children(collector)
    for worker in workers:
        os.kill(worker, signal.SIGSTOP)  # so that both are reading when they are killed
    with ThreadPoolExecutor(4) as pool:
        first = [pool.submit(send, collector, number, number + 1) for number in range(2)]
        wait_until(lambda: 2 * len(traces(span(0, error="ValueError"))) <= in_flight(collector))
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        assert [each.result() for each in first] == [[503], [503]]
        assert not replaced(collector, 1), "they waited for the new processes"
    wait_until(partial(replaced, collector, 2))
    assert len(spawned(collector)) == 2
    assert send(collector, 0, 8) == [200] * 8
    assert calls(collector) == {f"call_S_{number}" for number in range(8)}
    assert collector.logged().count("what it was reading is answered 503") == 2


def in_flight(collector: RunningCollector) -> float:
    """The bytes of bodies that are not answered yet."""
    return float(re.findall(r"^misstep_queue_bytes (\S+)", httpx.get(f"{collector.url}/metrics").text, re.MULTILINE)[0])


def test_while_no_process_has_started_requests_are_refused_and_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "WAIT_S", 0.1)
    readers = Readers(pipeline(), 1, never)
    worker = readers._free.get()
    with pytest.raises(Unavailable, match="started again") as refused:
        readers.read(Body(traces(span(1)), JSON, "traces"), NOW)
    assert (refused.value.status, refused.value.retry_after) == (503, 1)
    readers._free.put(worker)
    readers.close()


def test_a_worker_in_another_s_place_marks_a_secret_alike(start_collector: Callable[..., RunningCollector]) -> None:
    collector = start_collector(WORKERS="1", STORE="duckdb://:memory:", FINGERPRINT_SECRETS="true")

    def call(number: int) -> bytes:
        return traces(span(number, error="ValueError") | {"status": {"code": 2, "message": "password=hunter2x"}})

    assert collector.post("/v1/traces", call(0)).status_code == 200
    os.kill(children(collector)[0], signal.SIGKILL)
    assert collector.post("/v1/traces", call(1)).status_code == 503
    wait_until(partial(replaced, collector, 1))
    assert collector.post("/v1/traces", call(1)).status_code == 200
    first, second = (event["message"] for event in collector.events())
    assert first == second
    assert re.fullmatch(r"password=\[redacted:password:\w+\]", first)


def spawned(collector: RunningCollector) -> list[int]:
    """Those of its processes that were started after it."""
    return [pid for pid in children(collector) if b"multiprocessing-fork" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def conversation(number: int) -> Body:
    """A request to a model that reports again how a call ended."""
    asked = {"role": "assistant", "parts": [{"type": "tool_call", "id": f"c{number}", "name": "read", "arguments": {}}]}
    told = {
        "role": "tool",
        "parts": [{"type": "tool_call_response", "id": f"c{number}", "response": {"error": "boom"}}],
    }
    attributes = {
        "gen_ai.operation.name": "chat", "gen_ai.conversation.id": "S",
        "gen_ai.input.messages": json.dumps([asked, told]),
    }  # fmt: skip
    return Body(spans({"name": "chat", "attributes": attributes}, service="a"), JSON, "traces")


def test_what_needs_no_second_look_is_known_by_the_same_numbers_in_every_process() -> None:
    here, fork, fresh = Here(pipeline()), Worker(pipeline), Worker(pipeline, "spawn")
    [told] = {tuple(reader.read(conversation(1), NOW).receipt.told_ns.items()) for reader in (here, fork, fresh)}
    assert len(told) == 1
    for reader in (fork, fresh):
        reader.stored(dict(told))
        assert [len(unpack(reader.read(conversation(each), NOW).packed).reports) for each in (1, 2)] == [1, 2]
        reader.close()


def test_a_reader_of_large_bodies_alone_does_not_collect_what_it_will_be_told() -> None:
    readers = OnDemand(pipeline(), 0, pipeline)
    large = Body(traces(*[span(1)] * 9_000), JSON, "traces")
    assert readers.read(large, NOW).receipt.records == 9_000
    for first in range(0, 3 * TOLD_REMEMBERED, 10_000):
        readers.stored(dict.fromkeys(range(first, first + 10_000), NOW))
    [worker] = readers._workers
    assert len(worker._told) == TOLD_REMEMBERED
    assert readers.read(large, NOW).receipt.records == 9_000
    assert not worker._told
    readers.close()


def never() -> Pipeline:
    """Builds no pipeline, in a process that cannot start others."""
    raise TableError("tables", ["it has changed"])


def test_the_main_process_reads_for_as_long_as_no_other_can_be_started(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = Readers(pipeline(), 1, never)
    [worker] = readers._all
    assert isinstance(worker, Worker)
    os.kill(worker._process.pid or 0, signal.SIGKILL)
    body = Body(traces(span(1)), JSON, "traces")
    with pytest.raises(Unavailable, match="has ended"):
        readers.read(body, NOW)
    wait_until(lambda: not readers._free.empty())
    assert readers._all == [readers._here]
    assert readers.read(body, NOW).receipt.records == 1
    assert "the main process does its work" in capfd.readouterr().out
    readers._another = pipeline
    assert readers.read(body, NOW).receipt.records == 1
    assert readers._all == [readers._here]
    monkeypatch.setattr(workers, "AGAIN_S", 0)
    assert readers.read(body, NOW).receipt.records == 1
    wait_until(lambda: not readers._free.empty())
    assert [type(one) for one in readers._all] == [Here, Worker]
    readers.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_end_with_their_collector(
    start_collector: Callable[..., RunningCollector], number: signal.Signals
) -> None:
    collector = start_collector(WORKERS="3")
    workers = children(collector)
    assert len(workers) == 3
    began = time.monotonic()
    collector.stop(number)
    assert time.monotonic() - began < 30
    wait_until(lambda: all(map(gone, workers)), lambda: f"{workers} go on without a collector")
    with pytest.raises(httpx.ConnectError):
        collector.post("/v1/traces", traces(span(1)))


def message(*path: int, last: bytes) -> bytes:
    """A protobuf message inside others, each in the field of the outer one that `path` names."""
    for tag in reversed(path):
        size, length = len(last), b""
        while size > 0x7F:
            length += bytes((size & 0x7F | 0x80,))
            size >>= 7
        last = bytes((tag << 3 | 2,)) + length + bytes((size,)) + last
    return last


MILLIONS = 30 << 20  # of empty ones: 60 MiB, about 60 kB when compressed
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


@pytest.mark.parametrize("case", [
    pytest.param(case, marks=[] if case in {"log records", "objects", "lines"} else pytest.mark.deep) for case in BOMBS
])  # fmt: skip
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


def test_a_message_of_millions_is_read_beside_the_main_process_where_no_worker_is_wanted(
    start_collector: Callable[..., RunningCollector],
) -> None:
    collector = start_collector(WORKERS="0")
    assert collector.process
    assert send(collector, 0, 3) == [200] * 3
    assert children(collector) == []
    with grpc.insecure_channel(collector.grpc, options=[("grpc.max_send_message_length", -1)]) as channel:
        export: Any = channel.unary_unary("/opentelemetry.proto.collector.logs.v1.LogsService/Export")
        with pytest.raises(grpc.RpcError) as refused:
            export(BOMBS["log records"][2]())
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "send smaller batches" in str(refused.value.details())
    assert peak_mib(collector.process.pid) < 600
    [worker] = spawned(collector)
    used = worker_ticks(worker)
    assert send(collector, 3, 6) == [200] * 3
    assert worker_ticks(worker) == used
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: gone(worker))
    large = traces(span(6, error="ValueError")) + b" " * SMALL
    assert collector.post("/v1/traces", large).status_code == 503
    assert collector.post("/v1/traces", large).status_code == 200
    assert calls(collector) == {f"call_S_{number}" for number in range(7)}


def worker_ticks(pid: int) -> int:
    """The processor time that a process has used, in hundredths of a second."""
    return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))


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
    """It is held while it is answered, and the next garbage collection may be long after that."""
    held: list[weakref.ref[set[int]]] = []

    class Reads(Pipeline):
        def process(self, *_: object) -> Batch:
            tree = {1, 2}
            held.append(weakref.ref(tree))
            try:
                raise ValueError("a decoder's")
            except ValueError:
                raise Rejected("malformed") from None

    one = pipeline()
    reads = Reads(one.sources, one.taxonomy, one.sanitiser, one.hash_key)
    with pytest.raises(Rejected) as refused:
        Here(reads).read(Body(b"{", JSON, "logs"), 1)
    assert str(refused.value) == "malformed"
    assert held[0]() is None


def test_a_body_that_takes_too_long_to_search_loses_its_doubtful_texts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [{"attributes": failed(f"no such file {number}"), "status": 2} for number in range(2)]
    secret = {"attributes": failed("password=" + "kitty" + "-4711-x"), "status": 2}
    body = Body(spans(*records, secret), JSON, "traces")

    def messages() -> list[tuple[str, str]]:
        batch = unpack(Here(pipeline()).read(body, NOW).packed)
        return [(report["message"], report["error_class"]) for report in batch.reports]

    with monkeypatch.context() as hurried:
        hurried.setattr(workers, "SEARCH_S", 0)
        given_up = messages()
    searched = messages()  # there is more time for it
    assert given_up[:2] == searched[:2]
    assert [name for _, name in given_up] == [name for _, name in searched]
    assert ("[redacted:password]" in searched[2][0], given_up[2][0]) == (True, FAILED)


def failed(message: str) -> dict[str, str]:
    return {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "read", "error.type": "ValueError",
        "error.message": message,
    }  # fmt: skip


def peak_mib(pid: int) -> int:
    """The most memory that a process ever had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM"))


def test_a_reader_that_is_replaced_meanwhile_costs_no_other_what_was_stored() -> None:
    told: list[str] = []

    class Noting(Here):
        def stored(self, told_ns: Mapping[int, int]) -> None:
            told.append("one")
            if len(told) == 1:
                readers._all.remove(self)

    readers = Readers(pipeline(), 1, pipeline)
    own, readers._all = readers._all, [Noting(pipeline()) for _ in range(3)]
    try:
        readers.stored({1: 2})
    finally:
        readers._all = own
        readers.close()
    assert len(told) == 3


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
    assert chosen() == min(cores - 1, MOST_CHOSEN)
