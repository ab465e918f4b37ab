"""A query as SQL, with its order and limit; run as rows for JSON or as an Arrow stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Protocol

import msgspec

from collector.engine import Reads
from collector.engine.duckdb.arrow import arrow_stream
from collector.intervals import Z
from collector.query.filters import BY_NAME, BadParameter, Selection
from collector.times import rfc3339

Row = dict[str, Any]
ROWS = "$most_rows"  # the limit, as SQL
IDS = ("event_id", "fingerprint", "params_hash", "first_event_id", "last_event_id", "newest_event_id")
JSON_COLUMNS = ("params", "attributes", "gates", "examples", "effect")


@dataclass(frozen=True, slots=True)
class Statement:
    """The columns of `sql` are those of the answer; `times` are those that hold nanoseconds since 1970.

    `of_kept`: it reads derived tables, which may be up to a second behind the events. `of_clock`: it tells what depends
    on how long a session has been silent.

    A limit is put around `sql` unless it is `limited` by itself, to `ROWS`. To apply a limit, the engine holds several
    times as many rows, and so many complete events do not fit into memory.

    `at_once` is the same as `sql` where an engine computes what WITH names for each mention of it.
    """

    sql: str
    params: Mapping[str, object]
    order: str
    limit: int
    times: tuple[str, ...] = ()
    of_kept: bool = False
    of_clock: bool = False
    limited: bool = False
    at_once: str = ""

    def rows(self, store: Reads, timeout_s: float = 30) -> list[dict[str, Any]]:
        """Up to `limit` + 1 rows: the additional one shows that there are more."""
        params = {**self.params, "most_rows": self.limit + 1}
        return store.rows(self._ordered(store), params, timeout_s=timeout_s)

    def arrow(self, store: Reads, timeout_s: float = 30) -> bytes:
        """Up to `limit` rows as an Arrow IPC stream, times as timestamps with nanoseconds in UTC."""
        stamps = ", ".join(f"make_timestamp_ns({name})::timestamptz_ns as {name}" for name in self.times)
        shape = f"* replace ({stamps})" if stamps else "*"
        params = {**self.params, "most_rows": self.limit}
        return store.arrow(f"select {shape} from ({self._ordered(store)})", params, timeout_s=timeout_s)

    def _ordered(self, store: Reads) -> str:
        limit = "" if self.limited else f" limit {ROWS}"
        sql = self.sql if store.materializes else self.at_once or self.sql
        return f"select * from ({sql}) order by {self.order}{limit}"


class Answer(Protocol):
    """What an address answers with: a `Statement`, or rows `Derived` from several."""

    @property
    def limit(self) -> int: ...

    @property
    def times(self) -> tuple[str, ...]: ...

    @property
    def of_kept(self) -> bool: ...

    @property
    def of_clock(self) -> bool: ...

    def rows(self, store: Reads, timeout_s: float = 30) -> list[Row]: ...

    def arrow(self, store: Reads, timeout_s: float = 30) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Derived:
    """Rows that `work` computes from all rows of the statements in `asked`: few rows, hard arithmetic.

    `types` are the columns of the answer, none of them a time. The rows keep the order of `work` unless `sort` names
    columns.
    """

    asked: tuple[Statement, ...]
    work: Callable[..., list[Row]]
    types: Mapping[str, str]
    sort: Sequence[str]
    limit: int
    times: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        order_by(self.sort, self.types)

    @property
    def of_kept(self) -> bool:
        """Whether any of the statements reads derived tables."""
        return any(one.of_kept for one in self.asked)

    @property
    def of_clock(self) -> bool:
        """Whether any of the statements depends on how long a session has been silent."""
        return any(one.of_clock for one in self.asked)

    def rows(self, store: Reads, timeout_s: float = 30) -> list[Row]:
        """Up to `limit` + 1 rows: the additional one shows that there are more."""
        found = self.work(*(one.rows(store, timeout_s) for one in self.asked))
        return arranged(found, self.sort)[: self.limit + 1]

    def arrow(self, store: Reads, timeout_s: float = 30) -> bytes:
        """Up to `limit` rows as an Arrow IPC stream."""
        return arrow_stream(self.rows(store, timeout_s)[: self.limit], self.types)


def arranged(rows: Sequence[Row], sort: Sequence[str]) -> list[Row]:
    """The rows sorted by columns, `-` for descending, those without a value last."""
    found = list(rows)
    for word in reversed(sort):
        name = word.removeprefix("-")
        known = sorted(
            (row for row in found if row[name] is not None), key=lambda row: row[name], reverse=word[0] == "-"
        )
        found = known + [row for row in found if row[name] is None]
    return found


def presented(row: Row, times: Sequence[str], *more_ids: str) -> Row:
    """A row as JSON says it: these times in RFC 3339, 64-bit ids as text, JSON columns as what they hold."""
    shown = dict(row)
    for name in times:
        shown[name] = None if row[name] is None else rfc3339(row[name])
    for name in (*IDS, *more_ids):
        if shown.get(name) is not None:
            shown[name] = str(shown[name])
    for name in JSON_COLUMNS:
        if shown.get(name) is not None:
            shown[name] = _parsed(shown[name])
    return shown


def _parsed(text: str) -> Any:
    """The value of a JSON column; text that was cut to its limit may not be JSON and stays text."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def types_of(dimensions: Iterable[str]) -> dict[str, str]:
    """The columns of the answer for these dimensions, with their types in `schemas/`."""
    kinds = {"flag": "boolean", "integer": "bigint", "id": "ubigint"}
    return {name: kinds.get(BY_NAME[name].type, "varchar") for name in dimensions}


@cache
def load(name: str) -> str:
    """The text of `sql/<name>.sql`; `{word}` in it is a placeholder for more SQL."""
    return resources.files("collector.query").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")


def order_by(sort: Sequence[str], columns: Iterable[str], ties: Iterable[str] = ()) -> str:
    """`-errors,tool` as ORDER BY, completed by `ties` so that the order is total. Raises BadParameter."""
    allowed = tuple(columns)
    for word in sort:
        if word.removeprefix("-") not in allowed:
            message = f"the answer has no column {word!r} to sort by (- is for descending); it has {', '.join(allowed)}"
            raise BadParameter("sort", word, message, allowed)
    listed = [f'"{word.removeprefix("-")}" {"desc" if word.startswith("-") else "asc"} nulls last' for word in sort]
    named = {word.removeprefix("-") for word in sort}
    return ", ".join(listed + [f'"{tie}" nulls last' for tie in ties if tie not in named]) or "1"


PREVIOUS = "previous_"


def rates(
    selection: Selection,
    written: Callable[[Selection], str],
    keys: Sequence[str],
    columns: Sequence[str],
    empty: Mapping[str, str],
    *,
    previous: bool,
    sort: Sequence[str],
    limit: int,
    of_clock: bool = True,
) -> Statement:
    """A statement over derived tables with the `columns` of the SQL `written` for each of `keys`, in their order.

    With `previous`, each column is added as `previous_…`, of the period of equal length before. Keys that only one
    period has get a row too: the columns of the other period are the SQL in `empty`, or null.
    """
    sql = written(selection)
    if not previous:
        order = order_by(sort, (*keys, *columns), keys)
        return Statement(sql, selection.params(), order, limit, of_kept=True, of_clock=of_clock)
    sides = {"": "present", PREVIOUS: "past"}
    listed = [f'coalesce(present."{key}", past."{key}") as "{key}"' for key in keys]
    listed += [
        f'coalesce({side}."{name}", {empty.get(name, "null")}) as "{prefix}{name}"'
        for prefix, side in sides.items()
        for name in columns
    ]
    same = ["present.one = past.one", *(f'present."{key}" is not distinct from past."{key}"' for key in keys)]
    # Without a name for each side, DuckDB would look for its columns in the other side of the join too.
    before = written(selection.before())
    both = f"""with present as (select *, 1 as one from ({sql})), past as (select *, 1 as one from ({before}))
      select {", ".join(listed)} from present full join past on {" and ".join(same)}"""
    named = (*keys, *(prefix + name for prefix in sides for name in columns))
    order = order_by(sort, named, keys)
    return Statement(both, selection.params(), order, limit, of_kept=True, of_clock=of_clock)


def share(part: str, whole: str) -> str:
    """part ÷ whole as SQL; null where `whole` is 0."""
    return f"{part} / nullif({whole}, 0)::double"


def wilson(part: str, whole: str) -> tuple[str, str]:
    """Lower and upper end of Wilson's 95 % interval of part ÷ whole, as SQL; null where `whole` is 0."""
    squared = f"{Z * Z}::double"
    middle = f"({part} + {squared} / 2)"
    half = f"sqrt({squared} * ({part} * ({whole} - {part}) / nullif({whole}, 0)::double + {squared} / 4))"
    low = f"greatest(0, ({middle} - {half}) / ({whole} + {squared}))"
    high = f"least(1, ({middle} + {half}) / ({whole} + {squared}))"
    return f"case when {whole} > 0 then {low} end", f"case when {whole} > 0 then {high} end"
