"""What the questions of one project see: a database of views with the names of the store's tables, each with the
project's rows alone. Names that have no view are not found: no statement reads what it must not.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

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
MOST = 100  # projects whose views are kept: a database of views takes 130 kB, and headers can name any project
OWNED = tuple(name for name, columns in TABLES.items() if "project" in columns)


class Confining:
    """The databases of views of one store. Beyond MOST, those that nobody uses go, the longest unused first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: dict[str, int] = {}  # how many use the views of each project, the last used at the end

    @contextmanager
    def to(self, project: str | None, cursor: duckdb.DuckDBPyConnection) -> Iterator[None]:
        """This cursor, which is to be closed after the block, sees one project's rows; None: all."""
        if not project:
            yield
            return
        with self._lock:
            self._drop_unused(cursor)
            _confine(cursor, project)
            self._users[project] = self._users.pop(project, 0) + 1
        try:
            yield
        finally:
            with self._lock:
                self._users[project] -= 1

    def _drop_unused(self, cursor: duckdb.DuckDBPyConnection) -> None:
        unused = [project for project, users in self._users.items() if not users]
        for project in unused[: max(0, len(self._users) - MOST)]:
            cursor.execute(f"detach database if exists {_database(project)}")
            del self._users[project]


def _confine(cursor: duckdb.DuckDBPyConnection, project: str) -> None:
    database = _database(project)
    if not cursor.execute("select 1 from duckdb_databases() where database_name = ?", [database]).fetchone():
        cursor.execute(f"attach if not exists ':memory:' as {database}")
        for name, rows in _views(project):
            cursor.execute(f'create or replace view {database}.main."{name}" as {rows}')
    cursor.execute(f"use {database}")


def _database(project: str) -> str:
    return f"only_{project.encode().hex()}"


def _views(project: str) -> Iterator[tuple[str, str]]:
    quoted = "'" + project.replace("'", "''") + "'"
    conditions = {**dict.fromkeys(OWNED, "project = {project}"), **OTHERS}
    for name, condition in conditions.items():
        seen = condition.format(database=DATABASE, project=quoted)
        yield name, f"select * from {DATABASE}.main.{name} where {seen}"
