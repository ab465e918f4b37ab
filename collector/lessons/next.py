"""What worked next: the first later success that tried the same, by the rule that a kind of lesson names."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from difflib import SequenceMatcher

from collector.lessons.call import Call, Failure
from collector.lessons.shapes import Commands, path

WITHIN_SECONDS = 600.0
SIMILAR = 0.75  # of two file names of one folder
COMPARED_CHARS = 120
NO_NAME = re.compile(r"[^\w.-]")  # of a parameter


def worked_next(rule: str, failure: Failure, commands: Commands) -> str | None:
    """What worked next, as a sentence names it; None if nothing did within ten minutes and the calls that are known."""
    find = RULES[rule]
    later = (call for call in failure.following if call.outcome == "ok" and call.seconds <= WITHIN_SECONDS)
    return next((found for call in later if (found := find(failure, call, commands))), None)


def _command(failure: Failure, call: Call, commands: Commands) -> str | None:
    """Another command with the same goal."""
    before, after = _shapes(failure, call, commands)
    return after if before and after and before != after and commands.same_goal(before, after) else None


def _same_command(failure: Failure, call: Call, commands: Commands) -> str | None:
    before, after = _shapes(failure, call, commands)
    return after if before == after else None


def _shapes(failure: Failure, call: Call, commands: Commands) -> tuple[str | None, str | None]:
    if call.tool_kind != "command" or not call.target:
        return None, None
    return commands.shape(failure.call.target or ""), commands.shape(call.target)


def _path(failure: Failure, call: Call, commands: Commands) -> str | None:
    """A file of the same name elsewhere, or of a similar name in the same folder."""
    if call.tool_kind == "command" or not call.target or not failure.call.target:
        return None
    before, after = path(failure.call.target, failure.scope), path(call.target, failure.scope)
    if not before or not after or before == after:
        return None
    folder, name = posixpath.split(before)
    other_folder, other_name = posixpath.split(after)
    alike = name == other_name or (folder == other_folder and _similar(name, other_name))
    return after if alike and name else None


def _similar(name: str, other: str) -> bool:
    return SequenceMatcher(None, name[:COMPARED_CHARS], other[:COMPARED_CHARS]).ratio() >= SIMILAR


def _same_target(failure: Failure, call: Call, commands: Commands) -> str | None:
    return call.tool if call.target and call.target == failure.call.target and call.tool == failure.call.tool else None


def _parameters(failure: Failure, call: Call, commands: Commands) -> str | None:
    """The parameters of the same tool's call, if they have other names."""
    changed = call.tool == failure.call.tool and call.names and call.names != failure.call.names
    return ", ".join(f"`{NO_NAME.sub('', name)[:60]}`" for name in call.names[:8]) if changed else None


def _tool(failure: Failure, call: Call, commands: Commands) -> str | None:
    """Another tool on the same target."""
    same = call.target and call.target == failure.call.target
    return call.tool if same and call.tool != failure.call.tool else None


def _none(failure: Failure, call: Call, commands: Commands) -> str | None:
    return None


RULES: Mapping[str, Callable[[Failure, Call, Commands], str | None]] = {
    "command": _command,
    "same_command": _same_command,
    "path": _path,
    "same_target": _same_target,
    "parameters": _parameters,
    "tool": _tool,
    "none": _none,
}
