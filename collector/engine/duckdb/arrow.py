"""Rows as Arrow, with the types of the tables in `schemas/`: one array for each column that any row has."""

from __future__ import annotations

import io
from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, chain
from typing import Any

import nanoarrow as na
from nanoarrow.c_array import CArray, c_array_from_buffers
from nanoarrow.c_array_stream import CArrayStream
from nanoarrow.ipc import StreamWriter

_ARROW = {
    "varchar": na.string(), "json": na.string(), "bigint": na.int64(), "ubigint": na.uint64(), "integer": na.int32(),
    "double": na.float64(), "boolean": na.bool_(), "smallint": na.int16(),
    "timestamp": na.timestamp("ns", timezone="UTC"), "integer[]": na.list_(na.int32()),
    "varchar[]": na.list_(na.string()),
}  # fmt: skip

_NUMBERS = {"bigint": "q", "ubigint": "Q", "integer": "i", "smallint": "h", "double": "d"}  # as `array` calls them

Columns = Mapping[str, Sequence[Any]]  # of equal length, None where a row has no value


def columns_of(rows: Iterable[Mapping[str, Any]], types: Mapping[str, str]) -> Columns:
    """The columns that any row has, in the order of `types`; rows with the same columns follow one another."""
    alike: defaultdict[tuple[str, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        alike[tuple(row)].append(row)
    present = set().union(*alike)
    columns: dict[str, list[Any]] = {name: [] for name in types if name in present}
    for names, some in alike.items():
        values = dict(zip(names, zip(*[row.values() for row in some], strict=True), strict=True))
        absent = (None,) * len(some)
        for name, column in columns.items():
            column += values.get(name, absent)
    return columns


class ArrowColumns:
    """Columns as one Arrow record batch that can be read repeatedly through the C stream interface.

    DuckDB reads the stream twice: for the schema, then for the data.
    """

    def __init__(self, columns: Columns, types: Mapping[str, str]) -> None:
        arrays = [_array(values, types[name]) for name, values in columns.items()]
        self._schema = na.c_schema(na.struct({name: _ARROW[types[name]] for name in columns}))
        self._batch = c_array_from_buffers(self._schema, len(arrays[0]), [None], children=arrays)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return CArrayStream.from_c_arrays([self._batch], self._schema, move=False).__arrow_c_stream__()


def _array(values: Sequence[Any], kind: str) -> CArray:
    if kind in _NUMBERS:
        with suppress(TypeError):  # some are absent
            return c_array_from_buffers(_ARROW[kind], len(values), [None, array(_NUMBERS[kind], values)])
    if kind.endswith("[]"):
        ends = array("i", accumulate(map(len, values), initial=0))
        flat = _array([*chain.from_iterable(values)], kind.removesuffix("[]"))
        return c_array_from_buffers(_ARROW[kind], len(values), [None, ends], children=[flat])
    return na.c_array(values, _ARROW[kind])


def arrow_stream(rows: Sequence[Mapping[str, Any]], types: Mapping[str, str]) -> bytes:
    """Rows as an Arrow IPC stream with every column of `types`, even without rows."""
    out = io.BytesIO()
    columns = {name: [row.get(name) for row in rows] for name in types}
    with StreamWriter.from_writable(out) as writer:
        writer.write_stream(ArrowColumns(columns, types))
    return out.getvalue()
