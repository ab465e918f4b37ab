"""Which packages may know which: imports only go down this list."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

# From the bottom up; those of one line do not know each other. Other modules of `collector/` put the packages together.
LAYERS = (
    ("visible",),
    (
        "alike",
        "errors",
        "files",
        "intervals",
        "loop",
        "patterns",
        "plural",
        "projects",
        "recent",
        "seldom",
        "table_checks",
        "tables",
        "telemetry",
        "times",
        "trace_links",
        "zstd",
    ),
    ("setting_values",),
    ("columns", "settings", "streak_rules", "switches"),
    ("access",),
    ("report",),
    ("batch",),
    ("decode",),
    ("classify", "lessons", "mcp", "recognise", "sanitise"),
    ("scrub",),
    ("pipeline", "transcripts"),
    ("correlate",),
    ("engine",),
    ("cluster",),
    ("journal",),
    ("query",),
    ("measures",),
    ("alerts", "gate"),
    ("api",),
    ("forward",),
    ("receive",),
)
HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}
ROOT = Path(__file__).parents[1] / "collector"
# The engine, and the servers: no other package or module imports them.
ONLY = {
    "chdb": (),
    "duckdb": ("engine/duckdb/", "api/sandbox.py", "transcripts/exports.py"),
    "grpc": ("receive/",),
    "granian": ("receive/",),
    "mcp": ("mcp/",),
    "mcp_types": ("mcp/",),
    "streamlit": (),
}


@cache
def imports(path: Path) -> Sequence[tuple[int, str]]:
    """Every module that a file imports, with the line."""
    return list(_imports(path))


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "collector":
            yield from ((node.lineno, f"collector.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module


def package(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").parts[0]


FILES = [path for path in ROOT.rglob("*.py") if package(path) in HEIGHT]


@pytest.mark.parametrize("name", HEIGHT)
def test_imports_only_go_down(name: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} imports {module}"
        for path in FILES
        if package(path) == name
        for line, module in imports(path)
        if module.startswith("collector.")
        and (below := module.split(".")[1]) != name
        and HEIGHT.get(below, len(LAYERS)) >= HEIGHT[name]
    ]
    assert not found, "\n".join(found)
    assert any(package(path) == name for path in FILES)


@pytest.mark.parametrize(("library", "allowed"), ONLY.items())
def test_only_some_packages_know_the_engine_and_the_servers(library: str, allowed: tuple[str, ...]) -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for path in FILES
        for _, module in imports(path)
        if module.split(".")[0] == library
    }
    assert [path for path in sorted(found) if not path.startswith(allowed)] == []
