"""The tables of a store and their version belong together."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import duckdb
import pytest

from collector import columns
from collector.engine.duckdb.copy import copy_closed
from collector.engine.duckdb.schema import SCHEMA_VERSION
from collector.engine.duckdb.store import Store
from collector.errors import StoreError

TABLES_OF = {2: "b4bf6213bc5e02b0"}


def test_tables_that_change_need_a_version() -> None:
    """Else a store of yesterday is opened, and lacks a column. Comments and white space may change."""
    ddl = (text for name, text in sorted(vars(columns).items()) if name.endswith("_DDL"))
    bare = " ".join(re.sub(r"--.*", "", " ".join(ddl)).split())
    assert {SCHEMA_VERSION: hashlib.sha256(bare.encode()).hexdigest()[:16]} == TABLES_OF


@pytest.mark.parametrize("version", ["0", "1", "23", "x", ""])
def test_a_store_of_another_version_is_refused_in_one_line_and_stays_as_it_is(tmp_path: Path, version: str) -> None:
    path = tmp_path / "m.duckdb"
    Store.open(f"duckdb:///{path}").close()
    with duckdb.connect(path) as engine:
        engine.execute("update meta set value = ? where name = 'schema_version'", [version])
    before = path.read_bytes()
    said = (
        f"{path} has the tables of another version of Misstep (schema {version}, this one reads {SCHEMA_VERSION} only)"
    )
    for refused in (Store.open, lambda url: copy_closed(url, tmp_path / "copy.duckdb", lambda *_: None)):
        with pytest.raises(StoreError, match=re.escape(said)) as error:
            refused(f"duckdb:///{path}")
        assert "\n" not in str(error.value)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_a_store_that_is_opened_again_has_the_same_tables(tmp_path: Path) -> None:
    made = "select sql from duckdb_tables() where not internal order by sql"
    found = []
    for _ in range(2):
        store = Store.open(f"duckdb:///{tmp_path}/m.duckdb")
        found.append((store.rows(made), store.rows("from meta order by all")))
        store.close()
    assert found[0] == found[1]
