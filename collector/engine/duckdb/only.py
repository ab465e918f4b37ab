"""What the questions of one project see: a database of views with the names of the store's tables, each with the
project's rows alone. Names that have no view are not found: no statement reads what it must not.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb

from collector.columns import TABLES
from collector.engine.duckdb.open import DATABASE

OF_EVENTS = "event_id in (select event_id from {database}.main.events where project = {project})"
OF_LABELS = "labels->>'project' = {project}"
# Tables without a column of that name, and what a project sees of them.
OTHERS = {
    "group_marks": "true",  # of a group that is only of one project (classify/template/fingerprint.py)
    "stale_hours": "true",
    "stale_chains": "true",
    "requests": "false",
    "redirects": OF_EVENTS,
    "twins": OF_EVENTS,
    "alerts": OF_LABELS,
    "alert_history": OF_LABELS,
    "alert_samples": OF_LABELS,
    "alert_silences": OF_LABELS,
}
OWNED = tuple(name for name, columns in TABLES.items() if "project" in columns)


def confine(cursor: duckdb.DuckDBPyConnection, project: str) -> None:
    """Makes this cursor see one project's rows."""
    database = f"only_{project.encode().hex()}"
    if not cursor.execute("select 1 from duckdb_databases() where database_name = ?", [database]).fetchone():
        cursor.execute(f"attach if not exists ':memory:' as {database}")
        for name, rows in _views(project):
            cursor.execute(f'create or replace view {database}.main."{name}" as {rows}')
    cursor.execute(f"use {database}")


def _views(project: str) -> Iterator[tuple[str, str]]:
    quoted = "'" + project.replace("'", "''") + "'"
    conditions = {**dict.fromkeys(OWNED, "project = {project}"), **OTHERS}
    for name, condition in conditions.items():
        seen = condition.format(database=DATABASE, project=quoted)
        yield name, f"select * from {DATABASE}.main.{name} where {seen}"
