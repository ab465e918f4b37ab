"""`misstep connect`: shows what it would change in an agent's settings, changes it after a yes, and undoes it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import unified_diff
from pathlib import Path

from collector.connect import ledger
from collector.connect.plan import Change, chosen, price, put, taken_out, targets
from collector.files import write
from collector.switches import Agent, Connect, agents
from collector.visible import say

Clean = Callable[[str], str]


def agent_of(name: str) -> tuple[Agent, Connect]:
    """The agent of this name, or of this command. Raises OSError, with the names, if it cannot be connected."""
    known = [(agent, agent.connect) for agent in agents().values() if agent.connect]
    for agent, told in known:
        if name in (agent.source, told.place.command):
            return agent, told
    there = ", ".join(agent.source for agent, _ in known)
    raise OSError(f"{name}: cannot be connected by itself: there are {there}; docs/agents has what to paste for others")


def connect(
    name: str,
    url: str,
    token: str,
    wanted: Sequence[str],
    environ: Mapping[str, str],
    *,
    file: Path | None = None,
    yes: bool = False,
    clean: Clean = str,
) -> int:
    """Puts into the settings of an agent what lets it send its mistakes to `url`; returns the exit code, 1 if not all
    of it is there now. `clean` removes secrets from what is shown.
    """
    agent, told = agent_of(name)
    switches = chosen(agent, tuple(wanted))
    place = ledger.place(environ)
    known = ledger.read(place)
    filed = known.get(agent.source, {})

    def ask(question: str) -> bool:
        return not yes and asked(clean(question))

    found = targets(agent, switches, url.rstrip("/"), token, environ, file)
    changes = [put(each, filed.get(str(each.path)), ask, environ) for each in found]
    code = _carried_out(changes, price(told, switches, url), clean, yes=yes)
    if code is None:
        for each in changes:  # others may have made it
            each.filed.created |= any(
                files[str(each.path)].created for files in known.values() if str(each.path) in files
            )
        known[agent.source] = filed | {str(each.path): each.filed for each in changes if each.filed.entries}
        ledger.keep(place, known)
        _write(changes)
        say(f"Start {told.place.command} anew, then see what arrives: misstep doctor --agent {agent.source}")
        code = 0
    return max(code, _left(changes, clean))


def undo(name: str, environ: Mapping[str, str], *, yes: bool = False, clean: Clean = str) -> int:
    """Takes out of an agent's settings what `connect` put in, but for what was changed since; returns the exit code."""
    agent, _ = agent_of(name)
    place = ledger.place(environ)
    known = ledger.read(place)
    changes = [taken_out(Path(path), filed) for path, filed in known.pop(agent.source, {}).items()]
    if not changes:
        say(f"{agent.source}: misstep connect has put nothing in")
        return 0
    code = _carried_out(changes, [], clean, yes=yes)
    if code == 1:
        return 1
    _write(changes)
    for each in changes:
        if each.filed.created and each.after.strip() in ("", "{}"):
            each.path.unlink(missing_ok=True)
    ledger.keep(place, known)
    _left(changes, clean)
    return 0


def asked(question: str) -> bool:
    """Whether somebody at the terminal says yes."""
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        say()
        return False


def _carried_out(changes: Sequence[Change], told: Sequence[str], clean: Clean, *, yes: bool) -> int | None:
    """Shows changes and asks for consent: None if they are to be written, 0 if there are none, 1 if nobody agreed."""
    lines = [line for each in changes for line in _diff(each)]
    if not lines:
        say("Nothing to change.")
        return 0
    say("\n".join(clean(line).expandtabs() for line in lines))
    say("\n".join(["", *told]))
    if yes or asked("Write this?"):
        return None
    say("Nothing was written.")
    return 1


def _diff(change: Change) -> Iterator[str]:
    before, after = change.before.splitlines(), change.after.splitlines()
    yield from unified_diff(before, after, str(change.path), str(change.path), n=2, lineterm="")


def _write(changes: Sequence[Change]) -> None:
    for each in changes:
        if each.after != each.before:
            write(each.path, each.after, each.before)
            say(f"{each.path} written")


def _left(changes: Sequence[Change], clean: Clean) -> int:
    """Says what was left as it is; 1 if anything was."""
    left = [f"{each.path}: {one}" for each in changes for one in each.left]
    for one in left:
        say(clean(one), file=sys.stderr)
    return 1 if left else 0
