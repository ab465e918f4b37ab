"""Since when a lesson's sentence stands in an instruction file: by the commit of its line, else by the file's time."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from collector.lessons.instructions import Place, marked, said

GIT_SECONDS = 20.0


def since_in(lesson: Mapping[str, Any], places: Iterable[Place]) -> dict[str, str]:
    """`time` and `known_by` of the first of these files that has the sentence; now, as said, if none has it."""
    for place in places:
        own = f"misstep:lesson {lesson['id']}"
        line = own if lesson["id"] in marked(place.text) else said(lesson["text"], place.text)
        if line is None:
            continue
        if committed := _committed(place.path, line):
            return {"time": committed, "known_by": "commit"}
        changed = datetime.fromtimestamp(place.path.stat().st_mtime, UTC)
        return {"time": changed.isoformat(), "known_by": "file"}
    return {"known_by": "said"}


def _committed(path: Path, line: str) -> str:
    """When a line came into a file, as git knows it; "" where it does not."""
    command = ["git", "-C", str(path.parent), "log", "--format=%cI", f"-S{line}", "--", path.name]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=GIT_SECONDS, check=False,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    times = done.stdout.split() if done.returncode == 0 else []
    return times[-1] if times else ""
