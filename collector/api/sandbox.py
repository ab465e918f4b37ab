"""Runs users' SQL in a process that has nothing but a copy of the selected events.

Run as `python -m collector.api.sandbox`: no environment, no writable files, memory and CPU time limited by the
system, and a database in memory without access to files, the network or its own settings. So SQL needs no allow-list:
the process has nothing to steal, change or exhaust but itself.

Standard input: a `Task` as one JSON line, then, after the answer's first line, the events as an Arrow stream.
Standard output: a `Needs` as one JSON line, then an `Outcome` as one, then the rows as JSON or as an Arrow stream.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, BinaryIO

import duckdb
import msgspec
from nanoarrow.c_array import CArray
from nanoarrow.c_array_stream import CArrayStream, c_array_stream
from nanoarrow.c_schema import CSchema
from nanoarrow.ipc import InputStream, StreamWriter

MEMORY = "384MB"
ADDRESS_SPACE = 2 << 30
EXACT = 2**53  # whole numbers beyond become text: JavaScript would round them
ENUM = re.compile(r"ENUM\((?:'(?:[^']|'')*'(?:, )?)*\)")
# In the tree of a statement: what stands for all columns, counts them, or runs a statement that is a text in this one.
WHOLE = {"star", "show_ref", "natural", "positional_reference", "query", "query_table", "json_execute_serialized_sql"}
LOCKED = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "temp_directory": "",
    "memory_limit": MEMORY,
    "threads": "1",
}


class Task(msgspec.Struct):
    """The query: one SELECT over `events`, which has these `columns`."""

    sql: str
    columns: list[str]
    limit: int
    arrow: bool
    seconds: int


class Needs(msgspec.Struct):
    """The columns that the statement may read, or why it cannot be answered."""

    columns: list[str]
    error: str = ""


class Outcome(msgspec.Struct):
    """Whether there are more rows than the limit, or why there are none."""

    columns: list[str]
    truncated: bool = False
    error: str = ""


def needed(connection: duckdb.DuckDBPyConnection, sql: str, columns: Sequence[str]) -> Needs:
    """The `columns` that `sql` names anywhere; all if it asks for whole rows. Only a SELECT is allowed."""
    [[tree]] = connection.execute("select json_serialize_sql(?::varchar)", [sql]).fetchall()
    parsed: Any = msgspec.json.decode(tree)
    if parsed["error"]:
        said = parsed.get("error_message", "")
        only = "only one SELECT is answered here: nothing can be written, set, attached, copied or loaded"
        return Needs([], only if parsed.get("error_type") == "not implemented" else said)
    if (given := len(parsed["statements"])) != 1:
        return Needs([], f"write one SELECT: this has {given or 'no'} statements")
    nodes = [*_nodes(parsed["statements"])]
    words = {node.lower() for node in nodes if isinstance(node, str)}
    if WHOLE & words or _names_a_table([node for node in nodes if isinstance(node, dict)]):
        return Needs(list(columns))
    return Needs([name for name in columns if name.lower() in words] or [columns[0]])


def _names_a_table(maps: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a table is asked for as one value, or its columns have other names."""
    tables: set[str] = set()
    alone: set[str] = set()
    for node in maps:
        if node.get("column_name_alias"):
            return True
        if node.get("type") == "BASE_TABLE":
            tables.add((node.get("alias") or node["table_name"]).lower())
        match node.get("column_names"):
            case [name]:
                alone.add(name.lower())
    return bool(tables & alone)


def _nodes(node: Any) -> Iterable[Any]:
    """Everything in a tree of JSON."""
    yield node
    if isinstance(node, dict):
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            yield from _nodes(child)


def answer(task: Task, source: BinaryIO, out: BinaryIO) -> None:
    """Writes what it needs, reads the events, and writes the outcome and the rows."""
    connection = duckdb.connect(":memory:", config=dict(LOCKED))
    needs = needed(connection, task.sql, task.columns)
    _line(out, needs)
    if needs.error:
        return
    try:
        _load(connection, source)
        connection.execute("set lock_configuration = true").fetchall()
        if task.arrow:
            _arrow(connection, task, out)
        else:
            _json(connection, task, out)
    except (duckdb.Error, MemoryError) as error:
        said = str(error)
        if isinstance(error, duckdb.OutOfMemoryException | MemoryError) or "could not allocate" in said:
            said = f"this needs more than {MEMORY}: narrow the range, add filters, or name fewer columns"
        elif "pytz" in said:  # DuckDB's Python binding, in many lines
            said = "times with a zone inside of lists, maps and structs cannot be shown: cast them to text"
        _line(out, Outcome([], error=said))


class Batches:
    """Arrow record batches that can be read more than once: DuckDB asks for the schema, then for the data."""

    def __init__(self, schema: CSchema, batches: list[CArray]) -> None:
        self._schema, self._batches = schema, batches

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return CArrayStream.from_c_arrays(self._batches, self._schema, move=False).__arrow_c_stream__()


def _load(connection: duckdb.DuckDBPyConnection, source: BinaryIO) -> None:
    """The stream as the table `events`, batch by batch."""
    stream = c_array_stream(InputStream.from_readable(source))
    schema = stream.get_schema()
    connection.execute("set TimeZone = 'UTC'").fetchall()  # else the machine's, and now() is hours from the events
    connection.register("incoming", Batches(schema, []))
    columns = ", ".join(_without_zones(connection.sql("from incoming")))  # which times of a cluster have
    connection.execute(f"create table events as select {columns} from incoming").fetchall()
    for batch in stream:
        connection.register("incoming", Batches(schema, [batch]))
        connection.execute(f"insert into events select {columns} from incoming").fetchall()
    connection.unregister("incoming")


def _without_zones(found: duckdb.DuckDBPyRelation) -> Iterable[str]:
    """Its columns as SQL, all times without a zone."""
    for name, kind in zip(found.columns, map(str, found.types), strict=True):
        yield f'"{name}"::timestamp as "{name}"' if kind == "TIMESTAMP WITH TIME ZONE" else f'"{name}"'


def _arrow(connection: duckdb.DuckDBPyConnection, task: Task, out: BinaryIO) -> None:
    found, body = connection.sql(task.sql).limit(task.limit), io.BytesIO()
    with StreamWriter.from_writable(body) as writer:
        writer.write_stream(found.project(", ".join(_without_enums(found))))
    _line(out, Outcome(list(found.columns)))
    out.write(body.getvalue())


def _without_enums(found: duckdb.DuckDBPyRelation) -> Iterable[str]:
    """Its columns as SQL, enums as text, also within lists and structs: the writer knows no dictionaries."""
    for place, (name, kind) in enumerate(zip(found.columns, map(str, found.types), strict=True), 1):
        plain, quoted = ENUM.sub("VARCHAR", kind), name.replace('"', '""')
        yield f'#{place}::{plain} as "{quoted}"' if plain != kind else f"#{place}"


def _json(connection: duckdb.DuckDBPyConnection, task: Task, out: BinaryIO) -> None:
    found = connection.sql(task.sql).limit(task.limit + 1)  # the rest is never asked for
    kinds = [str(kind) for kind in found.types]
    names, shapes = list(found.columns), [_shape(kind) for kind in kinds]
    rows = found.project(", ".join(f"{_written(place, kind)} as c{place}" for place, kind in enumerate(kinds, 1)))
    shown = [[shape(value) for shape, value in zip(shapes, row, strict=True)] for row in rows.fetchall()]
    body = msgspec.json.Encoder(enc_hook=str).encode(
        [dict(zip(names, row, strict=True)) for row in shown[: task.limit]]
    )
    _line(out, Outcome(names, truncated=len(shown) > task.limit))
    out.write(body)


def _written(place: int, kind: str) -> str:
    """A column as SQL, times in RFC 3339: those without a zone are in UTC here, and Python would want a library for
    those with one.
    """
    if not kind.startswith("TIMESTAMP") or "[" in kind:
        return f"#{place}"
    time = f"make_timestamp(epoch_us(#{place}))" if kind.endswith("ZONE") else f"#{place}"
    return f"replace({time}::varchar, ' ', 'T') || 'Z'"


def _shape(kind: str) -> Callable[[Any], Any]:
    """How values of this type are written: ids are text, as everywhere in the API."""
    return (lambda value: None if value is None else str(value)) if kind == "UBIGINT" else _shown


def _shown(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > EXACT:
        return str(value)
    if isinstance(value, list):
        return [_shown(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _shown(each) for key, each in value.items()}
    return value


def _line(out: BinaryIO, message: msgspec.Struct) -> None:
    out.write(msgspec.json.encode(message) + b"\n")
    out.flush()


def confine(seconds: int) -> None:
    """Limits what this process may use, where the system supports that."""
    with suppress(ImportError):
        import resource

        for what, most in (
            (resource.RLIMIT_AS, ADDRESS_SPACE),
            (resource.RLIMIT_CPU, seconds + 1),
            (resource.RLIMIT_FSIZE, 0),
            (resource.RLIMIT_CORE, 0),
        ):
            resource.setrlimit(what, (most, most))


def main() -> None:
    """Answers one task and ends."""
    source, out = sys.stdin.buffer, sys.stdout.buffer
    task = msgspec.json.decode(source.readline(), type=Task)
    confine(task.seconds)
    answer(task, source, out)
    out.flush()


if __name__ == "__main__":
    main()
