"""`misstep up`: the collector and the dashboard as two processes; when one ends, the other is ended too."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from types import FrameType

from collector.access.rights import INGEST
from collector.settings import Settings, SettingsError, check_dashboard
from collector.token_store import guarded
from collector.visible import say
from dashboard import launch

START_S = 60.0
END_S = 15.0  # long enough for the collector to store what it has accepted
LOOK_EVERY_S = 0.2
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # both processes are on this machine


def up(settings: Settings, *, watch: bool = False) -> int:
    """Runs both until a signal or the end of one of them, and with `watch` the import of new calls of agents on this
    machine. Returns 0 after a signal, else 1.

    Raises SettingsError if others could open the dashboard without signing in, or a certificate lacks a name, OSError
    if nobody could sign in.
    """
    check_dashboard(settings, signs_in=launch.sign_in_works())
    stop = threading.Event()

    def ask_to_stop(number: int, frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, ask_to_stop)
    collector_url = _url(settings)
    token = settings.query_token or next(iter(settings.query_tokens), "")
    place = settings.dashboard
    environ = environment(settings, collector_url, token)
    collector = subprocess.Popen([*launch.PYTHON, "collector", "collector"])
    dashboard = subprocess.Popen(launch.command(place.port, place.host), env=environ)
    processes = {"collector": collector, "dashboard": dashboard}
    beside: list[subprocess.Popen[bytes]] = []
    try:
        if _started(processes, (f"{collector_url}/readyz", f"{place.url}/_stcore/health"), stop):
            say(greeting(settings))
            if watch:
                to = os.environ | {"MISSTEP_COLLECTOR_URL": collector_url}
                beside.append(subprocess.Popen([*launch.PYTHON, "collector", "import", "--watch", "--yes"], env=to))
        while not stop.wait(LOOK_EVERY_S):
            for name, process in processes.items():
                if process.poll() is not None:
                    say(f"misstep: the {name} ended with exit code {process.returncode}", file=sys.stderr)
                    return 1
        return 0
    finally:
        end((*beside, *reversed(processes.values())))


def _url(settings: Settings) -> str:
    """The collector's address for the dashboard beside it. Raises SettingsError where a certificate needs its name."""
    if not settings.tls_cert:
        return settings.http.url
    if not settings.collector_url.startswith("https:"):
        raise SettingsError(
            "tls_cert: set MISSTEP_COLLECTOR_URL to the https:// address that the certificate is for, such as "
            "https://misstep.example.org:4318"
        )
    return settings.collector_url


def environment(settings: Settings, url: str, token: str) -> dict[str, str]:
    """The environment of a dashboard with these settings that asks the collector at `url`."""
    return launch.environment(
        os.environ,
        url,
        token,
        settings.trace_url,
        settings.dimensions,
        settings.otlp_url,
        settings.dashboard_hosts,
        settings.alerts_token or next(iter(settings.alerts_tokens), ""),
    )


def greeting(settings: Settings) -> str:
    """The addresses, and the line to paste into the shell that starts an agent."""
    endpoint = f"OTEL_EXPORTER_OTLP_ENDPOINT={settings.otlp_url or _url(settings)}"
    if settings.ingest_tokens or INGEST in guarded(settings):
        endpoint += ' OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20<an ingest token>"'
    to = "" if Settings().collector_url == _url(settings) else f" --to {_url(settings)}"  # also in another shell
    return "\n".join(
        (
            f"Dashboard  {settings.dashboard.url}",
            f"Collector  {_url(settings)}  (OTLP/HTTP and query API), {settings.grpc} (OTLP/gRPC)",
            "Paste into the shell that starts your agent:",
            f"  export {endpoint}",
            f"No agent at hand? {shlex.quote(sys.argv[0])} demo{to}",
        )
    )


def end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Terminates the processes, waits, and kills those that have not ended."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + END_S
    for process in processes:
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _started(processes: dict[str, subprocess.Popen[bytes]], addresses: Sequence[str], stop: threading.Event) -> bool:
    """True as soon as every address answers; False if a process ended, a signal came, or time ran out."""
    deadline = time.monotonic() + START_S
    waiting = list(addresses)
    while waiting and time.monotonic() < deadline:
        if stop.is_set() or any(process.poll() is not None for process in processes.values()):
            return False
        waiting = [address for address in waiting if not _answers(address)]
        stop.wait(LOOK_EVERY_S if waiting else 0)
    for address in waiting:
        say(f"misstep: {address} does not answer after {START_S:.0f} s", file=sys.stderr)
    return not waiting


def _answers(address: str) -> bool:
    try:
        with DIRECT.open(address, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
