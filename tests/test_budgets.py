"""What a collector may cost before it does any work, from outside, compared with a reference in the same run."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import MISSTEP, RunningCollector

FOUNDATIONS = ("duckdb", "granian", "grpc", "litestar", "msgspec", "structlog")
FRAMES = ("numpy", "pandas", "polars", "_polars_runtime_32", "pyarrow")
RARELY_USED = ("apprise", "httpx", "hyperscan", "jinja2", "jsonschema", "opentelemetry", "polars", "yaml")


def cpu_of(*command: str) -> float:
    """Seconds of CPU of a command: the lower of two runs, because the first may have to compile its modules."""

    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return min(once(), once())


def cpu_so_far(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def reference() -> float:
    """The cost of importing only the libraries that a collector uses."""
    return cpu_of(sys.executable, "-c", f"import {', '.join(FOUNDATIONS)}")


def test_help_imports_nothing_that_only_a_collector_needs() -> None:
    command = [sys.executable, "-X", "importtime", MISSTEP, "--help"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in told.splitlines()}
    assert "cyclopts" in imported
    assert imported.isdisjoint((*FOUNDATIONS, *RARELY_USED))


def test_a_second_start_costs_a_few_times_its_libraries(
    start_collector: Callable[..., RunningCollector],
) -> None:
    """Each start beside the libraries of the same moment, as others make both dearer; the first of three that is."""
    collector = start_collector(fresh=True)
    ratios: list[float] = []
    while len(ratios) < 3 and min(ratios, default=4) >= 4:
        collector.restart()
        assert collector.process
        ratios.append(cpu_so_far(collector.process.pid) / reference())
    assert min(ratios) < 4, ratios


def held(pid: int) -> dict[str, float]:
    """MiB of a process and its children, by kind; shared memory is counted once."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    lines = [
        line.partition(":")
        for each in (pid, *children)
        for line in Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()[1:]
    ]
    return {kind: sum(int(size.split()[0]) / 1024 for name, _, size in lines if name == kind) for kind, *_ in lines}


@pytest.mark.parametrize(("workers", "most"), [pytest.param(0, 110, marks=pytest.mark.deep), (1, 120)])
def test_an_idle_collector_has_no_library_for_frames_in_memory(
    start_collector: Callable[..., RunningCollector], workers: int, most: int
) -> None:
    collector = start_collector(fresh=True, WORKERS=str(workers))
    collector.restart()  # compiling patterns leaves some memory allocated
    assert collector.process
    mapped = Path(f"/proc/{collector.process.pid}/maps").read_text()
    assert "duckdb" in mapped
    assert [name for name in FRAMES if f"/{name}/" in mapped] == []
    memory = held(collector.process.pid)
    for _ in range(20):  # what the start needed goes back within seconds: 105 MiB at once, 101 two seconds later
        if memory["Pss_Anon"] < most:
            break
        time.sleep(0.5)
        memory = held(collector.process.pid)
    # 106 MiB; polars adds 24.
    assert memory["Pss_Anon"] < most, f"{memory['Pss_Anon']:.0f} MiB of its own"
    assert memory["Pss"] < most + 80, f"{memory['Pss']:.0f} MiB with the code of libraries"
