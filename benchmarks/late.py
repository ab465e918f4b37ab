"""CPU of a collector with many events whose calls are reported twice, a second apart, as agents do by log and span.

    misstep demo --bulk 10000000 --seed 7 --store duckdb:////tmp/10m.duckdb
    cp /tmp/10m.duckdb /tmp/copy.duckdb; python -m benchmarks.late --store /tmp/copy.duckdb [--rate 100] [--once]

Each second report corrects a stored event. With `--once` there is none. The store must be a copy: it is written to.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from benchmarks.ingest import otlp_json, put, request
from benchmarks.load import MEDIA, cpu, posted, running_collector, sending

A_SECOND = 5  # requests
SETTLED_S = 15  # after the start, what earlier runs left is done


def main() -> None:
    """Prints one line per figure."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--store", type=Path, required=True)
    arguments.add_argument("--rate", type=int, default=100, help="calls per second")
    arguments.add_argument("--seconds", type=int, default=30)
    arguments.add_argument("--once", action="store_true", help="only the first report of each call")
    given = arguments.parse_args()
    with running_collector(held=given.store) as (port, process, _):
        time.sleep(SETTLED_S)
        events = max(1, given.rate // A_SECOND)
        found = list(bodies(events, given.seconds * A_SECOND, once=given.once))
        posts = [posted(port, MEDIA["json"], body) for body in found]
        before = cpu(process)
        sent = asyncio.run(sending(port, posts, 1, events, given.rate * (1 if given.once else 2)))
        used = cpu(process) - before
    calls = events * given.seconds * A_SECOND
    print(f"{calls} calls in {sent.seconds:.0f} s, {sent.events} reports")
    print(f"CPU of the collector{used / calls * 1e6:10.0f} µs a call")
    print(f"of one core         {100 * used / sent.seconds:10.0f} %")


def bodies(events: int, requests: int, *, once: bool) -> Iterator[bytes]:
    """The requests, each followed by one that says more of the calls of a second ago."""
    random, earlier = Random(time.time_ns()), []
    for number in range(requests + (0 if once else A_SECOND)):
        if number < requests:
            message = request(random, events, time.time_ns())
            earlier.append(message)
            yield otlp_json(message)
        if not once and number >= A_SECOND:
            message = earlier[number - A_SECOND]
            for span in message.resource_spans[0].scope_spans[0].spans:
                put(span.attributes, {"told.later": "yes"})
            yield otlp_json(message)


if __name__ == "__main__":
    main()
