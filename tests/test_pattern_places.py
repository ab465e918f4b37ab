"""Every pattern is known before a text is read: no request makes one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
MODULES = sorted(path for package in ("collector", "dashboard") for path in (ROOT / package).rglob("*.py"))
NAMES = ("compile", "search", "match", "fullmatch", "findall", "finditer", "split", "sub", "subn")
CALLS = {f"re.{name}" for name in NAMES}

# Functions that make a pattern, and of what. Those of tables are read, and refused, before the first request.
MADE = {
    "collector/classify/template/strip.py:_patterns",
    "collector/classify/template/extract.py:substitution",  # of schemas/
    "collector/cluster/tables.py:_spread",  # of names of ours, as the next two
    "collector/cluster/tables.py:columns_of",
    "collector/connect/shell.py:_block",
    "collector/decode/record.py:__init__",  # of names of tables
    "collector/query/queries.py:read_token",  # one of two
    "collector/recognise/source_checks.py:_pattern_mistake",  # only compiled
    "collector/recognise/readers.py:_glob",
    "collector/recognise/readers.py:_placeholders",
    "collector/recognise/readers.py:any_named",
    "collector/recognise/readers.py:reader",
    "collector/recognise/readings.py:_at_start",
    "collector/recognise/readings.py:_rules",
    "collector/recognise/readings.py:patterns",
    "collector/recognise/source_tables.py:_name_pattern",
    "collector/sanitise/csv.py:__init__",  # of signs of ours
    "collector/sanitise/find.py:__init__",
    "collector/sanitise/keyed.py:_pattern",
    "collector/sanitise/keys.py:__init__",
    "collector/sanitise/plausible.py:_pattern",
    "collector/sanitise/redactions.py:_pattern_mistakes",  # only tried on nothing
    "collector/transcripts/tables.py:_agent",
    "collector/transcripts/tables.py:_store",
    "collector/times.py:length_ns",  # of a constant
    "dashboard/data/taxonomy.py:message_row",  # of escaped words
}


def calls(path: Path) -> Iterator[tuple[ast.Call, str]]:
    """Every call that takes a pattern, and the function it is in."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {
        each: function.name
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for each in ast.walk(function)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.module != "re", f"{path}: patterns are looked for where `re.` is written"
        if isinstance(node, ast.Call) and ast.unparse(node.func) in CALLS:
            yield node, inside.get(node, "")


def test_every_pattern_is_known_before_a_text_is_read() -> None:
    """Others than those that are listed are literal, or made while their module is loaded."""
    made = {
        f"{path.relative_to(ROOT)}:{function}"
        for path in MODULES
        for call, function in calls(path)
        if function and not isinstance(call.args[0], ast.Constant)
    }
    assert made == MADE
