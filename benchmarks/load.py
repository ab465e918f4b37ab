"""A whole collector under load: events/s acknowledged and durable, latency, CPU time, memory and disk.

    python -m benchmarks.load [--requests 200] [--connections 8] [--encoding protobuf] [--events 500] [--rate 0]

Starts a collector on loopback with an empty store and sends distinct requests from another process, as fast as they are
answered or at `--rate` events/s. CPU time and memory are those of the collector's processes alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import quantiles

from benchmarks.ingest import otlp_json, request

MEDIA = {"json": "application/json", "protobuf": "application/x-protobuf"}
TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Sent:
    """What a sender has measured."""

    events: int = 0
    refused: int = 0
    seconds: float = 0
    latencies: list[float] = field(default_factory=list)


def main() -> None:
    """Prints one line per figure."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--requests", type=int, default=200)
    arguments.add_argument("--connections", type=int, default=8)
    arguments.add_argument("--encoding", choices=tuple(MEDIA), default="protobuf")
    arguments.add_argument("--events", type=int, default=500)
    arguments.add_argument("--rate", type=float, default=0)
    arguments.add_argument("--workers", default="")
    given = arguments.parse_args()
    floor = reading_and_answering(given.encoding, given.requests, given.connections, given.events)
    with running_collector(given.workers) as (port, process, store):
        time.sleep(5)  # by then it has given back what only its start needed
        idle = memory(process)
        before = cpu(process)
        sent = send(port, given.encoding, given.requests, given.connections, given.events, given.rate)
        used = cpu(process) - before
        peak = memory(process)
        stored = events_stored(port)
        process.send_signal(signal.SIGTERM)
        process.wait(180)
        disk = store.stat().st_size
    cuts, most = quantiles(sent.latencies, n=100, method="inclusive"), max(sent.latencies)
    print(f"{given.encoding}, {given.events} events a request, {given.connections} connections")
    print(f"a server that only reads and answers {floor:6.2f} µs of CPU time an event")
    print(f"acknowledged        {sent.events / sent.seconds:10,.0f} events/s ({sent.refused} requests refused)")
    print(f"latency             {cuts[49] * 1e3:10.0f} ms p50, {cuts[98] * 1e3:.0f} p99, {most * 1e3:.0f} most")
    print(f"CPU of the collector{used / sent.events * 1e6:10.1f} µs an event")
    print(f"memory              {idle:10.0f} MiB PSS idle, {peak:.0f} after the load")
    print(f"disk                {disk / max(stored, 1):10.0f} bytes an event")
    if stored != sent.events:
        raise SystemExit(f"{stored} events are stored, {sent.events} were acknowledged")


def reading_and_answering(encoding: str, requests: int, connections: int, events: int) -> float:
    """µs of CPU time per event of the same HTTP server with an application that ignores the bodies."""
    port = free_port()
    process = subprocess.Popen((sys.executable, "-m", "benchmarks.floor", str(port)))
    try:
        wait_ready(port, process)
        before = cpu(process)
        sent = send(port, encoding, requests, connections, events, 0)
        return (cpu(process) - before) / sent.events * 1e6
    finally:
        process.kill()
        process.wait()


@contextmanager
def running_collector(
    workers: str = "", held: Path | None = None
) -> Iterator[tuple[int, subprocess.Popen[bytes], Path]]:
    """A collector with an empty store, or with the store `held`: its HTTP port, its process, its file."""
    with tempfile.TemporaryDirectory() as folder:
        store = held or Path(folder, "bench.duckdb")
        port, grpc = free_port(), free_port()
        settings = {"HTTP": f"127.0.0.1:{port}", "GRPC": f"127.0.0.1:{grpc}", "STORE": f"duckdb:////{store}"}
        if workers:
            settings["WORKERS"] = workers
        environment = {**os.environ, **{f"MISSTEP_{name}": value for name, value in settings.items()}}
        command = (sys.executable, "-m", "collector", "collector")
        process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        try:
            wait_ready(port, process)
            yield port, process, store
        finally:
            process.kill()
            process.wait()


def free_port() -> int:
    """A free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_ready(port: int, process: subprocess.Popen[bytes]) -> None:
    """Returns when the collector answers; ends the run if it does not."""
    for _ in range(600):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1)
            return
        except OSError:
            if process.poll() is not None:
                break
            time.sleep(0.1)
    raise SystemExit("the collector does not start")


def send(port: int, encoding: str, requests: int, connections: int, events: int, rate: float) -> Sent:
    """Generates and sends the requests in a process of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        return pool.submit(_send, port, encoding, requests, connections, events, rate).result()


def _send(port: int, encoding: str, requests: int, connections: int, events: int, rate: float) -> Sent:
    random, now = Random(time.time_ns()), time.time_ns()
    messages = (request(random, events, now) for _ in range(requests))
    bodies = [otlp_json(one) if encoding == "json" else one.SerializeToString() for one in messages]
    posts = [posted(port, MEDIA[encoding], body) for body in bodies]
    return asyncio.run(sending(port, posts, connections, events, rate))


def posted(port: int, media_type: str, body: bytes) -> bytes:
    """A body as one HTTP request for traces."""
    head = f"POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: {media_type}\r\nContent-Length: "
    return f"{head}{len(body)}\r\n\r\n".encode() + body


async def sending(port: int, requests: Iterable[bytes], connections: int, events: int, rate: float) -> Sent:
    """Sends requests of `events` events each, as fast as they are answered or at `rate` events/s."""
    sent, waiting = Sent(), iter(enumerate(requests))
    started = time.perf_counter()

    async def connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number, one in waiting:
            due = started + number * events / rate if rate else 0
            await asyncio.sleep(max(0, due - time.perf_counter()))
            asked = max(due, 0) or time.perf_counter()  # at a rate, waiting for a free connection is latency too
            while True:
                writer.write(one)
                status = await _answer(reader)
                if status != 429 and status != 503:
                    break
                sent.refused += 1
                await asyncio.sleep(0.2)
            if status != 200:
                raise SystemExit(f"the collector answered {status}")
            sent.latencies.append(time.perf_counter() - asked)
            sent.events += events
        writer.close()

    await asyncio.gather(*(connection() for _ in range(connections)))
    sent.seconds = time.perf_counter() - started
    return sent


async def _answer(reader: asyncio.StreamReader) -> int:
    """The status of one answer; its body is discarded."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = next(int(line.partition(":")[2]) for line in head.splitlines() if line.startswith("content-length"))
    await reader.readexactly(length)
    return int(head.split()[1])


def family(process: subprocess.Popen[bytes]) -> list[int]:
    """The process and its children, by id."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [process.pid, *map(int, children)]


def cpu(process: subprocess.Popen[bytes]) -> float:
    """Seconds of CPU that the collector's processes have used."""
    used = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in family(process))
    return sum(int(fields[11]) + int(fields[12]) for fields in used) / TICK


def memory(process: subprocess.Popen[bytes]) -> float:
    """MiB of the collector's processes; shared memory counts once."""
    rollups = (Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines() for pid in family(process))
    return sum(int(line.split()[1]) for lines in rollups for line in lines if line.startswith("Pss:")) / 1024


def events_stored(port: int) -> int:
    """How many calls the query API counts."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/breakdown?by=source&from=-48h", timeout=60) as answer:
        return sum(row["calls"] for row in json.load(answer)["rows"])


if __name__ == "__main__":
    main()
