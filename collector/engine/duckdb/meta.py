"""Small values of a store by name, which outlast a restart."""

from __future__ import annotations

import uuid

from collector.engine.duckdb.store import Store
from collector.projects import only

NAME = "collector"


class Meta:
    """The table `meta`, which is of no project. Any thread may call it, also for a request of one project."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def value(self, name: str) -> str:
        """The value; empty if there is none."""
        with only(None):
            rows = self._store.rows("select value from meta where name = $name", {"name": name})
        return rows[0]["value"] if rows else ""

    def put(self, name: str, value: str) -> None:
        """Sets it."""
        self._store.execute_all(
            (
                ("delete from meta where name = $name", {"name": name}),
                ("insert into meta values ($name, $value)", {"name": name, "value": value}),
            )
        )

    def collector(self) -> str:
        """The name of this store among those that publish to a cluster, made when it is first asked for."""
        if not (name := self.value(NAME)):
            self.put(NAME, name := uuid.uuid4().hex[:12])
        return name
