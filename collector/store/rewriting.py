"""Rewriting: rows that are stored already, slice by slice or text by text. What they held is in the file until
`Store.rewrite_file`, which is owed from then on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from collector.store import archive
from collector.store.batch import Report
from collector.store.kept import KEPT
from collector.store.store import Store, owe
from collector.store.writing import earliest, insert


def slice_end(store: Store, table: str, after_ns: int, rows: int) -> int | None:
    """Up to when the next `rows` rows were received after `after_ns`; None where there are none."""
    found = store.rows(
        f"select max(received_ns) as n from"
        f" (select received_ns from {table} where received_ns > $after order by received_ns limit $rows)",
        {"after": after_ns, "rows": rows},
        archived=False,
    )
    end: int | None = found[0]["n"]
    return end


def slice_rows(store: Store, table: str, after_ns: int, until_ns: int) -> list[Report]:
    """The rows received after one time, up to the other."""
    between = {"after": after_ns, "until": until_ns}
    taken = f"select * from {table} where received_ns > $after and received_ns <= $until"
    return store.rows(taken, between, archived=False)


def rewrite(store: Store, table: str, ids: Sequence[int], rows: Sequence[Report], after_ns: int, until_ns: int) -> None:
    """Puts `rows` in the place of those that these events have between the two times; durable when it returns.

    What they held is still in the file until `rewrite_file`, which is owed from now on.
    """
    with store.transaction() as cursor:
        owe(cursor)
        cursor.execute(
            f"delete from {table} where event_id in (select unnest($ids::ubigint[]))"
            " and received_ns > $after and received_ns <= $until",
            {"ids": list(ids), "after": after_ns, "until": until_ns},
        )
        insert(cursor, table, rows)
        if table == "events":
            told = ((row.get("service"), row.get("session"), row["time_ns"]) for row in rows)
            insert(cursor, "changed", earliest(told))


def text_columns(store: Store) -> list[tuple[str, str]]:
    """Tables with their columns of text, but for `events`, `reports`, what names files, and what is computed anew
    from the events (`Store.rewrite_file`).
    """
    found = store.rows(
        "select table_name, column_name from duckdb_columns()"
        " where not internal and data_type in ('VARCHAR', 'JSON')"
        " and schema_name = 'main' and database_name = current_database()"
        " and table_name in (select table_name from duckdb_tables())"
        " and not list_contains($others, table_name) order by all",
        {"others": ["events", "reports", "meta", "archived", "changed", *KEPT]},
    )
    return [(row["table_name"], row["column_name"]) for row in found]


def distinct(store: Store, table: str, column: str) -> list[str]:
    """The texts in a column."""
    found = store.rows(f"select distinct {column}::varchar as text from {table} where {column} is not null")
    return [row["text"] for row in found]


def replace_text(store: Store, table: str, column: str, old: str, new: str) -> None:
    """Writes `new` for `old`; where a row of that name is there already, the old one goes."""
    with store.transaction() as cursor:
        owe(cursor)
        keyed = cursor.execute(
            "select 1 from duckdb_constraints() where table_name = $table and constraint_type in"
            " ('PRIMARY KEY', 'UNIQUE')",
            {"table": table},
        ).fetchone()
        # Not an update: a key is free again only after the commit, and rows of both names may be there.
        cursor.execute(
            f"{'insert or ignore' if keyed else 'insert'} into {table} by name"
            f" from (select * replace ($new as {column}) from {table} where {column}::varchar = $old)",
            {"old": old, "new": new},
        )
        cursor.execute(f"delete from {table} where {column}::varchar = $old", {"old": old})


def archived_files(store: Store) -> list[str]:
    """The Parquet files of the store."""
    return [row["file"] for row in store.rows("select file from archived order by file")]


def archived_slices(store: Store, file: str) -> Iterator[list[Report]]:
    """The events of a file; between two slices others may write."""
    with store.transaction() as cursor:
        archive.begin_anew(cursor)
    yield from archive.slices(store, file)


def set_aside(store: Store, rows: Sequence[Report]) -> None:
    """Keeps events that are to take the places of those with their ids in the file that is being gone over."""
    with store.transaction() as cursor:
        insert(cursor, "anew", rows, like="events")


def rewrite_archived(store: Store, file: str) -> None:
    """Writes a file anew with what was set aside, and removes the old one."""
    with store.transaction() as cursor:
        owe(cursor)
        archive.put_in_place(cursor, file)
    store.see_archived()
