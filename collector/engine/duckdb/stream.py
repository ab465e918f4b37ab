"""Results of the engine as an Arrow IPC stream."""

from __future__ import annotations

import ctypes
import re
from typing import IO, Any

from nanoarrow.c_array_stream import CArrayStream, c_array_stream
from nanoarrow.ipc import StreamWriter

NONE = re.compile(rb"\x00+")
SOME = re.compile(rb"[^\x00\xff]")


def write_stream(found: Any, out: IO[bytes]) -> None:
    """Writes a result, batch by batch. Where a value is null, nothing is told but that: the engine leaves in its place
    what was in memory before, such as a text of another answer.
    """
    stream = c_array_stream(found)
    schema = stream.get_schema()
    with StreamWriter.from_writable(out) as writer:
        writer.write_stream(CArrayStream.from_c_arrays([], schema))
        for array in stream:
            empty_nulls(array)
            batch = CArrayStream.from_c_arrays([array], schema)
            writer.write_stream(batch, write_schema=False)


def empty_nulls(array: Any) -> None:
    """Makes 0 of what stands where this array and those within it are null. It must be of nobody else."""
    for child in array.children:
        empty_nulls(child)
    valid, *data = array.buffers
    if not valid or not array.null_count or len(data) != 1 or array.n_children:
        return  # nothing is null, or it is text: of that, null has no bytes
    bits = array.view().layout.element_size_bits[1]
    length = array.offset + array.length
    present = ctypes.string_at(valid, (length + 7) // 8)
    if bits == 1:
        known = int.from_bytes(present, "little") & int.from_bytes(ctypes.string_at(data[0], len(present)), "little")
        ctypes.memmove(data[0], known.to_bytes(len(present), "little"), len(present))
        return
    width = bits // 8
    for run in NONE.finditer(present):
        ctypes.memset(data[0] + run.start() * 8 * width, 0, (min(run.end() * 8, length) - run.start() * 8) * width)
    for one in SOME.finditer(present):
        for place in range(one.start() * 8, min(one.start() * 8 + 8, length)):
            if not one[0][0] >> (place % 8) & 1:
                ctypes.memset(data[0] + place * width, 0, width)
