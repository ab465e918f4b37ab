"""Finds the files in which agents keep their sessions, on Linux, macOS and Windows.

Every candidate is tried on every platform: a folder that is not there costs one look. Variables that move a store come
first. Nothing is opened here but folders, and the lists of folders that agents keep.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from collector.transcripts.tables import Agent, Store

DEFAULTS: Mapping[str, tuple[str, ...]] = {
    "XDG_DATA_HOME": ("~/.local/share",),
    "XDG_CONFIG_HOME": ("~/.config",),
    "XDG_STATE_HOME": ("~/.local/state",),
    "APPDATA": ("~/AppData/Roaming",),
    "LOCALAPPDATA": ("~/AppData/Local",),
}
EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf", "Windsurf - Next", "Positron", "Trae")
# Where editors of VS Code's family keep what belongs to a user: `<User>` in a table.
USERS = (
    *(f"$XDG_CONFIG_HOME/{name}/User" for name in EDITORS),
    *(f"~/Library/Application Support/{name}/User" for name in EDITORS),
    *(f"$APPDATA/{name}/User" for name in EDITORS),
    *(f"~/.{name}-server/data/User" for name in ("vscode", "cursor", "vscodium")),
    "~/.vscode-server-insiders/data/User",
)  # fmt: skip
VARIABLE = re.compile(r"\$(\w+)")
SHARED = (".", "..", ".local", ".config")  # folders of many programs
NEVER = frozenset(("auth.json", ".credentials.json", "oauth_creds.json", "credentials.json", "history.jsonl"))


@dataclass(frozen=True, slots=True)
class Found:
    """A file of an agent's store. Times are nanoseconds."""

    agent: Agent
    store: Store
    path: Path
    size: int
    changed_ns: int
    inode: int

    @property
    def folder(self) -> Path:
        """Of a store that has a file for each record: where these are."""
        return self.path.parent.joinpath(*self.store.records)

    def now(self) -> Found | None:
        """The file as it is now; None if it is gone."""
        return next(_file(self.agent, self.store, self.path), None)


def find(agents: Iterable[Agent], environ: Mapping[str, str], home: Path) -> list[Found]:
    """The files of these agents' stores for this user, oldest first; each file once."""
    found: dict[tuple[str, int | str], Found] = {}
    for agent in agents:
        for store in agent.stores:
            for folder in folders(store, environ, home):
                _add(found, _below(agent, store, folder))
    return in_order(found.values())


def find_in(agents: Iterable[Agent], path: Path) -> list[Found]:
    """The files that may be of these agents at an exact path: a file, a home, or a folder with stores below. A file may
    be named for several agents: its records decide (`kinds.py`).
    """
    found: dict[tuple[str, int | str], Found] = {}
    stores = [(agent, store) for agent in agents for store in agent.stores]
    if path.is_file():
        several = [(agent, store) for agent, store in stores if any(_ends(path, one) for one in store.files)]
        return [one for agent, store in several for one in _file(agent, store, path)]
    own = _own_folders(stores)
    for agent, store in stores:
        if agent.any_agent:
            if store.form == "jsonl" and path != Path.home():  # a folder may hold any number of other documents
                deeper = _anywhere(agent, store, path)
                _add(found, (one for one in deeper if own.isdisjoint(one.path.parts)))
            continue
        known = len(found)
        for folder in dict.fromkeys((*folders(store, {}, path), *_tails(store, path))):
            _add(found, _below(agent, store, folder))
        if len(found) == known and path != Path.home():  # a part of a store, or a copy under another name
            _add(found, _anywhere(agent, store, path))
    return in_order(found.values())


def _anywhere(agent: Agent, store: Store, folder: Path) -> Iterator[Found]:
    deeper = store._replace(files=tuple(f"**/{one}" for one in store.files))
    return (replace(one, store=store) for one in _below(agent, deeper, folder))


def _own_folders(stores: Iterable[tuple[Agent, Store]]) -> set[str]:
    """Names of folders that belong to one agent, such as `.claude`: what its table does not take there repeats what it
    takes, or is no session.
    """
    parts = (part for _, store in stores for one in store.folders for part in PurePosixPath(one).parts)
    return {part for part in parts if part.startswith(".") and part not in SHARED} | {".cursor"}


def in_order(found: Iterable[Found]) -> list[Found]:
    """Oldest first: what a resumed session repeats is then known from the session that it repeats."""
    return sorted(found, key=lambda one: (one.agent.id, one.changed_ns, str(one.path)))


def folders(store: Store, environ: Mapping[str, str], home: Path) -> Iterator[Path]:
    """The folders in which a store may be."""
    for written in store.folders:
        several = (written.replace("<User>", user) for user in USERS) if "<User>" in written else (written,)
        for one in several:
            yield from _expanded(one, environ, home)
    name, _, keys = store.listed.partition("#")
    for path in _expanded(name, environ, home) if name else ():
        yield from _listed(path, *keys.split("."))


def _listed(path: Path, several: str, folder: str) -> Iterator[Path]:
    """The folders that a list of an agent names; none of one that cannot be read."""
    try:
        items = msgspec.json.decode(path.read_bytes(), type=dict[str, Any]).get(several)
    except (OSError, msgspec.MsgspecError, RecursionError):
        return
    for one in items if isinstance(items, list) else ():
        named = one.get(folder) if isinstance(one, dict) else None
        if isinstance(named, str) and named and "\0" not in named and Path(named).is_absolute():
            yield Path(named)


def _expanded(written: str, environ: Mapping[str, str], home: Path) -> Iterator[Path]:
    """The folders that a text with a variable means; none if that is not set. It may be a list with commas."""
    if (variable := VARIABLE.search(written)) is None:
        yield Path(str(home) + written[1:]) if written.startswith("~") else Path(written)
        return
    name = variable[1]
    values = [one.strip() for one in environ.get(name, "").split(",") if one.strip()] or DEFAULTS.get(name, ())
    for value in values:
        yield from _expanded(written.replace(variable[0], value, 1), environ, home)


def _tails(store: Store, path: Path) -> Iterator[Path]:
    """Folders below an exact path, named as the store's last folder is: `~/backup/.codex` for `~/backup`."""
    for written in store.folders:
        name = PurePosixPath(written).name
        if name and "$" not in name and "<" not in name:
            yield path / name


def _below(agent: Agent, store: Store, folder: Path) -> Iterator[Found]:
    if not folder.is_dir():
        return
    for pattern in store.files:
        try:
            for path in folder.glob(pattern):
                inside = path.relative_to(folder).as_posix()
                if path.name not in NEVER and not any(_matches(inside, one) for one in store.without):
                    yield from _file(agent, store, path)
        except OSError:  # a folder that may not be read, or went away
            continue


def _file(agent: Agent, store: Store, path: Path) -> Iterator[Found]:
    try:
        stat = path.stat()
    except OSError:
        return
    if not path.is_file():
        return
    found = Found(agent, store, path, stat.st_size, stat.st_mtime_ns, stat.st_ino)
    if (beside := _written_instead(found)) is not None:
        found = replace(found, size=found.size + beside.st_size, changed_ns=max(found.changed_ns, beside.st_mtime_ns))
    yield found


def _written_instead(found: Found) -> os.stat_result | None:
    """What changes where the file itself does not: the folder of its records, the log of a database (an empty one is of
    who reads it).
    """
    try:
        if found.store.form == "folder":
            return found.folder.stat()
        if found.store.form == "sqlite":
            log = found.path.with_name(found.path.name + "-wal").stat()
            return log if log.st_size else None
    except OSError:
        pass
    return None


def _add(found: dict[tuple[str, int | str], Found], files: Iterable[Found]) -> None:
    for one in files:
        found.setdefault((one.agent.id, os.path.realpath(one.path)), one)


def _ends(path: Path, pattern: str) -> bool:
    """Whether the file's name fits the last part of a glob."""
    return fnmatch.fnmatchcase(path.name, PurePosixPath(pattern).name)


def _matches(path: str, pattern: str) -> bool:
    """Whether a path fits a glob in which `**/` stands for any folders, or none."""
    return fnmatch.fnmatchcase(path, pattern) or fnmatch.fnmatchcase(path, pattern.replace("**/", ""))
