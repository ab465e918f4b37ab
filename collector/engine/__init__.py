"""Where events are stored: what the other packages need of an engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collector.correlate.changes import Changes
    from collector.correlate.lookup import Lookup

UPKEEP_EVERY_S = 60  # no agent fills a tenth of the size limit in a minute


class Reads(Protocol):
    """The part of the store that queries need. While `version` stays the same, so do answers."""

    materializes: bool  # computes what WITH names once, however often it is mentioned

    @property
    def version(self) -> str: ...

    def rows(
        self, sql: str, params: Mapping[str, Any] | None = None, *, timeout_s: float = 30
    ) -> list[dict[str, Any]]: ...

    def arrow(self, sql: str, params: Mapping[str, Any] | None = None, *, timeout_s: float = 30) -> bytes: ...


class Commit(Protocol):
    """The part of the store that the writer needs; while it is `unlogged` a crash may cost what is stored."""

    @property
    def path(self) -> Path | None: ...
    @property
    def unlogged(self) -> bool: ...

    def lookup(self) -> Lookup:
        """What correlation may look up."""

    def is_empty(self) -> bool:
        """Whether nothing was ever stored."""

    def position(self) -> int:
        """The position in the journal of the last batch that is stored."""

    def write(self, changes: Changes) -> None:
        """Stores everything or nothing. Raises Unavailable."""

    def try_to_write(self) -> None:
        """Raises Unavailable if nothing can be written."""

    def checkpointed(self) -> bool:
        """Whether the last commit also compressed the log."""

    def interrupt(self) -> None:
        """Ends what is running, from another thread."""


class Upkeep(Protocol):
    """What is to be done between transactions, such as removing old events."""

    def due(self) -> bool:
        """Whether a turn is due."""

    def turn(self) -> None:
        """Does what is due."""


class Turn(NamedTuple):
    """What is published together: of each table the rows, with tombstones, as an Arrow IPC stream."""

    number: int  # the version of its rows
    blocks: Mapping[str, bytes]


class Unpublished(Protocol):
    """The part of the store that publishing to a cluster needs (engine/duckdb/outbox.py)."""

    @property
    def collector(self) -> str:
        """The name of this store among those that publish."""

    def open(self, place: str) -> None:
        """Begins with a cluster; `place` is its name."""

    def take(self, most: int) -> Turn | None:
        """The next turn; None if the cluster lacks nothing."""

    def done(self, turn: Turn) -> None:
        """The turn is published."""

    def pending(self) -> int:
        """How many places wait."""

    def senders(self, since_ns: int) -> bytes:
        """The small tables about senders as Arrow."""


class BroughtBack(Protocol):
    """The part of the store that takes rows back from a cluster (engine/duckdb/back.py)."""

    def columns(self, table: str) -> set[str]:
        """The columns of a table."""

    def bring_back(self, table: str, rows: bytes) -> None:
        """Adds the rows of an Arrow IPC stream that are not there."""
