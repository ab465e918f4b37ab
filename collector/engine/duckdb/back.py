"""Takes rows back that retention had removed, as a cluster has them: nothing is noted, as the cluster lacks nothing."""

from __future__ import annotations

from nanoarrow import ArrayStream

from collector.engine.duckdb.store import Store

PLACES = {  # what tells rows of a table apart, each with its column in `unpublished`
    "events": {"event_id": "event_id", "time_ns": "time_ns"},
    "kept_streaks": {"scope": "scope", "kind": "kind", "first_event_id": "event_id", "started": "time_ns"},
    "kept_chains": {"event_id": "event_id", "time_ns": "time_ns"},
}


class _Stream:
    """An Arrow IPC stream that can be read repeatedly, as DuckDB does."""

    def __init__(self, told: bytes) -> None:
        self._told = told

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return ArrayStream.from_readable(self._told).__arrow_c_stream__()


class Back:
    """Rows of events, streaks and chains; for the writer's thread."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def columns(self, table: str) -> set[str]:
        """The columns of a table."""
        return {row["column_name"] for row in self._store.rows(f"describe {table}")}

    def bring_back(self, table: str, rows: bytes) -> None:
        """Adds the rows of an Arrow IPC stream whose places are neither taken nor noted: of these the cluster has what
        was before.
        """
        place = PLACES[table]
        there = " and ".join(f"there.{name} = incoming.{name}" for name in place)
        noted = " and ".join(f"noted.{column} = incoming.{name}" for name, column in place.items())
        with self._store.transaction() as cursor:
            incoming = _Stream(rows)  # noqa: F841 -- DuckDB finds it by its name
            cursor.execute(
                f"insert into {table} by name from incoming"
                f" where not exists (select 1 from {table} there where {there})"
                f" and not exists (select 1 from unpublished noted where noted.about = '{table}' and {noted})"
            )
