"""The report: its type has the columns of `events`, and the table of its private keys says what the code does."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import get_type_hints

from collector.columns import INTERNAL, TABLES
from collector.recognise.source_tables import load_sources
from collector.report import PRIVATE, STRENGTHS, Rank, Report, Strength
from collector.tables import schemas

COLLECTOR = Path(__file__).parents[1] / "collector"
TYPES = {"varchar": "str", "json": "Any", "boolean": "bool", "double": "float"}  # the others are integers
HINTS = {name: getattr(kind, "__name__", str(kind)) for name, kind in get_type_hints(Report).items()}


def test_a_report_has_the_columns_of_events() -> None:
    columns = {name: kind.removesuffix(" | None") for name, kind in HINTS.items() if name[0] != "_"}
    assert columns == {name: TYPES.get(kind, "int") for name, kind in TABLES["events"].items()}


def test_the_table_has_every_private_key() -> None:
    assert {name for name in HINTS if name[0] == "_"} == PRIVATE.keys()
    assert all(key.column in INTERNAL for key in PRIVATE.values() if key.column)


def uses(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """Every private key that the code names, and whether it sets, or removes, the key there."""
    sets = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            sets.add(id(node.slice))
        elif isinstance(node, ast.Dict):
            sets.update(map(id, node.keys))
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("setdefault", "pop"):
            sets.update(map(id, node.args[:1]))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in PRIVATE:
            yield node.value, id(node) in sets


def test_private_keys_are_set_and_read_where_the_table_says() -> None:
    found: defaultdict[tuple[str, bool], set[str]] = defaultdict(set)
    for path in COLLECTOR.rglob("*.py"):
        if path.name != "report.py":
            module = path.relative_to(COLLECTOR).with_suffix("").as_posix()
            for name, is_set in uses(ast.parse(path.read_text(encoding="utf-8"))):
                found[name, is_set].add(module)
    for name, key in PRIVATE.items():
        assert (name, key.set_by) == (name, tuple(sorted(found[name, True])))
        assert (name, key.read_by) == (name, tuple(sorted(found[name, False])))


def test_what_is_not_stored_is_only_read_before_a_report_is_stored() -> None:
    for key in PRIVATE.values():
        correlated = any(module.startswith("correlate/") for module in key.read_by)
        assert correlated == key.stored, key.meaning


def test_rows_of_tables_rank_above_what_a_model_is_told() -> None:
    rows = [row for source in load_sources(schemas() / "sources").sources for row in source.rows]
    ranks = [row.rank for row in rows if row.rank is not None]
    assert ranks
    assert all(rank == 0 or Rank.FRESH < rank < Rank.LOG for rank in ranks)
    assert Rank.ASKED < Rank.REPEATED < Rank.CLIENT < Rank.FRESH < Rank.SPAN < Rank.LOG


def test_what_a_text_seems_to_say_never_wins_over_the_calls_own_report() -> None:
    assert max(Strength.RESULT_OK, Strength.RESULT_MAYBE) < Strength.OK_DEFAULT < Strength.UNSURE < Strength.OK
    assert sorted(STRENGTHS, key=STRENGTHS.__getitem__) == ["unknown", "ok", "error", "cancelled", "denied"]
