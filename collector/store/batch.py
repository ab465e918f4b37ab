"""Reports and events as columns: the names and types of `schemas/events.sql`, and rows turned into an Arrow stream.

A report is a sparse dict from column name to value; rows of them become one Arrow array for each column that any has.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import nanoarrow as na
from nanoarrow.c_array import c_array_from_buffers
from nanoarrow.c_array_stream import CArrayStream
from nanoarrow.ipc import StreamWriter

from collector.tables import schemas

Report = dict[str, Any]

_ARROW = {
    "varchar": na.string(), "json": na.string(), "bigint": na.int64(), "ubigint": na.uint64(), "integer": na.int32(),
    "double": na.float64(), "boolean": na.bool_(), "smallint": na.int16(),
    "timestamp": na.timestamp("ns", timezone="UTC"),
}  # fmt: skip


def tables_of(ddl: str) -> dict[str, dict[str, str]]:
    """Table name → column name → type, of the `create table` statements in `ddl` (one column a line)."""
    found: dict[str, dict[str, str]] = {}
    for name, columns in re.findall(r"^create table if not exists (\w+) \(\n(.*?)^\);", ddl, re.MULTILINE | re.DOTALL):
        found[name] = dict(re.findall(r"^ {2}(\w+) +(\w+)", columns, re.MULTILINE))
    return found


EVENTS_DDL = schemas().joinpath("events.sql").read_text(encoding="utf-8")
ALERTS_DDL = schemas().joinpath("alerts.sql").read_text(encoding="utf-8")
INGEST_DDL = schemas().joinpath("ingest.sql").read_text(encoding="utf-8")
GROUPS_DDL = schemas().joinpath("groups.sql").read_text(encoding="utf-8")
KEPT_DDL = schemas().joinpath("kept.sql").read_text(encoding="utf-8")
ARCHIVE_DDL = schemas().joinpath("archive.sql").read_text(encoding="utf-8")
TABLES = tables_of(EVENTS_DDL + INGEST_DDL + KEPT_DDL)

# Columns that the store adds when a report becomes an event, and that are internal.
INTERNAL = frozenset(("report_rank", "outcome_strength"))
EVENT_COLUMNS = frozenset(TABLES["events"])  # without MISSTEP_DIMENSIONS
COLUMNS = {name: kind for name, kind in TABLES["events"].items() if name not in INTERNAL}


def add_dimensions(names: Iterable[str]) -> None:
    """Adds columns for MISSTEP_DIMENSIONS, in this process. To be called before anything is read or stored."""
    for name in names:
        COLUMNS[name] = TABLES["events"][name] = "varchar"


INTEGERS = frozenset(name for name, kind in COLUMNS.items() if kind in ("bigint", "ubigint", "integer"))
TEXTS = frozenset(name for name, kind in COLUMNS.items() if kind == "varchar")


Columns = Mapping[str, Sequence[Any]]  # of equal length, None where a row has no value


def columns_of(rows: Sequence[Report], types: Mapping[str, str], *, whole: bool = False) -> Columns:
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


def arrow_stream(rows: Sequence[Report], types: Mapping[str, str]) -> bytes:
    """Rows as an Arrow IPC stream with every column of `types`, even without rows."""
    out = io.BytesIO()
    with StreamWriter.from_writable(out) as writer:
        writer.write_stream(ArrowColumns(columns_of(rows, types, whole=True), types))
    return out.getvalue()
