"""What a collector may cost before it does any work, from outside; in CPU time, against a reference of the same run."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import MISSTEP, RunningCollector

FOUNDATIONS = "import duckdb, granian, grpc, litestar, msgspec, structlog"


def cpu_of(*command: str) -> float:
    """Seconds of CPU of a command; the lesser of two runs, for the first may have to fetch its files from the disk."""

    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return min(once(), once())


def cpu_so_far(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture(scope="module")
def reference() -> float:
    """What importing the libraries alone costs that a collector stands on."""
    return cpu_of(sys.executable, "-c", FOUNDATIONS)


def test_help_costs_less_than_the_libraries_of_a_collector(reference: float) -> None:
    assert cpu_of(MISSTEP, "--help") < 0.7 * reference


def test_a_second_start_costs_little_more_than_its_libraries(
    start_collector: Callable[..., RunningCollector],
    reference: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    collector = start_collector()
    costs = []
    for _ in range(2):
        collector.restart()
        assert collector.process
        costs.append(cpu_so_far(collector.process.pid))
    assert min(costs) < 3.5 * reference, f"{min(costs):.2f} s, its libraries {reference:.2f} s"
