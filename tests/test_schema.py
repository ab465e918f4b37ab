"""The tables of a store and their version belong together."""

from __future__ import annotations

import hashlib
import re

from collector import columns
from collector.engine.duckdb.schema import MIGRATIONS, SCHEMA_VERSION
from collector.engine.duckdb.store import Store

TABLES_OF = {22: "acb7e9eb399525b7"}


def test_tables_that_change_need_a_version_and_a_step() -> None:
    """Else a store of yesterday lacks a column. Comments and white space may change."""
    ddl = (text for name, text in sorted(vars(columns).items()) if name.endswith("_DDL"))
    bare = " ".join(re.sub(r"--.*", "", " ".join(ddl)).split())
    assert {SCHEMA_VERSION: hashlib.sha256(bare.encode()).hexdigest()[:16]} == TABLES_OF
    assert len(MIGRATIONS) == SCHEMA_VERSION


def test_a_new_store_has_the_tables_that_every_step_leads_to(store: Store) -> None:
    made = "select sql from duckdb_tables() where not internal union select sql from duckdb_indexes() order by sql"
    with store.transaction() as cursor:
        new = cursor.execute(made).fetchall()
        for step in MIGRATIONS[1:]:
            step(cursor)
        assert cursor.execute(made).fetchall() == new
