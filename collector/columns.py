"""The columns of reports and events, and of the tables beside them: names and types from the DDL in `schemas/`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from collector.tables import schemas

Row = dict[str, Any]  # of any table: column → value


def tables_of(ddl: str) -> dict[str, dict[str, str]]:
    """Table name → column name → type, of the `create table` statements in `ddl` (one column a line)."""
    found: dict[str, dict[str, str]] = {}
    for name, columns in re.findall(r"^create table if not exists (\w+) \(\n(.*?)^\);", ddl, re.MULTILINE | re.DOTALL):
        found[name] = dict(re.findall(r"^ {2}(?!primary key)(\w+) +(\w+)", columns, re.MULTILINE))
    return found


EVENTS_DDL = schemas().joinpath("events.sql").read_text(encoding="utf-8")
ALERTS_DDL = schemas().joinpath("alerts.sql").read_text(encoding="utf-8")
INGEST_DDL = schemas().joinpath("ingest.sql").read_text(encoding="utf-8")
PEOPLE_DDL = schemas().joinpath("people.sql").read_text(encoding="utf-8")
KEPT_DDL = schemas().joinpath("kept.sql").read_text(encoding="utf-8")
TABLES = tables_of(EVENTS_DDL + INGEST_DDL + KEPT_DDL + PEOPLE_DDL)

# Columns that the store adds when a report becomes an event, and that are internal.
INTERNAL = frozenset(("report_rank", "outcome_strength", "target_guessed"))
EVENT_COLUMNS = frozenset(TABLES["events"])  # without MISSTEP_DIMENSIONS
COLUMNS = {name: kind for name, kind in TABLES["events"].items() if name not in INTERNAL}


def add_dimensions(names: Iterable[str]) -> None:
    """Adds columns for MISSTEP_DIMENSIONS, in this process. To be called before anything is read or stored."""
    for name in names:
        COLUMNS[name] = TABLES["events"][name] = "varchar"


INTEGERS = frozenset(name for name, kind in COLUMNS.items() if kind in ("bigint", "ubigint", "integer"))
TEXTS = frozenset(name for name, kind in COLUMNS.items() if kind == "varchar")
