"""What needs no server runs where Unix is not: macOS lacks a part of what Linux has, Windows most of it."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

from tests.test_report import home

UNIX = ("fcntl", "resource", "pwd", "grp", "termios", "uvloop")
CALLS = (
    "fork", "forkpty", "getuid", "geteuid", "getgid", "sched_getaffinity", "fdatasync", "statvfs", "getpgid", "killpg",
    "O_NONBLOCK", "O_DIRECTORY",
)  # fmt: skip
SCRIPT = f"""
import os, sys
import mcp.server.lowlevel, mcp.server.stdio  # which knows Windows by itself
for name in {CALLS!r}:
    vars(os).pop(name, None)
for name in ("SIGHUP", "SIGKILL", "SIGUSR1", "pthread_sigmask"):
    vars(__import__("signal")).pop(name, None)
sys.modules.update(dict.fromkeys({UNIX!r}))
import collector.commands.imports, collector.commands.lessons, collector.commands.gate, collector.commands.show
import collector.cli.gate, collector.mcp.server
from collector.cli.main import main
sys.argv[1:] = ["report"]
main()
"""


def test_a_report_needs_nothing_of_unix(tmp_path: Path) -> None:
    ann = home(tmp_path / "ann", range(1, 13))
    cache = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))  # of compiled patterns
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, env={"HOME": str(ann), "XDG_CACHE_HOME": cache},
        capture_output=True, text=True, timeout=timedelta(minutes=2).total_seconds(), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("24 calls of tools in 12 sessions, ")
    assert "Use `uv run pytest`" in done.stdout
