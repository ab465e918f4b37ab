"""Times the dashboard's queries over a large store, without and with a sender: milliseconds of each answer over HTTP.

    python -m benchmarks.beside --store /tmp/10m.duckdb [--rate 2000] [--rounds 20]

The collector writes to the store, so give it a copy. All queries run in turn, `--rounds` times without and as often
with a sender, which repeats refused requests.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median, quantiles
from threading import Event

import httpx

from benchmarks.load import cpu, memory, running_collector, send

ALL = "sessions,p50_ms,p95_ms,recovery_rate"
QUESTIONS = (
    ("breakdown, all measures, 24 h", 200, f"breakdown?by=tool,error_class&measures={ALL}"),
    ("timeseries by category, 24 h", 200, "timeseries?by=category"),
    ("breakdown by tool and class, 30 days", 200, "breakdown?by=tool,error_class&from=-30d"),
    ("timeseries by category, 30 days", 200, "timeseries?by=category&from=-30d"),
    ("streaks, 24 h", 200, "streaks?min_length=2"),
    ("streaks, 30 days", 200, "streaks?min_length=2&from=-30d"),
    ("retries by class, 30 days", 200, "retries?by=error_class&from=-30d"),
    ("groups, 24 h", 200, "groups"),
    ("sessions, 24 h", 200, "sessions"),
    ("p50 and p95 per tool, 30 days", 1500, "breakdown?by=tool&measures=p50_ms,p95_ms&from=-30d"),
    ("newest events", 200, "events"),
)
EVENTS = 200  # in a request
PIECE_S = 5  # of traffic that is generated before it is sent


def main() -> None:
    """Prints one line per question."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--store", type=Path, required=True)
    arguments.add_argument("--rate", type=float, default=2_000)
    arguments.add_argument("--rounds", type=int, default=20)
    given = arguments.parse_args()
    with running_collector(held=given.store) as (port, process, _), ThreadPoolExecutor(1) as sender:
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}/api/v1/", timeout=60)
        alone, _ = _asked(client, given.rounds)
        done = Event()
        sending = sender.submit(_sent, port, given.rate, done)
        began, used = time.perf_counter(), cpu(process)
        beside, inexact = _asked(client, given.rounds)
        seconds, used = time.perf_counter() - began, cpu(process) - used
        done.set()
        print(f"{given.rate:,.0f} events/s wanted, {sending.result():,.0f} accepted")
        print(f"{used / seconds:.2f} s of CPU a second, {memory(process):.0f} MiB PSS\n")
        print("| question | alone, p50 | beside, p50 | beside, p95 | behind | budget |")
        print("| --- | --- | --- | --- | --- | --- |")
        for name, budget, _ in QUESTIONS:
            p95 = quantiles(beside[name], n=20)[18]
            over = " ✗" if p95 > budget else ""
            row = f"| {name} | {median(alone[name]):.0f} | {median(beside[name]):.0f} | {p95:.0f} "
            print(f"{row}| {inexact[name]} of {given.rounds} | {budget}{over} |")


def _sent(port: int, rate: float, done: Event) -> float:
    """Sends until `done`; returns the accepted events/s."""
    sent, began = 0, time.perf_counter()
    while not done.is_set():
        sent += send(port, "protobuf", max(1, int(rate * PIECE_S / EVENTS)), 8, EVENTS, rate).events
    return sent / (time.perf_counter() - began)


def _asked(client: httpx.Client, rounds: int) -> tuple[dict[str, list[float]], dict[str, int]]:
    """Milliseconds of each answer, and how many of them were not exact, because streaks were still being computed."""
    took: dict[str, list[float]] = {name: [] for name, _, _ in QUESTIONS}
    inexact = dict.fromkeys(took, 0)
    for _ in range(rounds):
        for name, _, path in QUESTIONS:
            began = time.perf_counter()
            answer = client.get(path).raise_for_status().json()
            took[name].append((time.perf_counter() - began) * 1e3)
            inexact[name] += not answer["exact"]
    return took, inexact


if __name__ == "__main__":
    main()
