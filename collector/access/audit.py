"""The audit log beside the store: who read events, asked SQL, copied the store or changed something, in JSON lines.

A file for each day (UTC) in a folder of its owner alone, so that its retention is its own, writing it changes no answer
of the store, and a copy of the store has none of it.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

import msgspec
import structlog

from collector.recent import Recent
from collector.times import MINUTE, SECOND

MOST_DETAIL = 1_000  # characters
IN_MEMORY = 10_000  # entries of a collector whose store is no file
REMEMBERED = 10_000  # what was read in the last minute
FORGET_EVERY_S = 3_600.0

log = structlog.get_logger()


class Entry(msgspec.Struct, frozen=True):
    """`who` did `action` to `what`. `via` is the token that asked for a person; `project` null: of all projects."""

    time_ns: int
    who: str
    action: str
    what: str
    detail: str = ""
    via: str = ""
    project: str | None = None


def named(who: str, scrub: Callable[[str], str]) -> str:
    """The name of who acted: an e-mail address stays, which elsewhere is personal data of others."""
    return who if re.fullmatch(r"[\w.+-]{1,64}@[\w.-]{1,190}", who) else scrub(who)


class AuditLog:
    """Entries in `folder`, or without one in memory; every text passes `scrub`. From any thread."""

    def __init__(
        self,
        folder: Path | None,
        scrub: Callable[[str], str],
        retention_s: float,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._folder, self._scrub, self._retention_s, self._clock = folder, scrub, retention_s, clock
        self._lock = Lock()
        self._kept: list[Entry] = []
        self._read: Recent[int] = Recent(REMEMBERED)

    def note(self, entry: Entry, *, again: bool = True) -> None:
        """Writes an entry. Without `again`, not where an equal one was written in the last minute."""
        now_ns = self._clock()
        clean = Entry(
            now_ns, named(entry.who, self._scrub), entry.action, self._scrub(entry.what),
            self._scrub(entry.detail)[:MOST_DETAIL], entry.via, entry.project,
        )  # fmt: skip
        with self._lock:
            key = msgspec.structs.astuple(clean)[1:]
            if not again and now_ns - (self._read.get(key) or 0) < MINUTE:
                return
            self._read.put(key, now_ns)
            try:
                self._write(clean)
            except OSError as error:
                log.error("the audit log cannot be written", reason=error.strerror or str(error))

    def entries(self, start_ns: int, end_ns: int) -> Iterator[Entry]:
        """The entries of a range of time, newest first, as far back as files exist."""
        since_ns = max(start_ns, self._clock() - int(self._retention_s * SECOND))
        for entry in self._newest_first(_day(since_ns)):
            if since_ns <= entry.time_ns < end_ns:
                yield entry

    async def keep(self) -> None:
        """Forgets what is no longer kept, now and every hour, also where nothing is written."""
        while True:
            await asyncio.to_thread(self.forget)
            await asyncio.sleep(FORGET_EVERY_S)

    def forget(self) -> None:
        """Removes the files of days that are no longer kept, and what a crash left of rewriting them."""
        first = _day(self._clock() - int(self._retention_s * SECOND))
        with self._lock:
            for path in self._folder.glob("*") if self._folder else ():
                if path.stem < first and path.suffix in (".jsonl", ".part"):
                    path.unlink(missing_ok=True)

    def again(self, scrub: Callable[[str], str]) -> int:
        """Rewrites what the texts of entries still hold that `scrub` takes out; returns how many entries changed."""
        with self._lock:
            if self._folder is None:
                self._kept, changed = _again(self._kept, scrub)
                return changed
            return sum(self._file_again(path, scrub) for path in sorted(self._folder.glob("*.jsonl")))

    def _file_again(self, path: Path, scrub: Callable[[str], str]) -> int:
        entries, changed = _again(list(_lines(path.read_bytes())), scrub)
        if changed:
            beside = path.with_suffix(".part")
            beside.touch(0o600)
            beside.write_bytes(b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries))
            beside.replace(path)
        return changed

    def _newest_first(self, day: str) -> Iterator[Entry]:
        """Those of this day and later ones."""
        if self._folder is None:
            yield from reversed(self._kept)
            return
        paths = (path for path in self._folder.glob("*.jsonl") if path.stem >= day)
        for path in sorted(paths, reverse=True):
            with suppress(FileNotFoundError):  # retention has just removed it
                yield from reversed(list(_lines(path.read_bytes())))

    def _write(self, entry: Entry) -> None:
        if self._folder is None:
            self._kept = [*self._kept[1 - IN_MEMORY :], entry]
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        place = os.open(self._folder / f"{_day(entry.time_ns)}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            # The line before may have been cut off: an empty line does no harm.
            os.write(place, b"\n" + msgspec.json.encode(entry) + b"\n")
        finally:
            os.close(place)


def _day(time_ns: int) -> str:
    return f"{datetime.fromtimestamp(max(time_ns, 0) // SECOND, UTC):%Y-%m-%d}"


def _lines(written: bytes) -> Iterator[Entry]:
    decode = msgspec.json.Decoder(Entry).decode
    for line in written.splitlines():
        with suppress(msgspec.DecodeError):  # cut off by a full disk or a crash
            yield decode(line)


def _again(entries: list[Entry], scrub: Callable[[str], str]) -> tuple[list[Entry], int]:
    """The entries with their texts scrubbed, and how many that changes."""
    clean = [
        msgspec.structs.replace(one, who=named(one.who, scrub), what=scrub(one.what), detail=scrub(one.detail))
        for one in entries
    ]
    return clean, sum(new != old for new, old in zip(clean, entries, strict=True))
