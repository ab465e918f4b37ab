"""The cluster away under load: how long agents wait for their answers, and whether all is there afterwards.

    python -m benchmarks.away [--events 2000] [--before 60] [--away 240] [--after 30]

One collector with a ClickHouse (tests/clickhouse.py, or MISSTEP_TEST_CLICKHOUSE, which is not stopped). Requests of 50
calls are sent at a steady rate, however long earlier ones take. Exits with 1 if one was refused or anything is missing.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

import httpx

from collector.cluster.client import Cluster
from collector.cluster.tables import Layout, make
from collector.errors import Unavailable
from tests.clickhouse import Front
from tests.conftest import RunningCollector, free_port

CALLS = 50  # in a request
SENDERS = 32
PATIENCE_S = 1_800.0


class Load:
    """Requests at a steady rate, with the time that each answer took, by phase."""

    def __init__(self, url: str) -> None:
        self.took: dict[str, list[float]] = defaultdict(list)
        self.refused: list[str] = []
        self.sent = 0
        self.phase = ""
        self._client = httpx.Client(base_url=url, timeout=60, limits=httpx.Limits(max_connections=SENDERS))
        self._lock = Lock()

    def run(self, phase: str, seconds: float, a_second: float) -> None:
        """Sends for so many seconds; returns when all are answered."""
        self.phase, began = phase, time.monotonic()
        with ThreadPoolExecutor(SENDERS) as pool:
            for number in range(int(seconds * a_second)):
                time.sleep(max(0.0, began + number / a_second - time.monotonic()))
                pool.submit(self._send, self.sent, began + number / a_second)
                self.sent += 1

    def _send(self, number: int, due: float) -> None:
        """An answer's time counts from when the request was due, as an agent would have sent it then."""
        phase, error = self.phase, ""
        try:
            answer = self._client.post("/v1/events", content=body(number), headers={"content-type": "application/json"})
            error = "" if answer.is_success else f"{answer.status_code} {answer.text[:200]}"
        except httpx.HTTPError as lost:
            error = repr(lost)
        with self._lock:
            self.took[phase].append(time.monotonic() - due)
            if error:
                self.refused.append(f"{phase}: {error}")


def body(number: int) -> str:
    """Calls of one of 200 sessions, one in five failed."""
    now = datetime.now(UTC).isoformat()
    return json.dumps(
        [
            {
                "service": f"agent-{number % 7}", "session": f"s{number % 200}-{number // 20_000}", "tool": "edit",
                "call_id": f"{number}.{call}", "time": now, "target": f"f{call % 9}.py",
                **({"outcome": "error", "message": "file not found"} if call % 5 == 0 else {"outcome": "ok"}),
            }
            for call in range(CALLS)
        ]
    )  # fmt: skip


def quantiles(took: list[float]) -> str:
    ordered = sorted(took)
    some = (0.5, 0.99, 1.0)
    return ", ".join(f"p{share * 100:.0f} {ordered[int(share * (len(ordered) - 1))]:.3f} s" for share in some)


def caught_up(cluster: Cluster, events: int) -> float:
    """Seconds until the cluster has so many, or too many."""
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE_S:
        with suppress(Unavailable):
            [row] = cluster.rows("select count() as n, uniqExact(event_id) as ids from events")
            if row["n"] >= events:
                return time.monotonic() - began
        time.sleep(1)
    return PATIENCE_S


def main() -> int:
    """Prints figures; 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=2_000, help="a second")
    for name, most in (("before", 60), ("away", 240), ("after", 30)):
        parser.add_argument(f"--{name}", type=float, default=most, help="seconds")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        front = Front(Path(folder), free_port()).start()
        url = front.database()
        cluster = Cluster(url)
        make(cluster, Layout(), 30 * 86_400)
        (place := Path(folder) / "collector").mkdir()
        collector = RunningCollector(place, {"CLUSTER": url, "HASH_KEY": "k" * 32}, fresh=True).start()
        load, a_second = Load(collector.url), given.events / CALLS
        try:
            load.run("before", given.before, a_second)
            front.kill()
            load.run("away", given.away, a_second)
            front.start()
            load.run("after", given.after, a_second)
            events = load.sent * CALLS
            seconds = caught_up(cluster, events)
            [row] = cluster.rows("select count() as n, uniqExact(event_id) as ids from events")
        finally:
            collector.stop()
            front.kill()
    for phase, took in load.took.items():
        print(f"{phase}: {len(took):,} requests, {quantiles(took)}")
    print(f"{events:,} events sent, {row['n']:,} in the cluster {seconds:.0f} s after the last")
    for reason in load.refused[:10]:
        print(f"refused: {reason}")
    return int(bool(load.refused) or row != {"n": events, "ids": events})


if __name__ == "__main__":
    sys.exit(main())
