"""Writes docs/modules.md, which git ignores: each module and its docstring's first sentence. `make modules` runs it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "modules.md"
INTRODUCTION = """\
# Modules

Made by `make modules` from the modules' docstrings. architecture.md says how an event passes through them.
"""


def page() -> str:
    """The text of docs/modules.md, as the tree has it now."""
    folders = sorted({path.parent for top in ("collector", "dashboard") for path in (ROOT / top).rglob("*.py")})
    return "\n".join((INTRODUCTION, *(_folder(folder) for folder in folders)))


def _folder(folder: Path) -> str:
    modules = [path for path in sorted(folder.glob("*.py")) if path.stem not in ("__init__", "__main__")]
    heading = f"## {folder.relative_to(ROOT).as_posix()}/\n"
    package = folder / "__init__.py"
    about = _sentence(package) if package.exists() else ""
    rows = [f"- `{path.name}`: {_sentence(path)}" for path in modules]
    return "\n".join([heading, *([about, ""] if about else []), *rows, ""])


def _sentence(path: Path) -> str:
    """The first sentence of a module's docstring."""
    text = " ".join((ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split())
    sentence = re.split(r"(?<=[.?]) ", text)[0]
    return sentence


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
