"""Rows as Arrow, with the types of the tables in `schemas/`: one array for each column that any row has."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import nanoarrow as na
from nanoarrow.c_array import c_array_from_buffers
from nanoarrow.c_array_stream import CArrayStream
from nanoarrow.ipc import StreamWriter

_ARROW = {
    "varchar": na.string(), "json": na.string(), "bigint": na.int64(), "ubigint": na.uint64(), "integer": na.int32(),
    "double": na.float64(), "boolean": na.bool_(), "smallint": na.int16(),
    "timestamp": na.timestamp("ns", timezone="UTC"),
}  # fmt: skip

Columns = Mapping[str, Sequence[Any]]  # of equal length, None where a row has no value


def columns_of(rows: Sequence[Mapping[str, Any]], types: Mapping[str, str], *, whole: bool = False) -> Columns:
    """The columns that any row has, or with `whole` all columns, in the order of `types`."""
    present = set(types) if whole else set().union(*{tuple(row) for row in rows})
    return {name: [row.get(name) for row in rows] for name in types if name in present}


class ArrowColumns:
    """Columns as one Arrow record batch that can be read repeatedly through the C stream interface.

    DuckDB reads the stream twice: for the schema, then for the data.
    """

    def __init__(self, columns: Columns, types: Mapping[str, str]) -> None:
        kinds = {name: _ARROW[types[name]] for name in columns}
        arrays = [na.c_array(values, kinds[name]) for name, values in columns.items()]
        self._schema = na.c_schema(na.struct(kinds))
        self._batch = c_array_from_buffers(self._schema, len(arrays[0]), [None], children=arrays)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return CArrayStream.from_c_arrays([self._batch], self._schema, move=False).__arrow_c_stream__()


def arrow_stream(rows: Sequence[Mapping[str, Any]], types: Mapping[str, str]) -> bytes:
    """Rows as an Arrow IPC stream with every column of `types`, even without rows."""
    out = io.BytesIO()
    with StreamWriter.from_writable(out) as writer:
        writer.write_stream(ArrowColumns(columns_of(rows, types, whole=True), types))
    return out.getvalue()
