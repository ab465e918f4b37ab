"""What `misstep connect` put into which file, so that `--undo` takes out that and nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from collector.files import write


@dataclass(slots=True)
class Entry:
    """One value that was put in. `made` is how many of the keys of its path were not there; `before` has the value that
    was replaced, if one was.
    """

    path: list[str]
    value: Any
    item: bool = False  # of the list at this path
    made: int = 1
    before: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class Filed:
    """What was put into one file of one agent; `created` if there was no such file."""

    format: str
    created: bool
    entries: list[Entry]


def place(environ: Mapping[str, str]) -> Path:
    """The ledger's file."""
    home = environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(home) / "misstep" / "connected.json"


def read(path: Path) -> dict[str, dict[str, Filed]]:
    """What was put in, by agent and file. Raises OSError, with the remedy, if it cannot be read."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        return {
            agent: {
                file: Filed(one["format"], one["created"], [Entry(**entry) for entry in one["entries"]])
                for file, one in files.items()
            }
            for agent, files in told.items()
        }
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, KeyError, AttributeError):
        raise OSError(f"{path}: is not what misstep connect wrote: move it away; --undo then knows nothing") from None


def keep(path: Path, told: Mapping[str, Mapping[str, Filed]]) -> None:
    """Writes the ledger, for its owner's eyes only: it may hold a token."""
    plain = {agent: {file: asdict(one) for file, one in files.items()} for agent, files in told.items() if files}
    write(path, json.dumps(plain, indent=1) + "\n")
