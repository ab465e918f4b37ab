"""Sends at a constant rate for a long time: does memory stay flat, and the file within its limit?

    python -m benchmarks.day [--minutes 60] [--rate 5000] [--size 2GB] [--every 60]

Starts a collector on loopback with an empty store and sends distinct tool calls in ever new sessions until the time is
over. Each line is one interval: events so far, answers, the collector's memory and CPU time, its files, how far streaks
are behind. Exits with 1 if an event was lost or counted twice.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
import urllib.request
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from random import Random
from statistics import quantiles
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.ingest import request
from benchmarks.load import MEDIA, Sent, cpu, memory, posted, running_collector, sending

EVENTS = 500  # in a request
MOULDS = 20  # requests that differ in more than ids and times
HEAD = "minutes     events  events/s  p50 ms  p99 ms    most  MiB PSS  µs/event  file MB  log MB  behind s"
CALLS = 25  # in a session, about


class Mould:
    """A request in protobuf, and the places of ids, sessions and times in it."""

    def __init__(self, random: Random) -> None:
        message = request(random, EVENTS, time.time_ns())
        self._body = bytearray(message.SerializeToString())
        self._ids: list[tuple[int, int]] = []
        self._sessions: list[int] = []
        self._times: list[int] = []
        self._find(message)

    def _find(self, message: ExportTraceServiceRequest) -> None:
        place = 0
        for span in message.resource_spans[0].scope_spans[0].spans:
            whole = span.SerializeToString()
            place = self._body.index(whole, place)
            texts = {one.key: one.value.string_value.encode() for one in span.attributes}
            self._ids += [(place + whole.index(one), len(one)) for one in (span.trace_id, span.span_id)]
            self._ids.append((place + whole.index(texts["gen_ai.tool.call.id"]) + len("call_"), 24))
            self._sessions.append(place + whole.index(texts["gen_ai.conversation.id"]) + len("conv-"))
            for moment in (span.start_time_unix_nano, span.end_time_unix_nano):
                self._times.append(place + whole.index(moment.to_bytes(8, "little")))
            place += len(whole)

    def cast(self, number: int) -> bytes:
        """The request as the `number`th of the run: with new ids, and the present as its time."""
        body = self._body
        for place, length in self._ids:
            body[place : place + length] = os.urandom(length) if length < 24 else os.urandom(12).hex().encode()
        first = number // CALLS * EVENTS
        for position, place in enumerate(self._sessions):
            body[place : place + 8] = f"{first + position:08x}".encode()
        now = time.time_ns()
        for position, place in enumerate(self._times):
            body[place : place + 8] = (now - 1_000_000 * (position % 2 == 0)).to_bytes(8, "little")
        return bytes(body)


def main() -> None:
    """Prints a line of figures per interval, and at the end what became of the events."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--minutes", type=float, default=60)
    arguments.add_argument("--rate", type=float, default=5000, help="events/s")
    arguments.add_argument("--size", default="2GB", help="largest size of the store (MISSTEP_RETENTION_SIZE)")
    arguments.add_argument("--connections", type=int, default=4)
    arguments.add_argument("--every", type=float, default=60, help="seconds per line")
    given = arguments.parse_args()
    os.environ["MISSTEP_RETENTION_SIZE"] = given.size
    requests = round(given.every * given.rate / EVENTS)  # per line
    with running_collector() as (port, process, store), ProcessPoolExecutor(1, get_context("fork")) as sender:
        print(HEAD, flush=True)
        started, before, events, number = time.monotonic(), cpu(process), 0, 0
        while (minutes := (time.monotonic() - started) / 60) < given.minutes:
            sent = sender.submit(_part, port, number, requests, given.connections, given.rate).result()
            number += requests
            events += sent.events
            used, before = cpu(process) - before, cpu(process)
            cuts, most = quantiles(sent.latencies, n=100, method="inclusive"), max(sent.latencies)
            figures = (
                f"{minutes:7.0f} {events:10d} {sent.events / sent.seconds:9.0f}",
                f"{cuts[49] * 1e3:7.0f} {cuts[98] * 1e3:7.0f} {most * 1e3:7.0f}",
                f"{memory(process):8.0f} {used / sent.events * 1e6:9.0f}",
                f"{megabytes(store):8.0f} {megabytes(Path(f'{store}.wal')):7.0f}",
                f"{health_of(port)['keeper']['seconds']:9.0f}",
            )
            print(*figures, flush=True)
        health = health_of(port)
    fates = {fate: health[fate] for fate in ("accepted", "stored", "duplicate", "unaccounted")}
    print(f"{events} events sent:", ", ".join(f"{count} {fate}" for fate, count in fates.items()))
    if not events == fates["accepted"] == fates["stored"]:
        raise SystemExit("not every event was stored once")


def _part(port: int, first: int, requests: int, connections: int, rate: float) -> Sent:
    """Sends `requests` requests; runs in a process of its own."""
    random = Random(first)
    moulds = [Mould(random) for _ in range(MOULDS)]
    bodies = (moulds[number % MOULDS].cast(number) for number in range(first, first + requests))
    posts = (posted(port, MEDIA["protobuf"], body) for body in bodies)
    return asyncio.run(sending(port, posts, connections, EVENTS, rate))


def megabytes(path: Path) -> float:
    """The size of a file; 0 if there is none."""
    return path.stat().st_size / 1e6 if path.exists() else 0


def health_of(port: int) -> dict[str, Any]:
    """The collector's answer at /api/v1/health."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/health", timeout=60) as answer:
        health: dict[str, Any] = json.load(answer)
    return health


if __name__ == "__main__":
    main()
