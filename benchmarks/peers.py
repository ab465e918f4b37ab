"""Compares Misstep with others that accept OTLP spans: the same load on each, one after the other, from one sender.

    python -m benchmarks.peers [--phoenix VENV] [--mlflow VENV] [--rotel VENV] [--requests 40] [--connections 4]

Each VENV is a virtual environment with that peer (`pip install arize-phoenix`, `mlflow`, `rotel`); others are
left out. Phoenix and MLflow store in SQLite, their default; Rotel stores nothing, so it forwards to a sink that counts.
CPU time and memory are those of the peer's processes, until the last row appears.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import multiprocessing
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from statistics import quantiles
from typing import Any

import httpx
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.ingest import otlp_json, request
from benchmarks.load import TICK, Sent, events_stored, free_port, sending

SPANS = 100  # in a request
KILLED = 30  # requests that are acknowledged before the kill
START_S, STORE_S, QUIET_S = 600, 240, 20  # longest waits: for the first answer, for all rows, for a further row
JSON, PROTOBUF = "application/json", "application/x-protobuf"


@dataclass(frozen=True)
class Peer:
    """How to start a peer, and how to count the spans that it has stored."""

    name: str
    command: list[str]
    environment: dict[str, str]
    count: Callable[[], int]
    port: int
    ready: str = ""  # a path that answers once it is ready; without one, it is ready when its port accepts connections
    headers: dict[str, str] = field(default_factory=dict)
    times: int = 1  # as many requests, for peers that are too fast for a clock of 10 ms


class Sink(ThreadingHTTPServer):
    """An OTLP endpoint that counts spans, for a peer that only forwards."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Counting)
        self.spans = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Counting(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        found = ExportTraceServiceRequest.FromString(gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body)
        server: Any = self.server
        server.spans += sum(len(scope.spans) for group in found.resource_spans for scope in group.scope_spans)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


def misstep(folder: Path) -> Peer:
    """The collector of this checkout."""
    port = free_port()
    place = {"HTTP": f"127.0.0.1:{port}", "GRPC": f"127.0.0.1:{free_port()}", "STORE": f"duckdb:////{folder}/m.duckdb"}
    environment = {f"MISSTEP_{name}": value for name, value in place.items()}
    command = [sys.executable, "-m", "collector", "collector"]
    return Peer("Misstep", command, environment, lambda: events_stored(port), port, "/readyz", times=10)


def phoenix(folder: Path, venv: Path) -> Peer:
    """Arize Phoenix with SQLite."""
    port = free_port()
    environment = {
        "PHOENIX_HOST": "127.0.0.1", "PHOENIX_PORT": str(port), "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_WORKING_DIR": str(folder),
    }  # fmt: skip
    count = _rows_of(folder / "phoenix.db")
    return Peer("Phoenix", [f"{venv}/bin/phoenix", "serve"], environment, count, port, "/healthz")


def mlflow(folder: Path, venv: Path) -> Peer:
    """MLflow's tracking server with SQLite."""
    port = free_port()
    command = [f"{venv}/bin/mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--backend-store-uri", f"sqlite:///{folder}/m.db", "--artifacts-destination", f"{folder}/artifacts"]
    environment = {"MLFLOW_DISABLE_TELEMETRY": "true", "PATH": f"{venv}/bin:{os.environ['PATH']}"}
    headers = {"x-mlflow-experiment-id": "0"}
    return Peer("MLflow", command, environment, _rows_of(folder / "m.db"), port, "/health", headers)


def rotel(folder: Path, venv: Path) -> Peer:
    """Rotel, which forwards to a `Sink`."""
    port, sink = free_port(), Sink()
    [agent] = venv.glob("lib/*/site-packages/rotel/rotel-agent")
    command = [str(agent), "start", "--otlp-http-endpoint", f"127.0.0.1:{port}", "--exporter", "otlp"]
    command += ["--otlp-grpc-endpoint", f"127.0.0.1:{free_port()}", "--otlp-exporter-protocol", "http"]
    command += ["--otlp-exporter-endpoint", f"http://127.0.0.1:{sink.server_port}"]
    return Peer("Rotel", command, {}, lambda: sink.spans, port, times=10)


def _rows_of(file: Path) -> Callable[[], int]:
    """Counts the spans in an SQLite file that another process writes."""

    def count() -> int:
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
            return int(database.execute("select count(*) from spans").fetchone()[0])
        return 0

    return count


@contextmanager
def running(peer: Peer, folder: Path) -> Iterator[int]:
    """Starts a peer, yields the id of its first process once it answers, and kills it afterwards."""
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            peer.command, env={**os.environ, **peer.environment}, cwd=folder, stdout=log, stderr=log
        )
    try:
        wait(lambda: answers(peer) or process.poll() is not None, START_S)
        if not answers(peer):
            raise SystemExit(f"{peer.name} does not start: {(folder / 'log').read_text()[-2000:]}")
        yield process.pid
    finally:
        kill(process.pid)
        process.wait()


def answers(peer: Peer) -> bool:
    """Whether the peer is ready."""
    try:
        if peer.ready:
            return httpx.get(f"http://127.0.0.1:{peer.port}{peer.ready}", timeout=5).is_success
        with socket.create_connection(("127.0.0.1", peer.port), timeout=1):
            return True
    except (OSError, httpx.HTTPError):
        return False


def wait(happened: Callable[[], bool], seconds: float) -> None:
    """Returns once `happened()` is true, or after `seconds`."""
    deadline = time.monotonic() + seconds
    while not happened() and time.monotonic() < deadline:
        time.sleep(0.05)


def tree(pid: int) -> list[int]:
    """The ids of a process and of its descendants."""
    found = [pid]
    with suppress(OSError):
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            found += [one for child in children.read_text().split() for one in tree(int(child))]
    return found


def kill(pid: int) -> None:
    """Kills a process and its descendants, without a chance to clean up."""
    for one in tree(pid):
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)


def cpu(pid: int) -> float:
    """Seconds of CPU of a tree of processes, including ended ones that were waited for."""
    used = 0
    for one in tree(pid):
        with suppress(OSError):
            used += sum(map(int, Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return used / TICK


def memory(pid: int) -> float:
    """MiB of a tree of processes; shared memory counts once."""
    found = 0
    for one in tree(pid):
        with suppress(OSError):
            lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
            found += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return found / 1024


def bodies(requests: int) -> list[bytes]:
    """Requests of SPANS tool calls each, with unique ids."""
    random, now = Random(time.time_ns()), time.time_ns()
    return [request(random, SPANS, now).SerializeToString() for _ in range(requests)]


def send(peer: Peer, requests: int, connections: int) -> Sent:
    """Sends from a process of its own, which also makes the requests."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        return pool.submit(_send, peer.port, peer.headers, requests, connections).result()


def _send(port: int, headers: dict[str, str], requests: int, connections: int) -> Sent:
    more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: {PROTOBUF}\r\n{more}Content-Length: "
    whole = [f"{head}{len(body)}\r\n\r\n".encode() + body for body in bodies(requests)]
    return asyncio.run(sending(port, whole, connections, SPANS, 0))


def settled(peer: Peer, wanted: int) -> tuple[int, float]:
    """How many spans a peer has stored once no more appear, and when the last of them appeared."""
    count, last = -1, time.perf_counter()
    began = last
    while count < wanted and time.perf_counter() - last < QUIET_S and time.perf_counter() - began < STORE_S:
        if (now := peer.count()) != count:
            count, last = now, time.perf_counter()
        time.sleep(0.1)
    return count, last


def load(peer: Peer, folder: Path, requests: int, connections: int) -> dict[str, str]:
    """Figures of one load, from the first request to the last row."""
    with running(peer, folder) as pid:
        time.sleep(3)
        send(peer, connections, connections)  # what is set up at the first request is not a cost of spans
        known = settled(peer, connections * SPANS)[0]
        idle, before, began = memory(pid), cpu(pid), time.perf_counter()
        sent = send(peer, requests * peer.times, connections)
        stored, last = settled(peer, known + sent.events)
        used, full = cpu(pid) - before, memory(pid)
    cuts = quantiles(sent.latencies, n=100)
    return {
        "CPU, s per 100,000 spans": f"{used / sent.events * 1e5:.2f}",
        "acknowledged, spans/s": f"{sent.events / sent.seconds:,.0f}",
        "stored, spans/s": f"{(stored - known) / (last - began):,.0f}",
        "p50, p99 ms": f"{cuts[49] * 1e3:.0f}, {cuts[98] * 1e3:.0f}",
        "memory before, after, MiB PSS": f"{idle:.0f}, {full:.0f}",
        "acknowledged and never stored": f"{known + sent.events - stored}",
    }


def killed(peer: Peer, folder: Path) -> dict[str, str]:
    """How many acknowledged spans are lost by a kill, and how often a repeated request is stored."""
    with running(peer, folder) as pid:
        send(peer, KILLED, 1)
        kill(pid)
    with running(peer, folder):
        there, _ = settled(peer, KILLED * SPANS)
        [body] = bodies(1)
        for _ in range(2):
            post(peer, body, {"content-type": PROTOBUF})
        again, _ = settled(peer, there + 2 * SPANS)
    return {
        f"of {KILLED * SPANS:,} acknowledged, lost by kill -9": f"{KILLED * SPANS - there:,}",
        "the same request twice is stored": f"{(again - there) / SPANS:.0f} ×",
    }


def probes() -> Iterator[tuple[str, bytes, dict[str, str]]]:
    """Requests as exporters and networks have been seen to send them, and as an attacker would."""
    message = request(Random(1), 3, time.time_ns())
    good, text = message.SerializeToString(), otlp_json(message)
    tree = json.loads(text)
    binary, plain = {"content-type": PROTOBUF}, {"content-type": JSON}
    packed = {**binary, "content-encoding": "gzip"}
    deep = b'{"arrayValue":{"values":[' * 2_000 + b'{"stringValue":"x"}' + b"]}}" * 2_000
    span = tree["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    yield "protobuf", good, binary
    yield "JSON", text, plain
    yield "gzip", gzip.compress(good), packed
    yield "`application/x-protobuf; charset=utf-8`", good, {"content-type": f"{PROTOBUF}; charset=utf-8"}
    yield "truncated gzip", gzip.compress(good)[:-20], packed
    yield "not gzip at all", good, packed
    yield "`Content-Encoding: br`", good, {**binary, "content-encoding": "br"}
    yield "truncated protobuf", good[:-7], binary
    yield "random bytes", Random(2).randbytes(500), binary
    yield "empty body", b"", binary
    yield "bad JSON", text[:-5], plain
    yield "wrong JSON types", b'{"resourceSpans": 5}', plain
    yield "bad trace id in JSON", text.replace(span["traceId"].encode(), b"zz"), plain
    yield "wrong content type", good, {"content-type": "text/plain"}
    yield "JSON nested 100,000 deep", b"[" * 100_000, plain
    yield "attribute nested 2,000 deep", text.replace(b'{"stringValue":"read_file"}', deep, 1), plain
    yield "gzip bomb, 256 MiB", gzip.compress(bytes(256 << 20), 9), packed
    yield "69 MB body", bytes(69_000_000), binary


def post(peer: Peer, body: bytes, headers: dict[str, str]) -> str:
    """The status of the answer, and whether it says that something was left out."""
    url = f"http://127.0.0.1:{peer.port}/v1/traces"
    try:
        answer = httpx.post(url, content=body, headers={**peer.headers, **headers}, timeout=120)
    except httpx.TransportError:
        return "closed"
    return f"{answer.status_code}{', partial' if b'rejected' in answer.content else ''}"


def probed(peer: Peer, folder: Path) -> dict[str, str]:
    """The status of the answer to each of `probes`, and by how much memory grew if it is 100 MiB or more."""
    found = {}
    with running(peer, folder) as pid:
        for name, body, headers in probes():
            before = memory(pid)
            status = post(peer, body, headers)
            grown = memory(pid) - before
            found[name] = f"{status} (+{grown:.0f} MiB)" if grown >= 100 else status
        found["still up"] = "yes" if answers(peer) else "no"
    return found


def main() -> None:
    """Prints a table with a column for each peer."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    others: dict[str, Callable[[Path, Path], Peer]] = {"phoenix": phoenix, "mlflow": mlflow, "rotel": rotel}
    for name in others:
        arguments.add_argument(f"--{name}", type=Path, default=None)
    arguments.add_argument("--requests", type=int, default=40)
    arguments.add_argument("--connections", type=int, default=4)
    given = vars(arguments.parse_args())
    makers: list[Callable[[Path], Peer]] = [misstep]
    makers += [lambda at, name=name: others[name](at, given[name].absolute()) for name in others if given[name]]  # type: ignore[misc]
    columns: dict[str, dict[str, str]] = {}
    for make in makers:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            for part in ("load", "killed", "probed"):
                (at := Path(folder, part)).mkdir()
                peer = make(at)
                figures = {
                    "load": lambda p, a: load(p, a, given["requests"], given["connections"]),
                    "killed": killed,
                    "probed": probed,
                }[part](peer, at)
                columns.setdefault(peer.name, {}).update(figures)
                print(f"{peer.name}: {figures}", file=sys.stderr, flush=True)
    rows = dict.fromkeys(row for column in columns.values() for row in column)
    print(f"| | {' | '.join(columns)} |\n|{' --- |' * (len(columns) + 1)}")
    for row in rows:
        print(f"| {row} | {' | '.join(column.get(row, '') for column in columns.values())} |")


if __name__ == "__main__":
    main()
