"""A real collector in a process of its own, on free ports and a fresh store, for tests that talk to it from outside."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import pytest

import dashboard
from collector import patterns
from collector.cluster.client import Cluster
from collector.cluster.tables import Layout, make
from collector.engine.duckdb.store import Store
from tests.clickhouse import Front
from tests.forked import Forked, Streams, finished
from tests.processes import (  # hooks
    pytest_collection_modifyitems,
    pytest_fixture_setup,
    pytest_runtest_call,
    pytest_runtest_setup,
    pytest_terminal_summary,
)

__all__ = [
    "pytest_collection_modifyitems",
    "pytest_fixture_setup",
    "pytest_runtest_call",
    "pytest_runtest_setup",
    "pytest_terminal_summary",
]

MISSTEP = str(Path(sys.executable).with_name("misstep"))
APP = str(Path(dashboard.__file__).with_name("main.py"))
EVER = "2000-01-01T00:00:00Z"
# Every `httpx.get` would read the machine's certificates, which takes longer than most answers. Each request has a
# connection of its own, as there.
HTTP = httpx.Client(timeout=30, limits=httpx.Limits(max_keepalive_connections=0))


def _ports() -> Iterator[int]:
    """Free ports, each once, never one that another process of this test run uses, in a different order in each run.

    Ports that the system gives to connections are left out: a connection could take one while the collector starts.
    """
    mine, processes = (os.environ.get(f"PYTEST_XDIST_WORKER{end}", "") for end in ("", "_COUNT"))
    ports = range(20_000 + int(mine.removeprefix("gw") or 0), 32_000, int(processes or 1))
    yield from random.SystemRandom().sample(ports, len(ports))


PORTS = _ports()

# Tables of tests are more than a collector has: one run would remove what the next needs.
patterns.MOST_KEPT = 200

# Whatever the machine's zone: on one where it is UTC, nothing else would show that a local time was taken.
os.environ["TZ"] = "Asia/Kolkata"
time.tzset()


def free_port() -> int:
    """A free port on loopback that was not returned before."""
    for port in PORTS:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("every port was given")


@dataclass
class RunningCollector:
    """`misstep collector` with its store in `folder`; `settings` are MISSTEP_ variables, written without the prefix.

    It is forked from a process that has loaded it (tests/forked.py), unless the test is about a `fresh` one.
    """

    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    url: str = ""
    grpc: str = ""
    fresh: bool = False
    process: subprocess.Popen[bytes] | Forked | None = None

    def start(self) -> RunningCollector:
        """Starts it on free ports and returns when it is ready."""
        self.grpc = self.grpc or f"127.0.0.1:{free_port()}"
        self.url = self.url or f"http://127.0.0.1:{free_port()}"
        command = ["collector", "--http", self.url.removeprefix("http://"), "--grpc", self.grpc]
        if self.fresh:
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(
                    [MISSTEP, *command], cwd=self.folder, env=self.environment, stdout=log, stderr=log
                )
        else:
            self.process = Forked(command, self.folder, self.environment, Streams(stdout=self.log, stderr=self.log))
        wait_until(self._ready, lambda: f"the collector is not ready:\n{self.logged()}", seconds=90)
        return self

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ends it with a signal and returns its exit code."""
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)
        return self.process.wait(60)

    def kill(self) -> None:
        """Kills it, without a chance to clean up."""
        self.stop(signal.SIGKILL)

    def restart(self) -> None:
        """Stops it if it still runs, and starts it again on the same store and ports."""
        if self.process and self.process.poll() is None:
            self.stop()
        self.start()

    def post(self, path: str, body: bytes | str, headers: dict[str, str] | None = None) -> httpx.Response:
        """Posts a body, as JSON unless `headers` say otherwise, and returns the answer."""
        headers = {"content-type": "application/json", **(headers or {})}
        return HTTP.post(self.url + path, content=body, headers=headers)

    def get(self, path: str, **params: Any) -> Any:
        """The JSON of an answer, which must be a success."""
        answer = HTTP.get(self.url + path, params=params)
        assert answer.is_success, f"{path}: {answer.status_code} {answer.text}"
        return answer.json()

    def events(self, **params: Any) -> list[dict[str, Any]]:
        """Every event that `params` choose, whatever its time, newest first; at most 10,000. What was sent is stored by
        then, unless the store takes nothing: a question does not wait for that as long as a busy machine needs.
        """
        with contextlib.suppress(AssertionError):
            wait_until(lambda: self.get("/api/v1/health")["waiting"] == 0, seconds=15)
        rows: list[dict[str, Any]] = self.get("/api/v1/events", **{"from": EVER, "limit": 10_000, **params})["rows"]
        return rows

    def kept_up(self) -> RunningCollector:
        """Returns once everything that was sent is stored, and its streaks and retries are computed."""

        def idle() -> bool:
            health = self.get("/api/v1/health")
            return bool(health["waiting"] == 0 and health["keeper"] == {"sessions": 0, "seconds": 0})

        wait_until(idle, lambda: f"it is behind for a minute:\n{self.logged()}")
        return self

    def logged(self) -> str:
        """Its standard output and standard error."""
        return self.log.read_text(errors="replace")

    @property
    def log(self) -> Path:
        return self.folder / "collector.log"

    @property
    def store(self) -> Path:
        return self.folder / "misstep.duckdb"

    @property
    def environment(self) -> dict[str, str]:
        """Its environment: that of this process without MISSTEP_ variables, plus the store and `settings`."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MISSTEP_", "OTEL_"))}
        ours = {"STORE": f"duckdb:///{self.store}", **self.settings}
        return inherited | {f"MISSTEP_{name}": value for name, value in ours.items()}

    def _ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"the collector ended:\n{self.logged()}"
        try:
            return HTTP.get(f"{self.url}/readyz", timeout=2).is_success
        except httpx.TransportError:
            return False


def wait_until(
    happened: Callable[[], Any], otherwise: Callable[[], str] = lambda: "it never happened", seconds: float = 60
) -> None:
    """Returns as soon as `happened()` is true; fails with `otherwise()` after `seconds`, which a busy machine needs."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, otherwise()
        time.sleep(0.05)


@pytest.fixture
def start_collector(tmp_path: Path) -> Iterator[Callable[..., RunningCollector]]:
    """Starts collectors with settings of the test: `start_collector(QUERY_TOKENS="one")`."""
    running: list[RunningCollector] = []

    def start(*, fresh: bool = False, **settings: str) -> RunningCollector:
        folder = tmp_path / f"collector-{len(running)}"
        folder.mkdir()
        running.append(RunningCollector(folder, settings, fresh=fresh))
        return running[-1].start()

    yield start
    for each in running:
        if each.process and each.process.poll() is None:
            each.stop()


@pytest.fixture
def collector(start_collector: Callable[..., RunningCollector]) -> RunningCollector:
    """A collector with an empty store and the default settings."""
    return start_collector()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    """The same for tests of a module to share: what one sends to it, the next finds."""
    running = RunningCollector(tmp_path_factory.mktemp("shared")).start()
    yield running
    running.stop()


def misstep(
    *arguments: object,
    cwd: Path,
    stdin: str = "",
    settings: Mapping[str, str] = MappingProxyType({}),
    environ: Mapping[str, str] = MappingProxyType({}),
    fresh: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Runs the command line in `cwd` and returns what it printed; `settings` are MISSTEP_ variables, `environ`
    others. It is forked from a process that has loaded it, unless the test is about a `fresh` one.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MISSTEP_", "OTEL_"))}
    environment.setdefault(
        "XDG_CACHE_HOME", str(Path.home() / ".cache")
    )  # in another home, patterns were compiled again
    environment |= {f"MISSTEP_{name}": value for name, value in settings.items()} | dict(environ)
    command = [str(one) for one in arguments]
    if not fresh:
        return finished(command, cwd, environment, stdin, 60)
    return subprocess.run(
        [MISSTEP, *command], cwd=cwd, env=environment, input=stdin, capture_output=True, text=True, timeout=60
    )


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """A store in memory that tests share: what one puts into it, the next finds, unless it calls `recorded.holding`."""
    opened = Store.open("duckdb://:memory:")
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    """A ClickHouse for all tests of this process; `database` is the URL of one of their own."""
    front = Front(tmp_path_factory.mktemp("clickhouse"), free_port()).start()
    yield front
    front.kill()


@cache
def _found_once() -> Callable[[], list[Any]]:
    """How Streamlit looks for components in the metadata of every package, which it then does once."""
    from streamlit.components.v2 import manifest_scanner

    return cache(manifest_scanner.scan_component_manifests)


@pytest.fixture
def cluster(clickhouse: Front) -> Iterator[Cluster]:
    """A database of it with the tables of a cluster."""
    opened = Cluster(clickhouse.database())
    make(opened, Layout(), 90 * 86_400)
    yield opened
    opened.close()


@pytest.fixture
def open_app(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Opens a page of the dashboard on a collector; keyword arguments are the parameters of its link."""

    from streamlit.components.v2 import manifest_scanner  # saves half a second in most tests
    from streamlit.testing.v1 import AppTest

    # Otherwise every page that is opened reads the metadata of every package: a third of its time.
    monkeypatch.setattr(manifest_scanner, "scan_component_manifests", _found_once())

    def opened(url: str, page: str = "overview", *, token: str = "", **link: str) -> Any:
        monkeypatch.setenv("MISSTEP_COLLECTOR_URL", url)
        monkeypatch.setenv("MISSTEP_QUERY_TOKEN", token)
        app = AppTest.from_file(APP, default_timeout=60)
        for name, value in link.items():
            app.query_params[name.rstrip("_")] = value
        return app.run() if page == "overview" else app.switch_page(f"views/{page}.py").run()

    return opened


@contextlib.contextmanager
def largest_file(pid: int, size: int) -> Iterator[None]:
    """Meanwhile, no file of the process can grow beyond `size`, as on a full disk."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, most))
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):  # it was killed meanwhile
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))
