"""What the questions of one project see of the cluster, as engine/duckdb/only.py says it of the local store."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from collector.columns import TABLES

OF_GROUPS = ("group_marks",)  # of a group that is only of one project


def confine(tree: Any, project: str) -> None:
    """Makes a statement read one project's rows alone; of tables that do not say whose they are, none."""
    made = {each.alias for each in tree.find_all(exp.CTE)}
    for table in list(tree.find_all(exp.Table)):
        if table.db or table.name in made:
            continue
        rows = exp.select("*").from_(exp.to_table(table.name))
        if "project" in TABLES.get(table.name, ()):
            rows = rows.where(exp.column("project").eq(exp.Literal.string(project)))
        elif table.name not in OF_GROUPS:
            rows = rows.where(exp.false())
        table.replace(rows.subquery(table.alias or table.name))
