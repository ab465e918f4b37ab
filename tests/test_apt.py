"""Installing Debian's packages waits for whoever holds the lock of its lists, and for nothing else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

APT = Path(__file__).parents[1] / ".ci" / "apt"
HELD = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1 (apt-get)"
FAKE = """#!/bin/sh
echo "$@" >> {log}
[ "$1" != update ] || [ "$(grep -c update {log})" -gt {held} ] || {{ echo "{said}" >&2; exit 100; }}
"""


def installed(folder: Path, held: int, said: str) -> tuple[int, list[str]]:
    """The exit code, and how an apt-get was called whose lists are held so many times."""
    log, apt = folder / "log", folder / "apt-get"
    apt.write_text(FAKE.format(log=log, held=held, said=said))
    apt.chmod(0o755)
    path = {"PATH": f"{folder}:{os.environ['PATH']}", "APT_PAUSE": "0"}
    done = subprocess.run([str(APT), "chromium"], env=os.environ | path, check=False, capture_output=True)
    return done.returncode, [line.split()[0] for line in log.read_text().splitlines()]


def test_a_held_lock_is_waited_for(tmp_path: Path) -> None:
    assert installed(tmp_path, 3, HELD) == (0, ["update"] * 4 + ["install"])


def test_another_failure_is_not(tmp_path: Path) -> None:
    assert installed(tmp_path, 3, "E: The repository is not signed.") == (1, ["update"])
