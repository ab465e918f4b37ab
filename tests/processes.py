"""Which tests start processes, read from what they use, and how much CPU time a test may take, its processes' included.

`make check` runs those that start none. A test that is said to start none and does fails. The fast set is all tests but
those marked `deep`: one that takes more than `MOST_S` and is not named in `tests/slow.toml` is listed at the end. One
that takes `NOISE` times as much, which no neighbour on the machine explains, fails where MISSTEP_SLOW=fail is set, as
`make test` does. MISSTEP_TIMES=FILE appends what each test took.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

from tests import forked

MOST_S = 2.0
NOISE = 3
MOST_NAMED = 40
SLOW: dict[str, str] = tomllib.loads(Path(__file__).with_name("slow.toml").read_text(encoding="utf-8"))
EVENTS = {"subprocess.Popen", "os.fork", "os.posix_spawn", "os.system", forked.STARTED}
STARTERS = {
    "Popen",
    "Forked",
    "Worker",
    "Readers",
    "OnDemand",
    "sync_playwright",
    "fork",
}  # whoever calls one starts a process
TIMES = os.environ.get("MISSTEP_TIMES")
TICKS = os.sysconf("SC_CLK_TCK")

_known: dict[CodeType, bool] = {}
_started: list[str] = []


def _heard(event: str, _: tuple[Any, ...]) -> None:
    if event in EVENTS:
        _started.append(event)


sys.addaudithook(_heard)


def starts(what: object) -> bool:
    """Whether a function of the tests, or one that it names, starts a process."""
    what = getattr(what, "__wrapped__", what)
    if isinstance(what, type):
        return what.__name__ in STARTERS or any(starts(each) for each in vars(what).values())
    code = getattr(what, "__code__", None)
    if not isinstance(what, FunctionType) or code is None or not what.__module__.startswith("tests."):
        return getattr(what, "__name__", "") in STARTERS
    if code not in _known:
        _known[code] = False  # until it is known: functions may name each other
        _known[code] = any(_leads_to_one(what.__globals__.get(name, name)) for name in _names(code))
    return _known[code]


def _leads_to_one(named: object) -> bool:
    if isinstance(named, str):  # no global: an attribute
        return named in STARTERS
    return named is subprocess or (not isinstance(named, ModuleType) and starts(named))


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what starts processes, and what searches with examples that Hypothesis makes up."""
    assert len(SLOW) <= MOST_NAMED, "tests/slow.toml is full: make one of its tests cheaper"
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        fixtures = [each.func for found in item._fixtureinfo.name2fixturedefs.values() for each in found]
        test = getattr(item.obj, "hypothesis", None)
        if any(map(starts, [getattr(test, "inner_test", item.obj), *fixtures])):
            item.add_marker(pytest.mark.process)
        if test is not None:
            item.add_marker(pytest.mark.search)


def cpu_s(*, processes: bool = True) -> float:
    """CPU time of this process and all that it has started, those that still run included; that is half a millisecond's
    reading. Without `processes`, of this one alone.
    """
    if not processes:
        return time.process_time()
    ours = os.times()
    return ours.user + ours.system + ours.children_user + ours.children_system + _of_children(os.getpid())


def _of_children(pid: int) -> float:
    total = 0.0
    with contextlib.suppress(OSError):  # only Linux says so, and any of them may end meanwhile
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text().split():
                with contextlib.suppress(OSError):
                    told = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
                    total += sum(map(int, told[11:15])) / TICKS + _of_children(int(child))
    return total


def _slowness() -> float:
    """How much slower this machine is now than the one whose seconds are meant."""
    began = time.process_time()
    sum(number * number for number in range(1_000_000))
    return max(1.0, (time.process_time() - began) / 0.04)


class Cost:
    """What one test has taken so far, without the fixtures that it shares with others."""

    def __init__(self, *, processes: bool) -> None:
        self.processes = processes  # whether it starts some
        self.began = self.now()
        self.shared = 0.0
        self.inside = 0

    def now(self) -> float:
        return cpu_s(processes=self.processes)

    def took(self) -> float:
        return self.now() - self.began - self.shared


_COST = pytest.StashKey[Cost]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    processes = item.get_closest_marker("process") is not None
    if processes:
        forked.get_ready()
    if "open_app" in getattr(item, "fixturenames", ()):  # the first page of all would be charged for them
        import altair  # noqa: F401
        import polars  # noqa: F401
        import streamlit.testing.v1  # noqa: F401
    item.stash[_COST] = Cost(processes=processes)
    _started.clear()
    yield


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> Iterator[Any]:
    cost: Cost | None = request.node.stash.get(_COST, None) or request._pyfuncitem.stash.get(_COST, None)
    if cost is None or fixturedef.scope == "function" or cost.inside:
        return (yield)
    began, cost.inside = cost.now(), 1
    try:
        return (yield)
    finally:
        cost.inside, cost.shared = 0, cost.shared + cost.now() - began


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    yield
    if not item.get_closest_marker("process") and _started:
        pytest.fail(f"it starts a process ({_started[0]}), and tests/processes.py does not see how", pytrace=False)
    took = item.stash[_COST].took()
    if TIMES:
        with Path(TIMES).open("a", encoding="utf-8") as file:
            file.write(f"{took:.2f}\t{item.nodeid}\n")
    if took < MOST_S or item.get_closest_marker("deep") or not SLOW.keys().isdisjoint(_names_of(item)):
        return
    most = MOST_S * _slowness()
    if took > most:
        said = f"it took {took:.1f} s of CPU time: at most {most:.1f}, or a line of tests/slow.toml"
        item.user_properties.append(("slow", said))
        if took > NOISE * most and os.environ.get("MISSTEP_SLOW") == "fail":
            pytest.fail(said, pytrace=False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Lists the tests that took too long, where they do not fail."""
    for report in (*terminalreporter.stats.get("passed", ()), *terminalreporter.stats.get("failed", ())):
        if report.when == "call" and (said := dict(report.user_properties).get("slow")):
            terminalreporter.write_line(f"SLOW {report.nodeid}: {said}")


def _names_of(item: pytest.Item) -> tuple[str, str, str]:
    """A test as `tests/slow.toml` names it, without its parameters; its file; and its folder below tests/."""
    name = item.nodeid.partition("[")[0].removeprefix("tests/")
    file = name.partition("::")[0]
    return name, file, file.rpartition("/")[0]
