"""What stands beside a transcript of an evaluation: its task, and whether that succeeded.

Harbor writes `result.json` into the folder of each trial (`task_name`, `verifier_result.rewards`). Otherwise the task
is the folder below the one that was named: `runs/<task>/…/session.jsonl`, or `<task>__<id>` as Harbor names trials.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

RESULT = "result.json"
MOST_BYTES = 4 << 20
LAYOUT = frozenset(("projects", "sessions", "session-state", "tmp", "data", "agent"))  # of an agent's own folder
NUMBERED = re.compile(r"__[A-Za-z0-9]+$")


def beside(path: Path, root: Path) -> dict[str, str]:
    """`task` and `task.success` of the transcript at `path` below `root`, as far as it has them."""
    below = path.relative_to(root).parts[:-1] if path.is_relative_to(root) else ()
    folder = next((part for part in below if part not in LAYOUT and not part.startswith(".")), "")
    found = {"task": NUMBERED.sub("", folder)} if folder else {}
    here = path.parent
    for _ in range(len(below) + 1):
        if told := _result(here / RESULT):
            return found | told
        here = here.parent
    return found


def _result(path: Path) -> dict[str, str]:
    try:
        if path.stat().st_size > MOST_BYTES:
            return {}
        told: Any = msgspec.json.decode(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(told, dict):
        return {}
    found = {"task": told["task_name"]} if isinstance(told.get("task_name"), str) else {}
    verified = told.get("verifier_result")
    rewards = verified.get("rewards") if isinstance(verified, dict) else None
    if isinstance(rewards, dict):
        numbers = [one for one in rewards.values() if isinstance(one, int | float)]
        if numbers:
            found["task.success"] = "true" if min(numbers) >= 1 else "false"
    return found
