"""Which code base a folder belongs to: its git root, that of the main one for a worktree, else the folder itself."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path, PurePosixPath, PureWindowsPath

from collector.recognise.readers import at_path
from collector.transcripts.files import parsed

WORKTREE = re.compile(r"gitdir: (.+?)[/\\]\.git[/\\]worktrees[/\\]")
ROOT_BYTES = 1 << 20  # of a file that names a folder
HOMES = re.compile(r"(?i)^(?:/(?:home|Users)/[^/]+|/root|[a-z]:/Users/[^/]+|/mnt/[a-z]/Users/[^/]+)(?=/|$)")


@lru_cache(maxsize=10_000)
def repository_of(cwd: str) -> str:
    """The repository of a working folder, which need not exist any more, with the home as `~`; "" for no folder."""
    if not cwd or len(cwd) > 4096 or "\0" in cwd:
        return ""
    return tidy(_root(cwd))


def beside(path: Path, names: Iterable[str]) -> str:
    """The repository that a file beside a transcript names: its text, or with `name#key` that key of its JSON object;
    of a folder, such as `.`, its own; `*` is the transcript's own name. "" if none does.
    """
    for name, _, key in (one.replace("*", path.stem).partition("#") for one in names):
        if (path.parent / name).is_dir():
            return repository_of(str((path.parent / name).resolve()))
        try:
            with (path.parent / name).open("rb") as file:
                text = file.read(ROOT_BYTES)
        except OSError:
            continue
        folder = at_path(parsed(text), tuple(key.split("."))) if key else text.decode("utf-8", "replace").strip()
        if isinstance(folder, str) and (found := repository_of(folder)):
            return found
    return ""


def tidy(path: str) -> str:
    """A path in one way of writing, without the name of the user: `~/work/app`."""
    if re.match(r"(?i)^(?:[a-z]:[/\\]|\\\\)", path):
        path = PureWindowsPath(path).as_posix()
        path = path[:1].lower() + path[1:]
    path = re.sub(r"(?i)^//wsl(?:\$|\.localhost)/[^/]+", "", path)
    return HOMES.sub("~", str(PurePosixPath(path)))


def _root(cwd: str) -> str:
    try:
        for folder in (Path(cwd), *Path(cwd).parents):
            mark = folder / ".git"
            if mark.is_dir():
                return str(folder)
            if mark.is_file():
                found = WORKTREE.match(mark.read_text(encoding="utf-8", errors="replace")[:4096])
                return found[1] if found else str(folder)
    except OSError:
        pass
    return cwd
