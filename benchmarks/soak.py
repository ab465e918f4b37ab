"""Kills, restarts, full disks, duplicates, damaged records and malformed bodies, many of them within minutes.

    python -m benchmarks.soak [--troubles 40] [--only kill] [--seconds 120] [--bodies 10000] [--seed 1]

Runs a real collector in a process of its own. Exits with 1 if a figure is wrong: every record that was sent must be
stored once or rejected with a reason, whatever happens to the collector meanwhile.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import signal
import sys
import tempfile
import threading
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import grpc
import httpx
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.fuzz import Fuzzed, fuzz
from tests.conftest import RunningCollector

TROUBLES = {"kill": 8, "restart": 1, "full disk": 2}  # with the weight of each in a random choice
SENDERS = 4
SPANS = 50  # in a request
MOST_MIB = 600  # grows until the first checkpoint: DuckDB holds rows up to its limit of 200 MB, we hold recent keys
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
SOON = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.min_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 500)]  # fmt: skip
Say = Callable[[str], None]


@dataclass
class Ledger:
    """What senders have sent, and what the collector says it has done with it."""

    sent: Counter[str] = field(default_factory=Counter)  # records by what they are: good, malformed
    answers: Counter[str] = field(default_factory=Counter)
    troubles: Counter[str] = field(default_factory=Counter)
    repeated: int = 0  # records in requests that were sent again after their answer
    lost: int = 0
    doubled: int = 0
    strange: int = 0
    accounted: dict[str, int] = field(default_factory=dict)
    peak_mib: int = 0

    def add(self, other: Ledger) -> None:
        """Adds the ledger of a sender: each has its own, because counting in one from many threads would lose some."""
        self.sent.update(other.sent)
        self.answers.update(other.answers)
        self.repeated += other.repeated
        self.strange += other.strange

    def mistakes(self) -> list[str]:
        """Everything that is wrong."""
        found = [f"{name}: {n}" for name in ("lost", "doubled", "strange") if (n := getattr(self, name))]
        for name, wanted in (("stored", self.sent["good"]), ("malformed", self.sent["malformed"])):
            if self.accounted.get(name, 0) != wanted:
                found.append(f"{name} is {self.accounted.get(name, 0)} where {wanted} were sent")
        if self.accounted.get("duplicate", 0) < self.repeated:
            found.append(f"duplicate is {self.accounted.get('duplicate', 0)} where {self.repeated} were sent again")
        return found


class Pattern:
    """A request of SPANS tool calls whose ids are changed in its bytes: generating each would be the bottleneck."""

    def __init__(self, sender: int, binary: bool, malformed: bool) -> None:
        self._binary, self._sender = binary, sender
        spans = [_span(sender, place, binary) for place in range(SPANS)]
        tree = {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "agent"}, "spans": spans}]}]}
        if not binary:
            self._body = json.dumps(
                {**tree, "resourceSpans": [*tree["resourceSpans"], *([BROKEN] * malformed)]}
            ).encode()
        else:
            message = ParseDict(tree, ExportTraceServiceRequest())
            if malformed:
                message.resource_spans[0].scope_spans[0].spans.add(trace_id=b"damaged")
            self._body = message.SerializeToString()
        self._places = [[self._body.index(text) for text in self._texts(place)] for place in range(SPANS)]

    def _texts(self, number: int) -> list[bytes]:
        """The ids of a call: its name, its trace's id, its span's id."""
        ids = [_trace(self._sender, number), _id(self._sender, number)]
        return [_name(self._sender, number).encode(), *(bytes.fromhex(x) if self._binary else x.encode() for x in ids)]

    def request(self, first: int) -> bytes:
        """The request with the calls from number `first` on."""
        body = bytearray(self._body)
        for place, offsets in enumerate(self._places):
            for offset, text in zip(offsets, self._texts(first + place), strict=True):
                body[offset : offset + len(text)] = text
        return bytes(body)


BROKEN = {"scopeSpans": [{"spans": [{"traceId": "damaged"}]}]}


def _name(sender: int, number: int) -> str:
    return f"call_{sender:04}_{number:012}"


def _trace(sender: int, number: int) -> str:
    return f"a{sender:015x}{number + 1:016x}"


def _id(sender: int, number: int) -> str:
    return f"f{sender:03x}{number + 1:012x}"  # never a part of a trace's id


def _span(sender: int, number: int, binary: bool) -> dict[str, object]:
    told = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "read_file",
            "gen_ai.tool.call.id": _name(sender, number), "gen_ai.conversation.id": f"session{sender}"}  # fmt: skip
    ids = {"traceId": _trace(sender, number), "spanId": _id(sender, number)}
    if binary:  # protobuf's own JSON form has ids in base64
        ids = {key: b64encode(bytes.fromhex(text)).decode() for key, text in ids.items()}
    return {
        "name": "execute_tool read_file", **ids, "endTimeUnixNano": str(time.time_ns()),
        "attributes": [{"key": key, "value": {"stringValue": text}} for key, text in told.items()],
    }  # fmt: skip


class Sender:
    """Sends until `stop` is set; what was not accepted is sent again, in the same bytes, as exporters do."""

    def __init__(self, number: int, collector: RunningCollector, stop: threading.Event) -> None:
        self._collector, self._stop = collector, stop
        self.ledger = Ledger()
        self._random = Random(number)
        self._number, self._kind = number, number % 3
        self._patterns = [Pattern(number, self._kind != 0, malformed) for malformed in (False, True)]
        self.names: list[str] = []
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with httpx.Client(timeout=30) as client, grpc.insecure_channel(self._collector.grpc, SOON) as channel:
            call: Any = channel.unary_unary(EXPORT)
            while not self._stop.is_set():
                body, malformed = self._request()
                times = 2 if self._random.random() < 0.1 else 1
                for _ in range(times):
                    self._deliver(client, call, body)
                self.ledger.repeated += (SPANS + malformed) * (times - 1)
                self.ledger.sent.update(good=SPANS, malformed=malformed)

    def _request(self) -> tuple[bytes, int]:
        first = len(self.names)
        self.names += [_name(self._number, first + place) for place in range(SPANS)]
        malformed = self._random.random() < 0.05
        return self._patterns[malformed].request(first), int(malformed)

    def _deliver(self, client: httpx.Client, call: Any, body: bytes) -> None:
        while True:
            answer = self._send(client, call, body)
            self.ledger.answers[answer] += 1
            if answer in ("200", "OK"):
                return
            if answer not in ("429", "503", "UNAVAILABLE", "RESOURCE_EXHAUSTED", "no connection"):
                self.ledger.strange += 1
            time.sleep(0.2 * (1 + self._random.random()))

    def _send(self, client: httpx.Client, call: Any, body: bytes) -> str:
        try:
            if self._kind == 2:
                call(body, timeout=30)
                return "OK"
            media = "application/json" if self._kind == 0 else "application/x-protobuf"
            headers = {"content-type": media, "content-encoding": "gzip"}
            url, packed = f"{self._collector.url}/v1/traces", gzip.compress(body, 1)
            return str(client.post(url, content=packed, headers=headers).status_code)
        except httpx.TransportError:
            return "no connection"
        except grpc.RpcError as error:
            return str(error.code().name)


@contextmanager
def full_disk(collector: RunningCollector) -> Iterator[None]:
    """Meanwhile, no file of the collector can grow beyond the size of the largest."""
    assert collector.process is not None
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    sizes = [path.stat().st_size for path in collector.folder.iterdir() if path.is_file()]
    resource.prlimit(collector.process.pid, resource.RLIMIT_FSIZE, (max(sizes), most))
    try:
        yield
    finally:
        resource.prlimit(collector.process.pid, resource.RLIMIT_FSIZE, (most, most))


def trouble(collector: RunningCollector, kind: str) -> None:
    """Does something to the collector that it must survive."""
    if kind == "full disk":
        with full_disk(collector):
            time.sleep(1.5)
        return
    if kind == "kill":
        collector.kill()
    collector.restart()


def storm(collector: RunningCollector, troubles: int, seed: int, say: Say, only: str = "") -> Ledger:
    """Traffic of several senders and one trouble after another; then stops the collector and counts everything.

    `only`: the one of TROUBLES to use, instead of random ones.
    """
    ledger, stop, random = Ledger(), threading.Event(), Random(seed)
    senders = [Sender(number, collector, stop) for number in range(SENDERS)]
    for sender in senders:
        sender.thread.start()
    for number in range(1, troubles + 1):
        time.sleep(0.3 + random.random())
        ledger.peak_mib = max(ledger.peak_mib, memory(collector))
        kind = only or random.choices(tuple(TROUBLES), tuple(TROUBLES.values()))[0]
        trouble(collector, kind)
        ledger.troubles[kind] += 1
        say(f"{number}/{troubles} {kind}, {sum(sender.ledger.sent['good'] for sender in senders)} records stored")
    time.sleep(1)
    stop.set()
    for sender in senders:
        sender.thread.join(120)
        ledger.add(sender.ledger)
    health = collector.get("/api/v1/health")
    ledger.accounted = {"stored": health["stored"], "duplicate": health["duplicate"], **health["dropped"]}
    ledger.strange += int(health["accepted"] != sum(ledger.accounted.values()))
    ledger.strange += int(collector.stop(signal.SIGTERM) != 0)
    count(collector.store, {name for sender in senders for name in sender.names}, ledger)
    return ledger


def count(store: Path, names: set[str], ledger: Ledger) -> None:
    """Compares the calls in the file with those that were sent."""
    with duckdb.connect(str(store), read_only=True) as connection:
        stored = [row[0] for row in connection.execute("select call_id from events").fetchall()]
    ledger.lost = len(names.difference(stored))
    ledger.doubled = len(stored) - len(set(stored))
    ledger.strange += len(set(stored).difference(names))


def memory(collector: RunningCollector) -> int:
    """Resident MiB of the collector."""
    assert collector.process is not None
    status = Path(f"/proc/{collector.process.pid}/status").read_text()
    return next((int(line.split()[1]) >> 10 for line in status.splitlines() if line.startswith("VmRSS")), 0)


def steady(collector: RunningCollector, seconds: float, say: Say) -> tuple[int, int, int]:
    """Traffic without trouble: resident MiB after a quarter of the time and at the end, and records stored."""
    stop = threading.Event()
    senders = [Sender(number + SENDERS, collector, stop) for number in range(SENDERS)]
    for sender in senders:
        sender.thread.start()
    early, began = 0, time.monotonic()
    while (passed := time.monotonic() - began) < seconds:
        time.sleep(min(5.0, seconds / 4))
        now = memory(collector)
        early = early or (now if passed >= seconds / 4 else 0)
        records = sum(sender.ledger.sent["good"] for sender in senders)
        say(f"{passed:.0f}/{seconds:.0f} s, {records} records, {now} MiB")
    stop.set()
    for sender in senders:
        sender.thread.join(120)
    return early, memory(collector), sum(sender.ledger.sent["good"] for sender in senders)


def main() -> int:
    """Runs all three parts and prints their figures."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--troubles", type=int, default=40)
    arguments.add_argument("--only", choices=tuple(TROUBLES), default="")
    arguments.add_argument("--seconds", type=float, default=120)
    arguments.add_argument("--bodies", type=int, default=10_000)
    arguments.add_argument("--seed", type=int, default=1)
    given = arguments.parse_args()
    wrong: list[str] = []

    def say(text: str) -> None:
        print(f"  {text}", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        collector = RunningCollector(Path(folder)).start()
        try:
            print("kills, restarts and full disks under load", flush=True)
            ledger = storm(collector, given.troubles, given.seed, say, given.only)
            say(f"{dict(ledger.troubles)}, answers {dict(ledger.answers)}, at most {ledger.peak_mib} MiB")
            say(f"sent {dict(ledger.sent)}, accounted {ledger.accounted}, lost {ledger.lost}, doubled {ledger.doubled}")
            wrong += ledger.mistakes()

            print("traffic without trouble", flush=True)
            collector.start()
            early, late, records = steady(collector, given.seconds, say)
            size = sum(path.stat().st_size for path in collector.folder.glob("misstep.duckdb*"))
            say(f"{records} records, {early} MiB early, {late} MiB at the end, {size >> 20} MiB of files")
            if late > MOST_MIB:
                wrong.append(f"memory grew from {early} to {late} MiB")

            print("malformed bodies", flush=True)
            fuzzed: Fuzzed = fuzz(collector, given.bodies, given.seed, say)
            before = memory(collector)
            say(f"answers {dict(fuzzed.answers)}, {late} MiB before, {before} MiB after")
            wrong += fuzzed.mistakes
            if before > late + 150:
                wrong.append(f"memory grew from {late} to {before} MiB by malformed bodies")
        finally:
            if collector.process and collector.process.poll() is None:
                collector.stop()
    print("\n".join(wrong) or "everything that was sent is stored once or was rejected with a reason")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
