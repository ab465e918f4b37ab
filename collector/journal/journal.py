"""The journal: sanitised batches that are not stored yet, on disk before their senders are answered.

Two files beside the store, filled in turn; each is emptied as soon as the store holds all of it. A record is a header
(position, checksum, length) and a batch in MessagePack. Positions only grow. The store saves the position of the last
batch in the transaction that stores it, so that each batch is stored once, however the collector ends.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from struct import Struct
from threading import Lock
from typing import Any, NamedTuple

import msgspec
import structlog
from xxhash import xxh3_64_intdigest

from collector.batch import Batch, Receipt
from collector.errors import StoreError, Unavailable
from collector.files import synchronise

HEAD = Struct("<QQI")  # position, checksum of all that follows it, bytes of the batch
TRIAL = 64 << 10  # bytes written as a trial: a few bytes could fit into blocks that the file already has
FULL = 16 << 20  # at this size, switch to the other file if that is empty

log = structlog.get_logger()


def _made(kind: type, found: Any) -> Any:
    return kind(found)  # a Counter is encoded as a dict


pack: Callable[[Batch], bytes] = msgspec.msgpack.Encoder().encode
unpack: Callable[[bytes], Batch] = msgspec.msgpack.Decoder(Batch, dec_hook=_made).decode
receipt: Callable[[bytes], Receipt] = msgspec.msgpack.Decoder(Receipt, dec_hook=_made).decode


def records_in(packed: bytes) -> int:
    """The number of records in a batch; 0 if it cannot be read, as one of another version may not."""
    try:
        return receipt(packed).records
    except msgspec.MsgspecError:
        return 0


def check_stored(store: Path | None, position: int, otherwise: str) -> None:
    """Raises StoreError if a collector that was killed has left requests in the journal after this position.

    `otherwise` goes on to say what would become of them.
    """
    with closing(Journal(store)) as journal:
        left = len(journal.left(position))
    if left:
        raise StoreError(
            f"the journal of {store} holds requests that are not stored yet ({left}), {otherwise}: "
            "start the collector once, then try again"
        )


class Left(NamedTuple):
    """A batch in the journal that is not stored."""

    position: int
    packed: bytes


class Journal:
    """`append` is for one thread, `forget` for another. Without a path, only counts positions."""

    def __init__(self, store: Path | None, check: Callable[[], None] = lambda: None) -> None:
        """`check` raises Unavailable if the store cannot take anything. Raises OSError."""
        self._files = [File(Path(f"{store}.journal.{number}")) for number in (1, 2)] if store else []
        self._check = check
        self._lock = Lock()
        self._position = 0

    def left(self, after: int) -> list[Left]:
        """The batches after a position, in order; earlier ones are discarded. To be called once, before `append`."""
        found = {position: packed for file in self._files for position, packed in file.records()}
        for file in self._files:
            file.tell_of_the_rest()
        self._position = max((after, *found))
        self.forget(after)
        return [Left(position, packed) for position, packed in sorted(found.items()) if position > after]

    def append(self, packed: Sequence[bytes]) -> list[int]:
        """Writes batches and returns their positions once they are durable. Raises Unavailable if none was written."""
        self._check()
        positions = []
        for _ in packed:
            # From the clock, so that they are larger than those in any backup of the store, unless the clock went back.
            self._position = max(self._position + 1, time.time_ns())
            positions.append(self._position)
        if self._files:
            content = b"".join(map(record, positions, packed))
            with self._lock:
                if self._files[0].size > FULL and not self._files[1].size:
                    self._files.reverse()
                self._files[0].append(content, positions[-1])
        return positions

    def try_to_write(self) -> None:
        """Writes and removes a few bytes as a trial. Raises Unavailable if that fails."""
        with self._lock:
            for file in self._files[:1]:
                file.write(bytes(TRIAL))
                file.cut()

    def forget(self, position: int) -> None:
        """Empties the files of which the last batch is stored."""
        with self._lock:
            for file in self._files:
                if file.size and file.last <= position:
                    file.empty()

    def close(self) -> None:
        """Closes the files and removes empty ones."""
        for file in self._files:
            file.close()


class File:
    """A file of records. In one that exists already, call `records` before `append`. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = _opened(path)
        self.size = 0
        self.last = 0

    def records(self) -> Iterator[tuple[int, bytes]]:
        """Positions and batches up to the first incomplete one: a request cut off by a kill or a full disk was not
        answered.
        """
        for position, packed, end in whole(self._path):
            self.size = end
            self.last = max(self.last, position)  # a failed write may have left a complete record after a later one
            yield position, packed

    def tell_of_the_rest(self) -> None:
        """Logs that unreadable bytes follow: usually an unanswered request, but that is not certain."""
        if rest := os.fstat(self._descriptor).st_size - self.size:
            log.warning("the journal ends with an incomplete or damaged record", file=str(self._path), bytes=rest)

    def append(self, content: bytes, last: int) -> None:
        """Appends records, the last of which has this position; durable when it returns. Raises Unavailable."""
        self.write(content)
        self.size += len(content)
        self.last = last

    def write(self, content: bytes) -> None:
        """Writes after what was appended. Raises Unavailable."""
        try:
            if not os.fstat(self._descriptor).st_nlink:  # removed: the next start would not find what is written
                removed, self._descriptor, self.size = self._descriptor, _opened(self._path), 0
                os.close(removed)
            done = 0
            while done < len(content):
                done += os.pwrite(self._descriptor, content[done:], self.size + done)
            os.fdatasync(self._descriptor)
        except OSError as error:  # the next write overwrites what may be there
            raise Unavailable(f"{self._path} cannot be written: {error.strerror}", 5) from None

    def cut(self) -> None:
        """Truncates the file after what was appended. If that fails, the next write overwrites the rest."""
        with suppress(OSError):
            os.ftruncate(self._descriptor, self.size)

    def empty(self) -> None:
        """Discards all records: they are stored."""
        self.size = 0
        self.cut()

    def close(self) -> None:
        """Closes the file, and removes it if it is empty."""
        os.close(self._descriptor)
        if not self.size:
            with suppress(OSError):  # an empty file does no harm
                self._path.unlink()


def _opened(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with suppress(OSError):  # not every file system can synchronise a folder
        synchronise(path.parent)
    return descriptor


def whole(path: Path) -> Iterator[tuple[int, bytes, int]]:
    """Position, batch and end offset of each record, up to the first incomplete one. Raises OSError."""
    content = memoryview(path.read_bytes())
    end = 0
    while len(content) >= (start := end + HEAD.size):
        position, checksum, length = HEAD.unpack_from(content, end)
        end = start + length
        packed = bytes(content[start:end])
        if len(packed) < length or checksum != _checksum(position, packed):
            return
        yield position, packed, end


def record(position: int, packed: bytes) -> bytes:
    """A batch as a record of a file."""
    return HEAD.pack(position, _checksum(position, packed), len(packed)) + packed


def _checksum(position: int, packed: bytes) -> int:
    return xxh3_64_intdigest(packed, seed=position)
