"""The exporters of the real JavaScript SDK: three protocols, three signals, plain and gzipped."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.conftest import RunningCollector

SCRIPT = Path(__file__).with_name("js") / "export.mjs"
FACTS = ("source_signal", "tool", "outcome", "error_class")


def export(protocol: str, collector: RunningCollector) -> None:
    """Runs the script with the Node of the machine, or else of the environment, where `make` installs one."""
    endpoint = f"http://{collector.grpc}" if protocol == "grpc" else collector.url
    quiet = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    node = shutil.which("node") or str(Path(sys.executable).with_name("node"))
    ran = subprocess.run(
        [node, SCRIPT, protocol, endpoint], env=quiet, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stdout.split()) == (0, ["done"]), ran.stderr


def test_the_exporters_deliver_every_signal(collector: RunningCollector) -> None:
    for protocol in ("http", "proto", "grpc"):
        export(protocol, collector)
    services = [f"js-{protocol}-{packed}" for protocol in ("http", "proto", "grpc") for packed in ("none", "gzip")]
    events = {(event["service"], event["call_id"]): event for event in collector.events()}
    assert {key: tuple(event[name] for name in FACTS) for key, event in events.items()} == {
        (service, call): facts
        for service in services
        for call, facts in (
            ("by-log", ("log", "Read", "error", "FileNotFoundError")),
            ("by-span", ("span", "run", "error", "ConnectionError")),
        )
    }
    for service in services:
        first = events[service, "by-log"]
        assert (first["session"], first["sequence"], first["target"]) == ("s1", 7, "/srv/ä.txt")
    senders = {(row["service"], row["metrics"]) for row in collector.get("/api/v1/sources")["rows"] if row["metrics"]}
    assert senders == {(f"{service}-metrics", "gen_ai.execute_tool.duration") for service in services}
