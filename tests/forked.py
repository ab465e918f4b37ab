"""Real processes of the command line in a tenth of the time: forked from one that has loaded everything.

That one starts with the first process that is asked for, imports `tests.loaded`, and ends with the test run. What
differs from the console script: the interpreter's own variables were read before, and nothing is finalized at the end.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

STARTED = "tests.forked"  # the audit event of each start
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["tests.loaded"])


def get_ready() -> None:
    """Returns once there is a process to fork from, so that no test is charged for it."""
    if not _ready:
        _ready.append(True)
        process = _SERVER.Process(target=_nothing)
        _start(process)
        process.join()


_ready: list[bool] = []


def _start(process: BaseProcess) -> None:
    """Starts it without running in it what is called the main module here, such as the last page that a test opened."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        process.start()
    finally:
        sys.modules["__main__"] = main


def _nothing() -> None:
    """In a fork: ends at once."""


class Streams(NamedTuple):
    """The files that a process has as its standard input, output and error; what it writes is appended."""

    stdout: Path
    stderr: Path
    stdin: Path = Path(os.devnull)


class Forked:
    """A process that runs the command line; like `subprocess.Popen` for what tests ask of one."""

    def __init__(self, arguments: Sequence[str], cwd: Path, environment: Mapping[str, str], streams: Streams) -> None:
        files = [str(path.absolute()) for path in (streams.stdin, streams.stdout, streams.stderr)]
        about = (list(arguments), str(cwd), dict(environment), files)
        sys.audit(STARTED)
        self._process = _SERVER.Process(target=_run, args=about)
        _start(self._process)
        assert self._process.pid
        self.pid: int = self._process.pid

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.exitcode

    def wait(self, seconds: float | None = None) -> int:
        """Its exit code as soon as it ends; raises subprocess.TimeoutExpired if it does not."""
        self._process.join(seconds)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired("misstep", seconds or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


def finished(
    arguments: Sequence[str], cwd: Path, environment: Mapping[str, str], stdin: str, seconds: float
) -> subprocess.CompletedProcess[str]:
    """What a command printed, once it has ended; raises subprocess.TimeoutExpired if it does not."""
    with tempfile.TemporaryDirectory() as folder:
        streams = Streams(*(Path(folder, name) for name in Streams._fields))
        streams.stdin.write_text(stdin, encoding="utf-8")
        process = Forked(arguments, cwd, environment, streams)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            raise
        printed = [path.read_text(encoding="utf-8") for path in (streams.stdout, streams.stderr)]
        return subprocess.CompletedProcess(["misstep", *arguments], code, *printed)


def _run(arguments: list[str], cwd: str, environment: dict[str, str], streams: list[str]) -> None:
    """In the fork: the command line, as a new process would run it."""
    for number, path in enumerate(streams):
        opened = os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin, sys.stdout = os.fdopen(0, encoding="utf-8"), os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = os.fdopen(2, "w", 1, encoding="utf-8", errors="backslashreplace")
    _surround(environment)
    os.chdir(cwd)
    sys.argv = ["misstep", *arguments]
    os.execve = _instead  # type: ignore[assignment]
    import tests.loaded  # noqa: F401
    from collector.cli.main import main

    main()


def _surround(environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()


def _instead(path: str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    """Instead of a new program in this process: the same one, which is loaded already."""
    assert arguments[-1] == "collector.app", arguments
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    _surround(environment)
    from collector import app

    sys.exit(app.main())
