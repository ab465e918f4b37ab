"""Lays out the site's pages in a folder: docs/, what lies beside it, and links as the site has them.

usage: prepare.py FOLDER
"""

from __future__ import annotations

import os.path
import posixpath
import re
import shutil
import sys
from pathlib import Path

import generated

ROOT = Path(__file__).parents[2]
BESIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security-policy.md",
    "sdk/README.md": "sdk.md",
}
PARTS = {
    "Start": ["README", "start", "connect", "concepts"],
    "Agents": ["agents/README", "transcripts"],
    "Pages": ["dashboard", "lessons"],
    "Alerts": ["alerts", "metrics", "gate"],
    "Use": ["commands", "configuration", "taxonomy", "sanitising"],
    "Build": ["api", "mcp", "sdk"],
    "Reference": ["addresses", "all-settings", "all-commands", "classes", "reference"],
    "Operations": ["durability", "security", "forward", "kubernetes", "scaling", "benchmarks", "stability"],
    "Contributing": [
        "contributing",
        "architecture",
        "processes",
        "queries",
        "modules",
        "add-an-agent",
        "add-a-transcript",
        "decisions/index",
        "seeds",
        "dependencies",
        "changelog",
        "releasing",
    ],
}
REFERENCE = """# Reference of the library

```{eval-rst}
.. automodule:: misstep_sdk
   :members: configure, session, tool_call, model_request, model_stream, model_stream_async, retry, answering, answer,
     as_agent_error, path_in

.. autoclass:: misstep_sdk.AgentError
   :members:

.. autoclass:: misstep_sdk.MistakeTracker
   :members:

.. autoclass:: misstep_sdk.Recorder
   :members:
```
"""
MADE_HERE = {  # what a page says of a page that only the site has → with a link to it
    "docs/api.md": ("The site (`make site`) has the same as a page.", "[Here](addresses.md) is the same as a page."),
    "docs/configuration.md": (
        "they are in [schemas/settings.toml](../schemas/settings.toml).", "so does [All settings](all-settings.md)."
    ),
    "docs/commands.md": (
        "the site (`make site`) has the same as a page.", "[here](all-commands.md) is the same as a page."
    ),
    "docs/taxonomy.md": ("The site (`make site`) has them as a page.", "[Here](classes.md) they are as a page."),
}  # fmt: skip
_LINK = re.compile(r"(\]\()([^)\s#:]+)(#[^)\s]*)?(\))")


def main(folder: Path) -> None:
    """Every page, with a table of contents at the end of the first."""
    pages = {f"docs/{path.relative_to(ROOT / 'docs').as_posix()}" for path in (ROOT / "docs").rglob("*.md")}
    for source in sorted(pages | {name for name in BESIDE if (ROOT / name).exists()}):
        _write(folder / _page(source), _with_links(source, _text(source), folder))
    _write(folder / "reference.md", REFERENCE)
    _write(folder / "addresses.md", generated.addresses())
    _write(folder / "all-settings.md", generated.settings())
    _write(folder / "all-commands.md", generated.commands())
    _write(folder / "classes.md", generated.classes())
    _write(folder / "dependencies.md", generated.dependencies())
    _write(folder / "decisions/index.md", _listed("Decisions", "decisions"))
    shutil.copytree(ROOT / "docs/images", folder / "images", dirs_exist_ok=True)
    shutil.copy(Path(__file__).with_name("conf.py"), folder)
    (folder / "static").mkdir()
    shutil.copy(Path(__file__).with_name("site.css"), folder / "static")
    index = folder / "index.md"
    index.write_text(index.read_text() + _contents(folder))


def _contents(folder: Path) -> str:
    """The navigation: all parts, and of the agents and decisions every page."""
    trees = ""
    for title, names in PARTS.items():
        there = [name for name in names if (folder / f"{name}.md").exists()]
        trees += f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n" + "\n".join(there) + "\n```\n"
    agents = folder / "agents/README.md"
    agents.write_text(agents.read_text() + "\n```{toctree}\n:hidden:\n:glob:\n\n*\n```\n")
    others = sorted(path.stem for path in folder.glob("*.md"))
    left = [name for name in others if name != "index" and not any(name in names for names in PARTS.values())]
    return trees + "\n```{toctree}\n:hidden:\n\n" + "\n".join(left) + "\n```\n"


def _listed(title: str, folder: str) -> str:
    found = sorted((ROOT / "docs" / folder).glob("*.md"))
    lines = [f"- [{path.read_text().splitlines()[0].lstrip('# ')}]({path.name})" for path in found]
    tree = "\n```{toctree}\n:hidden:\n:glob:\n\n*\n```\n"
    return f"# {title}\n\n" + "\n".join(lines) + "\n" + tree


def _with_links(source: str, text: str, folder: Path) -> str:
    here = posixpath.dirname(_page(source))

    def relative(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link[2]))
        return f"{link[1]}{posixpath.relpath(_target(target, folder), here or '.')}{link[3] or ''}{link[4]}"

    return _LINK.sub(relative, text)


def _text(source: str) -> str:
    text = (ROOT / source).read_text()
    if source not in MADE_HERE:
        return text
    said, linked = MADE_HERE[source]
    if said not in text:
        raise ValueError(f"{source} does not say {said!r}: see MADE_HERE in {__file__}")
    return text.replace(said, linked)


def _target(path: str, folder: Path) -> str:
    """A page of the site for a page; for any other file of the repository a copy of it."""
    if path == "docs/decisions":
        return "decisions/index.md"
    if path in BESIDE or path.startswith("docs/"):
        return _page(path)
    if (ROOT / path).is_dir():  # shown by what describes it
        names = sorted(each.name for each in (ROOT / path).iterdir() if each.is_file())
        path = f"{path}/{next((name for name in names if name in ('README.md', 'values.yaml')), names[0])}"
    copied = folder / "linked" / path
    copied.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / path, copied.with_name(f"{copied.name}.txt"))
    return f"linked/{path}.txt"


def _page(source: str) -> str:
    return BESIDE.get(source, source.removeprefix("docs/"))


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


if __name__ == "__main__":
    place = Path(os.path.abspath(sys.argv[1]))
    shutil.rmtree(place, ignore_errors=True)
    main(place)
