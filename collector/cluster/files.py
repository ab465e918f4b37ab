"""A file that is the same beside every collector of a cluster: of alert rules, of tokens.

Each collector keeps its own copy, which is in force while the cluster is away. What is changed in it, by the API or by
hand, is given to all; where two changed theirs at once, the cluster's stays, and the other is kept under another name.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import structlog

from collector.cluster.seal import Seal
from collector.cluster.shared import Shared
from collector.files import Changed, read, write
from collector.seldom import Seldom

KIND = "file"
KEPT_AS = ".own"  # behind the name of a file that lost

log = structlog.get_logger()


class Remembers(Protocol):
    """What outlasts a restart: collector.engine.duckdb.meta.Meta."""

    def value(self, name: str) -> str: ...

    def put(self, name: str, value: str) -> None: ...


class SharedFile:
    """Any thread may call it."""

    def __init__(
        self,
        shared: Shared,
        seal: Seal,
        meta: Remembers,
        name: str,
        path: Path,
        *,
        valid: Callable[[str], bool],
        merged: Callable[[str, str], str | None] = lambda ours, theirs: None,
    ) -> None:
        """`merged` is what two versions come to; None: the cluster's counts."""
        self.name, self.path = name, path
        self._shared, self._seal, self._meta = shared, seal, meta
        self._valid, self._merged = valid, merged
        self._theirs: str | None = None
        self._lock = threading.RLock()
        self._seldom = Seldom()

    def take(self, sealed: str | None) -> None:
        """Takes note of the cluster's version."""
        with self._lock:
            self._theirs = None if sealed is None else self._seal.opened(sealed, self.name)

    def look(self) -> None:
        """Makes this copy and the cluster's one. Raises Unavailable."""
        with self._lock:
            self._look()

    def _look(self) -> None:
        try:
            ours, theirs = read(self.path), self._theirs
            if ours == (theirs or ""):
                self._agreed(ours)
            elif theirs is None:
                self._offer(ours)
            elif not ours or _digest(ours) == self._meta.value(self._agreement):
                self._write(theirs, ours)
            elif _digest(theirs) == self._meta.value(self._agreement):
                self._offer(ours)
            else:
                self._settle(ours, theirs)
        except Changed:  # by somebody else, here or there: it is looked at again
            return
        except OSError as error:
            if self._seldom.due(str(error)):
                log.warning("a file that collectors share cannot be written here", file=self.name, error=str(error))

    @contextmanager
    def given(self, before: str, text: str) -> Iterator[None]:
        """Gives all collectors a change of this copy, which is to be written here in the block. Raises Changed where
        theirs is not `before` by now, and Unavailable.
        """
        with self._lock:
            self._give(before, text)
            yield
            self._agreed(text)

    def _give(self, before: str, text: str) -> None:
        there = self._shared.one(KIND, self.name)
        theirs = None if there.text is None else self._seal.opened(there.text, self.name)
        if theirs is not None and theirs != before:
            self._theirs = theirs
            self._write(theirs, before)
            raise Changed(f"{self.path}: was changed by another collector")
        if not self._shared.replace(KIND, self.name, there, self._seal.closed(text, self.name)):
            raise Changed(f"{self.path}: was changed by another collector")
        self._theirs = text

    @property
    def _agreement(self) -> str:
        return f"shared {self.name}"

    def _agreed(self, text: str) -> None:
        if self._meta.value(self._agreement) != _digest(text):
            self._meta.put(self._agreement, _digest(text))

    def _offer(self, ours: str) -> None:
        if self._valid(ours):
            self._give(self._theirs or "", ours)
            self._agreed(ours)

    def _write(self, theirs: str, ours: str) -> None:
        write(self.path, theirs, ours)
        self._agreed(theirs)

    def _settle(self, ours: str, theirs: str) -> None:
        both = self._merged(ours, theirs)
        if both is None:
            kept = self.path.with_name(self.path.name + KEPT_AS)
            write(kept, ours)
            log.warning("the cluster's file is in force; the one that was here is kept", file=self.name, kept=str(kept))
        elif both != theirs:
            self._give(theirs, both)
        self._write(both or theirs, ours)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
