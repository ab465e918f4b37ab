"""What connecting an agent changes in which file, and what undoing it takes out; nothing is written here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from collector.connect.document import MISSING, Broken, Document
from collector.connect.jsonc import Jsonc
from collector.connect.ledger import Entry, Filed
from collector.connect.shell import Profile, profile
from collector.connect.toml import Toml
from collector.files import read
from collector.settings import LOOPBACK
from collector.switches import Agent, Connect, Place, Switch

# Ends within a tenth of a second where nobody listens, prints nothing, and never fails: an agent must not notice it.
# It is curl, as Python alone takes as long to start.
HOOK = (
    "curl -q -s -o /dev/null --noproxy localhost,127.0.0.1,::1 --connect-timeout {wait} --max-time 1"
    " -H 'Content-Type: application/json' -H 'Expect:'{header} --data-binary @- {url}/v1/events 2>/dev/null || true"
)
WAIT, WAIT_FAR = "0.03", "0.08"  # seconds for a connection on this machine, and to another
HEADER = ' -H "Authorization: Bearer $MISSTEP_TOKEN"'

Values = dict[tuple[str, ...], Any]
Ask = Callable[[str], bool]


@dataclass(slots=True)
class Target:
    """A file, and what is to be put into it; a list's items are added to the list that is there."""

    path: Path
    format: str
    values: Values


@dataclass(slots=True)
class Change:
    """A file before and after, what is ours in it then, and what was left as it is, in words."""

    path: Path
    before: str
    after: str
    filed: Filed
    left: list[str] = field(default_factory=list)


def targets(
    agent: Agent, switches: list[Switch], url: str, token: str, environ: Mapping[str, str], file: Path | None = None
) -> list[Target]:
    """The files of an agent with what connecting it puts there. Raises OSError if the path of a file is not known."""
    told = agent.connect
    if told is None:  # the caller has asked for one that can be connected
        return []
    wanted: dict[Place, dict[str, Any]] = {told.place: {**told.settings, **(told.token if token else {})}}
    for switch in switches:
        wanted.setdefault(switch.place or told.place, {}).update(switch.settings)
    if token and told.token_in_shell:
        wanted[Place((), "shell", told.place.command)] = dict(told.token_in_shell)
    fill = {"{url}": url, "{token}": token, "{hook}": hook(url, token)}
    found = []
    for place, settings in wanted.items():
        filled = {name: _filled(value, fill) for name, value in settings.items()}
        path = file if file and place is told.place else _path(place, environ, filled)
        whole: Values = {tuple(name.split(".")): value for name, value in filled.items()}
        found.append(Target(path, place.format, {(place.command,): filled} if place.format == "shell" else whole))
    return found


def hook(url: str, token: str = "") -> str:
    """The shell command that posts what it reads to the collector at `url`."""
    near = urlsplit(url).hostname in LOOPBACK
    return HOOK.format(url=url, header=HEADER if token else "", wait=WAIT if near else WAIT_FAR)


def chosen(agent: Agent, names: tuple[str, ...]) -> list[Switch]:
    """The switches to set: those of no price, and those that are named. Raises OSError if there is none of a name."""
    known = {one.name: one for each in agent.untold for one in each.switches if one.settings}
    for name in names:
        if name not in known:
            there = ", ".join(known) or "none"
            raise OSError(f"--with {name}: {agent.source} has no such setting; there are: {there}")
    return [one for one in known.values() if one.default or one.name in names]


def put(target: Target, known: Filed | None, ask: Ask, environ: Mapping[str, str]) -> Change:
    """The change that puts a target's values into its file; `ask` whether to replace a value that a person set.

    Raises OSError with file, line and remedy if the file cannot be edited.
    """
    before = read(target.path)
    created = known.created if known else not target.path.exists()
    change = Change(target.path, before, before, Filed(target.format, created, list(known.entries if known else ())))
    document = opened(target.path, target.format, before)
    try:
        for path, value in target.values.items():
            if isinstance(value, list):
                _put_items(document, path, value, change.filed)
            elif target.format != "shell" or _agreed(path, value, environ, ask, change):
                _put(document, path, value, change, ask)
    except Broken as error:
        raise _refused(target.path, error) from None
    if document.text != before and change.filed.entries:
        change.after = document.text
    return change


def taken_out(path: Path, filed: Filed) -> Change:
    """The change that takes out of a file what was put into it, but for what was changed since."""
    before = read(path)
    change = Change(path, before, before, filed)
    if not before:
        return change
    document = opened(path, filed.format, before)
    try:
        for entry in reversed(filed.entries):
            keys = tuple(entry.path)
            present = document.get(keys)
            if entry.item:
                if isinstance(present, list) and entry.value in present:
                    document.discard(keys, entry.value)
                    _prune(document, keys, entry.made, [])
                elif present is not MISSING:
                    change.left.append(f"{'.'.join(keys)}: what was added is not there as it was, so it stays as it is")
            elif present == entry.value and entry.before:
                document.put(keys, entry.before[0])
            elif present == entry.value:
                document.remove(keys)
                _prune(document, keys[:-1], entry.made - 1, {})
            elif present is not MISSING:
                change.left.append(f"{'.'.join(keys)}: was changed since, so it stays as it is")
    except Broken as error:
        raise _refused(path, error) from None
    change.after = document.text
    return change


def opened(path: Path, format: str, text: str) -> Document:
    """A file's text as a document. Raises OSError with file, line and remedy if it is broken."""
    try:
        if format == "toml":
            return Toml(text)
        return Profile(text, fish=path.suffix == ".fish") if format == "shell" else Jsonc(text)
    except Broken as error:
        raise _refused(path, error) from None


def _put(document: Document, path: tuple[str, ...], value: Any, change: Change, ask: Ask) -> None:
    present = document.get(path)
    entries = change.filed.entries
    ours = next((one for one in entries if tuple(one.path) == path and not one.item), None)
    if present == value:
        return
    name = ".".join(path)
    entry = ours if ours and ours.value == present else Entry(list(path), value, made=_made(document, path))
    if present is not MISSING and entry is not ours:
        if not ask(f"{name} is set to {present!r} in {change.path}. Replace it by {value!r}?"):
            change.left.append(f"{name}: {present!r} was set before, so it stays; Misstep needs {value!r}")
            return
        entry.before = [present]
    document.put(path, value)
    entry.value = value
    if entry is not ours:
        entries[:] = [*(one for one in entries if one is not ours), entry]


def _put_items(document: Document, path: tuple[str, ...], items: list[Any], filed: Filed) -> None:
    present = document.get(path)
    ours = [one for one in filed.entries if tuple(one.path) == path and one.item and one.value not in items]
    made = next((one.made for one in ours), _made(document, path))
    for old in ours:  # of another collector
        document.discard(path, old.value)
        filed.entries.remove(old)
    for item in items:
        if not isinstance(present, list) or item not in present:
            document.append(path, item)
            filed.entries.append(Entry(list(path), item, item=True, made=made))


def _agreed(path: tuple[str, ...], value: dict[str, str], environ: Mapping[str, str], ask: Ask, change: Change) -> bool:
    """Whether no variable that this command will have is set to something else here, or a person wants that."""
    for name, wanted in value.items():
        if environ.get(name, wanted) != wanted and not ask(
            f"{name} is {environ[name]!r} in this shell. Start {path[0]} with {wanted!r} instead?"
        ):
            change.left.append(f"{name}: {environ[name]!r} is set in this shell, so it stays; Misstep needs {wanted!r}")
            return False
    return True


def _made(document: Document, path: tuple[str, ...]) -> int:
    """How many keys of a path are not there."""
    return sum(document.get(path[:length]) is MISSING for length in range(1, len(path) + 1))


def _prune(document: Document, path: tuple[str, ...], made: int, empty: Any) -> None:
    """Takes out what is empty at a path, and around it, of what was made for it."""
    for _ in range(made):
        if document.get(path) != empty:
            return
        document.remove(path)
        path, empty = path[:-1], {}


def _filled(value: Any, fill: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for mark, text in fill.items():
            value = value.replace(mark, text)
        return value
    if isinstance(value, dict):
        return {key: _filled(inner, fill) for key, inner in value.items()}
    return [_filled(inner, fill) for inner in value] if isinstance(value, list) else value


def _path(place: Place, environ: Mapping[str, str], values: Mapping[str, Any]) -> Path:
    """The first path whose variables are all set; if that .json does not exist but the .jsonc does, the .jsonc."""
    files = profile(environ.get("SHELL", "")) if place.format == "shell" else place.files
    path = next(_expanded(files, environ), None)
    if path is None:
        lines = " ".join(f"{name}={value}" for name, value in values.items())
        raise OSError(
            f"the profile of your shell is not known: name it with --file, or start {place.command} with {lines}"
        )
    other = path.with_suffix(".jsonc")
    return other if path.suffix == ".json" and not path.exists() and other.exists() else path


def _expanded(files: tuple[str, ...], environ: Mapping[str, str]) -> Iterator[Path]:
    for file in files:
        first, slash, rest = file.partition("/")
        if first == "~":
            yield Path(environ.get("HOME") or os.path.expanduser("~")) / rest
        elif value := environ.get(first[1:]):
            yield Path(os.path.expanduser(value)) / rest if slash else Path(value)


def _refused(path: Path, error: Broken) -> OSError:
    line = f", line {error.line}" if error.line else ""
    return OSError(f"{path}{line}: {error}: correct it, then run it again; nothing was written")


def price(connect: Connect, switches: list[Switch], url: str) -> list[str]:
    """What a person agrees to, in sentences."""
    told = [f"It sends to {url}: {connect.note}"]
    return told + [f"{one.name} ({one.setting}): {one.privacy}." for one in switches if one.privacy]
