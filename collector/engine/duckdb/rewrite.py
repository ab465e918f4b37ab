"""Rewrites stored rows, slice by slice or text by text. The old contents stay in the file until `Store.rewrite_file`,
which is due from then on.
"""

from __future__ import annotations

from collections.abc import Sequence

from collector.columns import Row
from collector.correlate.changes import earliest, noted
from collector.engine.duckdb.copy import owe
from collector.engine.duckdb.derive import KEPT
from collector.engine.duckdb.notes import note_all, note_events
from collector.engine.duckdb.open import DATABASE
from collector.engine.duckdb.store import Store
from collector.engine.duckdb.write import insert
from collector.report import as_report


def slice_end(store: Store, table: str, after_ns: int, rows: int) -> int | None:
    """The receive time of the last of the next `rows` rows after `after_ns`; None if there are none."""
    found = store.rows(
        f"select max(received_ns) as n from"
        f" (select received_ns from {table} where received_ns > $after order by received_ns limit $rows)",
        {"after": after_ns, "rows": rows},
    )
    end: int | None = found[0]["n"]
    return end


def slice_rows(store: Store, table: str, after_ns: int, until_ns: int) -> list[Row]:
    """The rows received after `after_ns` and up to the other time."""
    between = {"after": after_ns, "until": until_ns}
    taken = f"select * from {table} where received_ns > $after and received_ns <= $until"
    return store.rows(taken, between)


def chosen_rows(store: Store, ids: Sequence[int], after_ns: int, until_ns: int) -> list[Row]:
    """The events with these ids that were received after `after_ns` and up to the other time."""
    chosen = "event_id in (select unnest($ids::ubigint[]))"
    taken = f"from events where received_ns > $after and received_ns <= $until and {chosen}"
    return store.rows(taken, {"after": after_ns, "until": until_ns, "ids": list(ids)})


def rewrite(store: Store, table: str, ids: Sequence[int], rows: Sequence[Row], after_ns: int, until_ns: int) -> None:
    """Replaces the rows of these events between the two times by `rows`; durable when it returns.

    The old contents stay in the file until `rewrite_file`, which is due from now on.
    """
    with store.transaction() as cursor:
        owe(cursor)
        here = "event_id in (select unnest($ids::ubigint[])) and received_ns > $after and received_ns <= $until"
        given = {"ids": list(ids), "after": after_ns, "until": until_ns}
        if store.publishing and table == "events":
            note_all(cursor, table, where=here, given=given)
            note_events(cursor, map(as_report, rows))
        cursor.execute(f"delete from {table} where {here}", given)
        insert(cursor, table, rows)
        if table == "events":
            insert(cursor, "changed", [row | {"added": None} for row in earliest(noted(map(as_report, rows)))])


def text_columns(store: Store) -> list[tuple[str, str]]:
    """Tables with their columns of text, but for `events`, `reports`, `meta`, what is computed anew from the events
    (`Store.rewrite_file`), and `unpublished`, whose places a cluster knows by their old names.
    """
    found = store.rows(
        "select table_name, column_name from duckdb_columns()"
        " where not internal and data_type in ('VARCHAR', 'JSON')"
        " and schema_name = 'main' and database_name = $database"
        " and table_name in (select table_name from duckdb_tables())"
        " and not list_contains($others, table_name) order by all",
        {"database": DATABASE, "others": ["events", "reports", "meta", "changed", "unpublished", *KEPT]},
    )
    return [(row["table_name"], row["column_name"]) for row in found]


def distinct(store: Store, table: str, column: str) -> list[str]:
    """The texts in a column."""
    found = store.rows(f"select distinct {column}::varchar as text from {table} where {column} is not null")
    return [row["text"] for row in found]


def replace_text(store: Store, table: str, column: str, old: str, new: str) -> None:
    """Replaces `old` by `new`; if a row with the new text exists already, the old one is removed."""
    with store.transaction() as cursor:
        owe(cursor)
        keyed = cursor.execute(
            "select 1 from duckdb_constraints() where table_name = $table and constraint_type in"
            " ('PRIMARY KEY', 'UNIQUE') and list_contains(constraint_column_names, $column)",
            {"table": table, "column": column},
        ).fetchone()
        if not keyed:
            cursor.execute(
                f"update {table} set {column} = $new where {column}::varchar = $old", {"old": old, "new": new}
            )
            return
        # Not an update: keys are only free after the commit, and rows with both texts may exist.
        cursor.execute(
            f"insert or ignore into {table} by name"
            f" from (select * replace ($new as {column}) from {table} where {column}::varchar = $old)",
            {"old": old, "new": new},
        )
        cursor.execute(f"delete from {table} where {column}::varchar = $old", {"old": old})
