"""What was taken and is not stored yet: sanitised batches, on the disk before their senders are answered.

Two files beside the store, filled in turns; a file is emptied as soon as the store holds all of it. A record is a head
(its position, a checksum, its length) and a batch in MessagePack. Positions grow for ever; the store keeps that of the
last batch it holds in the transaction of its rows, so that after any end each batch is stored once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from struct import Struct
from threading import Lock
from typing import Any, NamedTuple

import msgspec
import structlog
from xxhash import xxh3_64_intdigest

from collector.errors import Unavailable
from collector.store.changes import Batch, Receipt

HEAD = Struct("<QQI")  # position, checksum of all that follows it, bytes of the batch
TRIAL = 64 << 10  # bytes; a file system may have room for a few in what it has given to a file
FULL = 16 << 20  # a file of this size is not added to, where the other is empty

log = structlog.get_logger()


def _made(kind: type, found: Any) -> Any:
    return kind(found)  # a Counter comes as the dict that it is


pack: Callable[[Batch], bytes] = msgspec.msgpack.Encoder().encode
unpack: Callable[[bytes], Batch] = msgspec.msgpack.Decoder(Batch, dec_hook=_made).decode
receipt: Callable[[bytes], Receipt] = msgspec.msgpack.Decoder(Receipt, dec_hook=_made).decode


def records_in(packed: bytes) -> int:
    """Records of a batch; 0 where it cannot be read, as one of another version."""
    try:
        return receipt(packed).records
    except msgspec.MsgspecError:
        return 0


class Left(NamedTuple):
    """A batch that was taken and not stored."""

    position: int
    packed: bytes


class Journal:
    """`append` from one thread, `forget` from another. Without a store's path, positions alone."""

    def __init__(self, store: Path | None, check: Callable[[], None] = lambda: None) -> None:
        """`check` raises Unavailable where what is taken could not be stored. Raises OSError."""
        self._files = [File(Path(f"{store}.journal.{number}")) for number in (1, 2)] if store else []
        self._check = check
        self._lock = Lock()
        self._position = 0

    def left(self, after: int) -> list[Left]:
        """What was taken after a position, in its order. To be asked once, before anything is appended. What was taken
        up to there is forgotten.
        """
        found = {position: packed for file in self._files for position, packed in file.records()}
        for file in self._files:
            file.tell_of_the_rest()
        self._position = max((after, *found))
        self.forget(after)
        return [Left(position, packed) for position, packed in sorted(found.items()) if position > after]

    def append(self, packed: Sequence[bytes]) -> list[int]:
        """Writes batches; durable when it returns their positions. Raises Unavailable, and then none is there."""
        self._check()
        positions = []
        for _ in packed:
            # Also a store that is put in the place of this one has smaller positions, but for clocks that go back.
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
        """Writes what is nothing. Raises Unavailable where not even that can be written."""
        with self._lock:
            for file in self._files[:1]:
                file.write(bytes(TRIAL))
                file.cut()

    def forget(self, position: int) -> None:
        """Empties the files whose last batch is stored."""
        with self._lock:
            for file in self._files:
                if file.size and file.last <= position:
                    file.empty()

    def close(self) -> None:
        """Closes the files, and removes them where they are empty."""
        for file in self._files:
            file.close()


class File:
    """Records one after the other; `records` before anything is appended to what is there. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = _opened(path)
        self.size = 0
        self.last = 0

    def records(self) -> Iterator[tuple[int, bytes]]:
        """Positions and batches, as far as they are whole: what a kill or a full disk broke off was never answered."""
        for position, packed, end in whole(self._path):
            self.size = end
            self.last = max(self.last, position)  # a write that failed may have left a whole one behind a later one
            yield position, packed

    def tell_of_the_rest(self) -> None:
        """Logs that something follows what could be read: most often nobody was answered for it, but who knows."""
        if rest := os.fstat(self._descriptor).st_size - self.size:
            log.warning(
                "the journal ends with what is not whole: broken off, or damaged", file=str(self._path), bytes=rest
            )

    def append(self, content: bytes, last: int) -> None:
        """Adds records, of which the last has this position; durable when it returns. Raises Unavailable."""
        self.write(content)
        self.size += len(content)
        self.last = last

    def write(self, content: bytes) -> None:
        """Writes behind what was appended. Raises Unavailable."""
        try:
            if not os.fstat(self._descriptor).st_nlink:  # removed: what is written to it now, no start would find
                removed, self._descriptor, self.size = self._descriptor, _opened(self._path), 0
                os.close(removed)
            done = 0
            while done < len(content):
                done += os.pwrite(self._descriptor, content[done:], self.size + done)
            os.fdatasync(self._descriptor)
        except OSError as error:  # what stands there now is written over by the next
            raise Unavailable(f"{self._path} cannot be written: {error.strerror}", 5) from None

    def cut(self) -> None:
        """Removes what stands behind what was appended. Where the disk does not let it, that is written over."""
        with suppress(OSError):
            os.ftruncate(self._descriptor, self.size)

    def empty(self) -> None:
        """Forgets all: what may be left of it is stored."""
        self.size = 0
        self.cut()

    def close(self) -> None:
        """Closes the file, and removes it where nothing is in it."""
        os.close(self._descriptor)
        if not self.size:
            with suppress(OSError):  # a file of nothing may stay
                self._path.unlink()


def _opened(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with suppress(OSError):  # not every file system can do that with a folder
        synchronise(path.parent)
    return descriptor


def synchronise(path: Path) -> None:
    """Brings a file, or the names in a folder, onto the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def whole(path: Path) -> Iterator[tuple[int, bytes, int]]:
    """Positions and batches of a file and where each ends, up to the first that is not whole. Raises OSError."""
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
    """A batch as it stands in a file."""
    return HEAD.pack(position, _checksum(position, packed), len(packed)) + packed


def _checksum(position: int, packed: bytes) -> int:
    return xxh3_64_intdigest(packed, seed=position)
